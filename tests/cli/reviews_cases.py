"""Makes tests/cli/reviews: a table of texts, and the ids that Hugging Face's tokenizers gives for them: reviews_cases.py FOLDER_OF_TESTS.

Needs the package tokenizers.  ids.txt has a line for each row.
"""
import csv
import pathlib
import sys

import tokenizers

cli = pathlib.Path(sys.argv[1])
TEXTS = ["Good, and \"cheap\".", "bad\nover two lines", "", "NA", "  spaces  around a word ", "naïve café — 東京 🎉", "12345", "None",
         "it's well-made; would buy again, and again, and again", "né", "\ttab", "A" * 40]
LABELS = ["good", "bad", "bad", "bad", "good", "good", "bad", "bad", "good", "bad", "good", "bad"]
STARS = [5, 1, 1, 2, 4, 5, 2, 1, 5, 2, 4, 1]

folder = cli / "reviews"
folder.mkdir(exist_ok=True)
with open(folder / "reviews.csv", "w", newline="", encoding="utf-8") as f:
    out = csv.writer(f, quoting=csv.QUOTE_ALL)
    out.writerow(["stars", "review", "label"])
    out.writerows(zip(STARS, TEXTS, LABELS))
for kind in "gpt2", "llama3":
    tokenizer = tokenizers.Tokenizer.from_file(str(cli / f"tokenize/{kind}.json"))
    lines = [" ".join(map(str, tokenizer.encode(text, add_special_tokens=False).ids)) for text in TEXTS]
    (folder / f"{kind}.ids.txt").write_text("\n".join(lines) + "\n")
