#!/bin/bash
# dpexec tokenize: the ids of Hugging Face's tokenizers for four kinds of tokenizers and texts of many scripts, controls, emoji and
# broken UTF-8 (tests/cli/tokenize_cases.py made them); the forms of the file; what is refused.  Needs python3-numpy.
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-/usr/bin/python3}
from=tests/cli/tokenize

for kind in gpt2 prefix llama3 qwen2 deepseek; do
    for name in text broken; do
        check "$kind $name" "$dpexec" tokenize $from/$kind.json $from/$name.txt -o "$DIR/ids.bin" --quiet
        check "the ids of $kind $name" cmp "$DIR/ids.bin" $from/$kind.$name.bin
    done
done
says "$from/broken.txt: not UTF-8 in 39 places, the first at byte 143; read as U+FFFD" \
    "$dpexec" tokenize $from/gpt2.json $from/broken.txt -o "$DIR/ids.bin"

# Threads encode stretches of a large text; their number changes no id.
tr -d '<' <$from/text.txt >"$DIR/plain.txt"
while [ "$(wc -c <"$DIR/large.txt" 2>/dev/null || echo 0)" -lt 600000 ]; do cat "$DIR/plain.txt" <(head -c $((RANDOM % 3000)) "$DIR/plain.txt" | iconv -c -t UTF-8) >>"$DIR/large.txt"; done
for kind in gpt2 prefix llama3 qwen2 deepseek; do
    for n in 1 2 7; do check "$kind, $n threads" "$dpexec" tokenize $from/$kind.json "$DIR/large.txt" -o "$DIR/large.$n" --workers $n --quiet; done
    check "$kind: the ids of one thread" cmp "$DIR/large.1" "$DIR/large.2"
    check "$kind: the ids of one thread of seven" cmp "$DIR/large.1" "$DIR/large.7"
done

# Forms of the file.
check "npy" "$dpexec" tokenize $from/gpt2.json $from/text.txt $from/broken.txt -o "$DIR/ids.npy" --separator '<|end|>'
check "llmc" "$dpexec" tokenize $from/gpt2.json $from/text.txt -o "$DIR/llmc.bin" --format llmc
check "bytes" "$dpexec" tokenize bytes $from/broken.txt -o "$DIR/bytes.bin"
check "forms" "$python" - "$DIR" $from <<'END'
import json, struct, sys
import numpy as np
out, given = sys.argv[1:]
text, broken = (np.fromfile(f"{given}/gpt2.{n}.bin", "<u2") for n in ("text", "broken"))
end = next(a["id"] for a in json.load(open(f"{given}/gpt2.json"))["added_tokens"] if a["content"] == "<|end|>")
ids = np.load(f"{out}/ids.npy")
assert ids.dtype == "<u2" and (ids == np.concatenate([text, [end], broken, [end]])).all()
llmc = open(f"{out}/llmc.bin", "rb").read()
assert struct.unpack("<3i", llmc[:12]) == (20240520, 1, len(text)) and len(llmc[:1024].rstrip(b"\0")) <= 12
assert llmc[1024:] == text.tobytes()
assert (np.fromfile(f"{out}/bytes.bin", "<u2") == np.fromfile(f"{given}/broken.txt", "u1")).all()
# A vocabulary of more than 65536 needs four bytes an id.
j = json.load(open(f"{given}/qwen2.json"))
j["model"]["vocab"]["ab\u0001"] = 70000
j["added_tokens"] = []
json.dump(j, open(f"{out}/large.json", "w"))
# All that dpexec lacks, at once.
j["normalizer"] = {"type": "Lowercase"}
j["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [{"type": "Metaspace"}, {"type": "Split", "pattern": {"Regex": "\\w+"}, "behavior": "Isolated"}]}
j["model"]["dropout"] = 0.5
json.dump(j, open(f"{out}/lacks.json", "w"))
json.dump({"model": {"type": "WordPiece"}, "pre_tokenizer": {"type": "ByteLevel"}}, open(f"{out}/wordpiece.json", "w"))
j = json.load(open(f"{given}/gpt2.json"))
j["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "(?:a|a)*(?:a|a)*[cd]"}, "behavior": "Isolated"}, {"type": "ByteLevel"}]}
json.dump(j, open(f"{out}/hostile.json", "w"))
j = json.load(open(f"{given}/gpt2.json"))
del j["model"]["vocab"]["Ĉ"]
j["model"]["vocab"]["other"] = 32
json.dump(j, open(f"{out}/byte.json", "w"))
open(f"{out}/a.txt", "w").write("a" * 5000 + "\b")
END
check "large" "$dpexec" tokenize "$DIR/large.json" "$DIR/a.txt" -o "$DIR/large.llmc" --format llmc
check "uint32" "$python" - "$DIR" <<'END'
import struct, sys
data = open(f"{sys.argv[1]}/large.llmc", "rb").read()
magic, version, n = struct.unpack("<3i", data[:12])
assert (magic, version, len(data)) == (20240801, 7, 1024 + 4 * n), (magic, version, n, len(data))
END

# Refusals.
refused 1 "lacks.json: dpexec reads byte-level BPE, not: normalizer Lowercase (expected none or NFC); pre_tokenizer Metaspace" \
    "$dpexec" tokenize "$DIR/lacks.json" "$DIR/a.txt" -o "$DIR/none.bin"
for lacks in "'\\w' at byte 1 of the pattern is not supported" "a pre_tokenizer without ByteLevel" "model.dropout"; do
    refused 1 "$lacks" "$dpexec" tokenize "$DIR/lacks.json" "$DIR/a.txt" -o "$DIR/none.bin"
done
refused 1 "model WordPiece (expected BPE)" "$dpexec" tokenize "$DIR/wordpiece.json" "$DIR/a.txt" -o "$DIR/none.bin"
refused 2 "a.txt: the pattern needs more than 100000 steps at byte 0" "$dpexec" tokenize "$DIR/hostile.json" "$DIR/a.txt" -o "$DIR/none.bin"
refused 2 "a.txt: the vocabulary has no token for byte 0x08" "$dpexec" tokenize "$DIR/byte.json" "$DIR/a.txt" -o "$DIR/none.bin"
refused 1 "expected a tokenizer.json; line 1" "$dpexec" tokenize $from/text.txt "$DIR/a.txt" -o "$DIR/none.bin"
refused 2 "gpt2.json has no added token '<|none|>'" "$dpexec" tokenize $from/gpt2.json "$DIR/a.txt" -o "$DIR/none.bin" --separator '<|none|>'
refused 2 "--format: expected raw or llmc, found 'npz'" "$dpexec" tokenize bytes "$DIR/a.txt" -o "$DIR/none.bin" --format npz
refused 2 "-o FILE is missing" "$dpexec" tokenize bytes "$DIR/a.txt"
refused 1 "missing.txt" "$dpexec" tokenize bytes "$DIR/a.txt" "$DIR/missing.txt" -o "$DIR/none.bin"
check "nothing is left of what was refused" test ! -e "$DIR/none.bin"
finish
