#!/usr/bin/env python3
"""Trains tokenizers of several kinds and encodes texts with them: what `dpexec tokenize` is compared with.

    tests/cli/tokenize_cases.py FOLDER [CHARACTERS [VOCABULARY]]

The folder gets text.txt, broken.txt (not UTF-8 in places), KIND.json, and KIND.text.bin and KIND.broken.bin with the ids
as uint16; of Unigram also KIND.decoded.txt, the text of the ids.  Needs `tokenizers`, `sentencepiece` and `protobuf` of PyPI.
tests/cli/tokenize holds what 6000 characters and 500 tokens gave with versions 0.23.3 and 0.2.3.
"""
import base64
import io
import json
import pathlib
import random
import sys

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

folder = pathlib.Path(sys.argv[1])
length = int(sys.argv[2]) if len(sys.argv) > 2 else 6000
vocabulary = int(sys.argv[3]) if len(sys.argv) > 3 else 500
random.seed(7)

LLAMA = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN = LLAMA.replace("{1,3}", "")
DEEPSEEK = (r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+",
            r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"""
            r"\s*[\r\n]+|\s+(?!\S)|\s+")


def split(*patterns):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(p), "isolated") for p in patterns] +
                                   [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def between(first, last):
    return lambda: chr(random.randint(first, last))


# Characters that Unicode knows for long: libraries with different versions of it agree on them.
CHARACTERS = [between(0x20, 0x7e)] * 6 + [
    between(0x4e00, 0x9fa5), between(0x3041, 0x3096), between(0xac00, 0xd7a3), between(0x1100, 0x1112), between(0x1161, 0x1175),
    between(0x1f300, 0x1f64f), between(0, 0x1f), between(0x7f, 0xff), between(0x300, 0x345), between(0x391, 0x3a1),
    between(0x410, 0x44f), between(0x620, 0x64a), between(0x905, 0x939), between(0x1d400, 0x1d454), between(0x2000, 0x200f),
    between(0xf900, 0xf920), lambda: "\u200d", lambda: "\x85", lambda: "\u180e", lambda: "ſ", lambda: "'ſ", lambda: "'S",
    lambda: "'LL", lambda: "\u212b", lambda: "½", lambda: "\ufeff"]
WORDS = """the of and don't we'll they've I'm he'd it's HELLO World DON'T naïve façade Größe e\u0301te\u0301 q\u0307\u0323 12345 3.14 1,000
    --- ... != <= => {} []; return int 東京 日本語 안녕 привет مرحبا नमस्ते 👩‍👩‍👧 🇩🇪 <|end|> <|end|>> <|left|> <|right|> <|norm\u212b|> <|end""".split()
SPACES = [" ", " ", " ", "  ", "\n", "\n\n\n", "\t", "\r\n", " \n ", "\u00a0", "\u3000"]


def some_text():
    k = random.random()
    if k < 0.6:
        return "".join(random.choice(WORDS) + random.choice(SPACES) for _ in range(random.randint(1, 20)))
    if k < 0.8:
        c = random.choice(CHARACTERS)
        return "".join(c() for _ in range(random.randint(1, 20)))
    if k < 0.98:
        return "".join(random.choice(CHARACTERS)() for _ in range(random.randint(1, 20)))
    return random.choice(" \n\ta1\u3000é!") * random.randint(1, 300)


def trained(kind, pre, text, normalizer=None):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre
    if normalizer:
        t.normalizer = normalizer
    t.train_from_iterator([text], trainers.BpeTrainer(
        vocab_size=vocabulary, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.add_special_tokens(["<|end|>", AddedToken("<|end|>>", special=True), AddedToken("<|left|>", lstrip=True),
                          AddedToken("<|right|>", rstrip=True)])
    t.add_tokens([AddedToken("<|norm\u212b|>", normalized=True), AddedToken("nam", normalized=True)])
    j = json.loads(t.to_str())
    if kind == "gpt2":          # as older files are written
        j["model"]["merges"] = [" ".join(m) for m in j["model"]["merges"]]
    if kind == "llama3":
        j["model"]["ignore_merges"] = True
        words = [w for w in j["model"]["vocab"] if len(w) > 3 and w.isalpha()][::3]     # words that no merge leads to
        j["model"]["merges"] = [m for m in j["model"]["merges"] if "".join(m) not in words]
    path = folder / f"{kind}.json"
    path.write_text(json.dumps(j, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    return Tokenizer.from_file(str(path))


# Rules of a small map of characters: combinations, expansions, deletions (a full one, nmt_nfkc, has 300 KB).
RULES = {"A\u0300": "\u00c0", "e\u0301": "\u00e9", "\u212b": "\u00c5", "\ufb01": "fi", "\u00bd": "1\u20442", "\u3000": " ", "\u00a0": " ", "\t": " ",
         "\r": " ", "\n": " ", "\u200b": "", "\ufeff": "", "\u180e": "", "\u0e33": "\u0e4d\u0e32", "\u1100\u1161": "\uac00",
         **{chr(c): chr(c - 0xfee0) for c in range(0xff21, 0xff3b)}, **{chr(c): chr(c - 0x1d400 + 65) for c in range(0x1d400, 0x1d41a)}}


def pieces(text, bytes_too):
    """Trains a model of SentencePiece: its pieces with scores, and its map of characters."""
    codes = lambda s: " ".join(f"{ord(c):X}" for c in s)
    rules, model = folder / "rules.tsv", io.BytesIO()
    rules.write_text("".join(f"{codes(a)}\t{codes(b)}\n" for a, b in RULES.items()))
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text.split("\n")), model_writer=model, model_type="unigram", vocab_size=vocabulary + 256 * bytes_too,
        normalization_rule_tsv=str(rules), byte_fallback=bytes_too, character_coverage=0.98, hard_vocab_limit=False,
        minloglevel=2, num_threads=1)
    rules.unlink()
    proto = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    return [(p.piece, p.score) for p in proto.pieces], base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()


def unigram(kind, text):
    """XLM-R's and T5's forms with models of SentencePiece, ALBERT's with one that tokenizers trained."""
    bytes_too = kind == "xlm"
    if kind == "albert":
        t = Tokenizer(models.Unigram())
        t.normalizer = normalizers.Sequence([normalizers.Replace("``", '"'), normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(),
                                             normalizers.Replace(Regex(" {2,}"), " ")])
        t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
        t.train_from_iterator([text], trainers.UnigramTrainer(vocab_size=vocabulary, unk_token="<unk>", special_tokens=["<unk>"], show_progress=False))
    else:
        vocab, charsmap = pieces(text, bytes_too)
        t = Tokenizer(models.Unigram(vocab, 0, bytes_too))
        mapped = {"type": "Precompiled", "precompiled_charsmap": charsmap}
        more = [{"type": "Strip", "strip_left": False, "strip_right": True}] if kind == "t5" else []
        more.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "\u2581" if kind == "t5" else " "})
        j = json.loads(t.to_str())
        j["normalizer"] = {"type": "Sequence", "normalizers": [mapped, *more]}
        t = Tokenizer.from_str(json.dumps(j))
        t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False) if kind == "t5" else pre_tokenizers.Metaspace()
    t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    t.add_special_tokens(["<|end|>", AddedToken("<|left|>", lstrip=True), AddedToken("<|right|>", rstrip=True)])
    t.add_tokens([AddedToken("<|norm\u212b|>", normalized=True)])
    path = folder / f"{kind}.json"
    path.write_text(json.dumps(json.loads(t.to_str()), ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    return Tokenizer.from_file(str(path))


def write_ids(t, kind):
    for name, data in ("text", text.encode()), ("broken", bytes(broken)):
        ids = t.encode(data.decode(errors="replace"), add_special_tokens=False).ids
        (folder / f"{kind}.{name}.bin").write_bytes(b"".join(i.to_bytes(2, "little") for i in ids))


text = ""
while len(text) < length:
    text += some_text()
broken = bytearray(text[:length // 3].encode())
for _ in range(len(broken) // 100 + 1):
    broken[random.randrange(len(broken))] = random.choice([0x80, 0xbf, 0xc0, 0xc3, 0xe0, 0xe2, 0xed, 0xf0, 0xf4, 0xff, 0xa0, 0x90])
broken += b"\xf0\x9f\x98"       # a character that the end cuts off
folder.mkdir(parents=True, exist_ok=True)
(folder / "text.txt").write_bytes(text.encode())
(folder / "broken.txt").write_bytes(broken)
for kind, pre, normalizer in (("gpt2", pre_tokenizers.ByteLevel(add_prefix_space=False), None),
                              ("prefix", pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                                  pre_tokenizers.ByteLevel(add_prefix_space=True)]), None),
                              ("llama3", split(LLAMA), None),
                              ("qwen2", split(QWEN), normalizers.NFC()),
                              ("deepseek", split(*DEEPSEEK), normalizers.Sequence([]))):
    write_ids(trained(kind, pre, text, normalizer), kind)
for kind in "t5", "xlm", "albert":
    t = unigram(kind, text)
    write_ids(t, kind)
    (folder / f"{kind}.decoded.txt").write_bytes(t.decode(t.encode(text, add_special_tokens=False).ids, skip_special_tokens=False).encode())
