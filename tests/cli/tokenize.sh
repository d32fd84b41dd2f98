#!/bin/bash
# dpexec tokenize: the ids of Hugging Face's tokenizers for kinds of tokenizers and texts of many scripts, controls, emoji and
# broken UTF-8 (tests/cli/tokenize_cases.py made them); the forms of the file; what is refused.  Needs python3-numpy.
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-/usr/bin/python3}
from=tests/cli/tokenize

for kind in gpt2 prefix llama3 qwen2 deepseek t5 xlm albert; do
    for name in text broken; do
        check "$kind $name" "$dpexec" tokenize $from/$kind.json $from/$name.txt -o "$DIR/ids.bin" --quiet
        check "the ids of $kind $name" cmp "$DIR/ids.bin" $from/$kind.$name.bin
    done
done
says "$from/broken.txt: not UTF-8 in 39 places, the first at byte 143; read as U+FFFD" \
    "$dpexec" tokenize $from/gpt2.json $from/broken.txt -o "$DIR/ids.bin"

# Models of SentencePiece, line by line (tests/cli/sentencepiece_cases.py made them).
"$python" - $from "$DIR" <<'END'
import pathlib, sys
text = pathlib.Path(sys.argv[1], "text.txt").read_bytes()
pathlib.Path(sys.argv[2], "sixteen.txt").write_bytes(b"\n".join([text] * 16))
for name in "text", "broken":
    folder = pathlib.Path(sys.argv[2], name)
    folder.mkdir()
    for i, line in enumerate(pathlib.Path(sys.argv[1], f"{name}.txt").read_bytes().split(b"\n")):
        if line:
            (folder / f"{i:04d}").write_bytes(line)
END
for kind in unigram unigram_llama unigram_user bpe bpe_llama bpe_unused; do
    for name in text broken; do
        check "spm $kind $name" "$dpexec" tokenize $from/spm_$kind.model "$DIR/$name"/* -o "$DIR/ids.bin" --separator '<s>' --quiet
        check "the ids of spm $kind $name" cmp "$DIR/ids.bin" $from/spm_$kind.$name.bin
    done
    check "spm $kind large" "$dpexec" tokenize $from/spm_$kind.model "$DIR/sixteen.txt" -o "$DIR/ids.bin" --quiet
    check "the ids of spm $kind large" test "$(sha256sum <"$DIR/ids.bin" | cut -d' ' -f1)" = "$(cat $from/spm_$kind.large.sha256)"
done

# Threads encode stretches of a large text; their number changes no id.
tr -d '<' <$from/text.txt >"$DIR/plain.txt"
while [ "$(wc -c <"$DIR/large.txt" 2>/dev/null || echo 0)" -lt 600000 ]; do cat "$DIR/plain.txt" <(head -c $((RANDOM % 3000)) "$DIR/plain.txt" | iconv -c -t UTF-8) >>"$DIR/large.txt"; done
for kind in gpt2 prefix llama3 qwen2 deepseek t5 xlm albert; do
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
j["normalizer"] = {"type": "BertNormalizer"}
j["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [{"type": "Punctuation"}, {"type": "Split", "pattern": {"Regex": "\\w+"}, "behavior": "Isolated"}]}
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
# Unigram: what is broken or lacks.
def unigram(name, **other):
    j = json.load(open(f"{given}/t5.json"))
    json.dump({**j, **other, "model": {**j["model"], **other.get("model", {})}}, open(f"{out}/{name}.json", "w"))
metaspace = json.load(open(f"{given}/t5.json"))["pre_tokenizer"]
unigram("map", normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAA"})
unigram("base64", normalizer={"type": "Precompiled", "precompiled_charsmap": "*"})
unigram("cuts", normalizer={"type": "StripAccents"})
unigram("behind", pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace]})
unigram("scheme", pre_tokenizer={**metaspace, "prepend_scheme": "last"})
unigram("wide", pre_tokenizer={**metaspace, "replacement": "__"})
unigram("older", pre_tokenizer={"type": "Metaspace", "replacement": "_", "add_prefix_space": False})
unigram("byte_level", pre_tokenizer={"type": "ByteLevel"})
unigram("scores", model={"vocab": [["a", "b"]]})
unigram("unk", model={"unk_id": 1 << 20})
unigram("no_unk", model={"unk_id": None})
# Sums of scores that are equal but for the last bits, which tokenizers' parser of numbers decides.
for name, one, three in ("tie1", -3.7578559472842916, -6.019872317201952), ("tie2", -2.1401933834368845, -3.3956309020769466):
    unigram(name, normalizer=None, pre_tokenizer=None, added_tokens=[], model={"vocab": [["<unk>", 0], ["-", one], ["---", three]]})
    open(f"{out}/{name}.txt", "w").write("-" * (7 if name == "tie1" else 8))
open(f"{out}/spiece.model", "wb").write(bytes.fromhex("0a0e0a053c756e6b3e15000000001802"))
unk, a = (bytes.fromhex(h) for h in ("0a0e0a053c756e6b3e15000000001802", "0a08" "0a0161" "15000080bf"))
for name, data in (("cut", unk + a[:-2]), ("words", unk + a + bytes.fromhex("12021803")), ("map", unk + a + bytes.fromhex("1a0512034d4150")),
                   ("twice", unk + unk + a), ("byte", unk + bytes.fromhex("0a050a01621806") + a)):
    open(f"{out}/{name}.model", "wb").write(data)
# A long text, whose sum of scores is so large that a float has no digits left for those of a, b and ab.
piece = lambda s, score, kind: b"\x0a" + bytes([len(s) + 9]) + b"\x0a" + bytes([len(s)]) + s + b"\x15" + struct.pack("<f", score) + bytes([0x18, kind])
open(f"{out}/far.model", "wb").write(piece(b"<unk>", 0, 2) + piece(b"x", -10000, 1) + piece(b"a", -.3, 1) + piece(b"b", -.3, 1) + piece(b"ab", -.9, 1)
                                     + bytes.fromhex("1a0418002000"))
open(f"{out}/far.txt", "w").write("x" * 3000 + "ab")
open(f"{out}/chess.txt", "w").write("\u265f")
open(f"{out}/a.txt", "w").write("a" * 5000 + "\b")
END
check "large" "$dpexec" tokenize "$DIR/large.json" "$DIR/a.txt" -o "$DIR/large.llmc" --format llmc
check "uint32" "$python" - "$DIR" <<'END'
import struct, sys
data = open(f"{sys.argv[1]}/large.llmc", "rb").read()
magic, version, n = struct.unpack("<3i", data[:12])
assert (magic, version, len(data)) == (20240801, 7, 1024 + 4 * n), (magic, version, n, len(data))
END

check "far" "$dpexec" tokenize "$DIR/far.model" "$DIR/far.txt" -o "$DIR/far.bin" --quiet
check "far from the beginning the better sum wins" cmp <(tail -c 4 "$DIR/far.bin") <(printf '\2\0\3\0')
check "sevens" "$dpexec" tokenize "$DIR/tie1.json" "$DIR/tie1.txt" -o "$DIR/tie1.bin"
check "the ids of sevens" cmp "$DIR/tie1.bin" <(printf '\1\0\2\0\2\0')
check "eights" "$dpexec" tokenize "$DIR/tie2.json" "$DIR/tie2.txt" -o "$DIR/tie2.bin"
check "the ids of eights" cmp "$DIR/tie2.bin" <(printf '\2\0\2\0\1\0\1\0')

# Refusals.
refused 1 "lacks.json: dpexec reads byte-level BPE and Unigram, not: normalizer BertNormalizer (expected NFC, NFD" \
    "$dpexec" tokenize "$DIR/lacks.json" "$DIR/a.txt" -o "$DIR/none.bin"
for lacks in "pre_tokenizer Punctuation (expected ByteLevel, Metaspace, " "'\\w' at byte 1 of the pattern is not supported" "a pre_tokenizer without ByteLevel" "model.dropout"; do
    refused 1 "$lacks" "$dpexec" tokenize "$DIR/lacks.json" "$DIR/a.txt" -o "$DIR/none.bin"
done
refused 1 "model WordPiece (expected BPE or Unigram)" "$dpexec" tokenize "$DIR/wordpiece.json" "$DIR/a.txt" -o "$DIR/none.bin"
refused 2 "a.txt: the pattern needs more than 100000 steps at byte 0" "$dpexec" tokenize "$DIR/hostile.json" "$DIR/a.txt" -o "$DIR/none.bin"
refused 2 "a.txt: the vocabulary has no token for byte 0x08" "$dpexec" tokenize "$DIR/byte.json" "$DIR/a.txt" -o "$DIR/none.bin"
refused_json() { refused "$1" "$3" "$dpexec" tokenize "$DIR/$2.json" "$DIR/chess.txt" -o "$DIR/none.bin"; }
refused_json 1 map "normalizer Precompiled: precompiled_charsmap of 3 bytes is broken"
refused_json 1 base64 "normalizer Precompiled: precompiled_charsmap is no base64"
refused_json 1 cuts "prepend_scheme first behind a normalizer that cuts a text's beginning off"
refused_json 1 behind "pre_tokenizer Metaspace with prepend_scheme first behind another pre_tokenizer"
refused_json 1 scheme "pre_tokenizer Metaspace with prepend_scheme last"
refused_json 1 wide "pre_tokenizer Metaspace whose replacement is not one character"
refused_json 1 older "pre_tokenizer Metaspace with add_prefix_space false and prepend_scheme always"
refused_json 1 byte_level "a pre_tokenizer with ByteLevel for model Unigram"
refused_json 1 scores "piece 0 of the vocabulary is no text with a score"
refused_json 1 unk "model.unk_id is no id of the vocabulary"
refused_json 2 no_unk "chess.txt: the vocabulary has no piece for"
refused_model() { refused 1 "$2" "$dpexec" tokenize "$DIR/$1.model" "$DIR/a.txt" -o "$DIR/none.bin"; }
refused_model spiece "spiece.model: the model has no piece of text"
refused_model cut "cut.model: a broken model of SentencePiece"
refused_model words "words.model: a model of words; dpexec reads Unigram and BPE"
refused_model map "map.model: precompiled_charsmap of 3 bytes is broken"
refused_model twice "twice.model: pieces 0 and 1 are both the unknown one"
refused_model byte "byte.model: piece 1 is of a byte, and not called as <0x0A>"
refused 1 "expected a tokenizer.json; line 1" "$dpexec" tokenize $from/text.txt "$DIR/a.txt" -o "$DIR/none.bin"
refused 2 "gpt2.json has no added token '<|none|>'" "$dpexec" tokenize $from/gpt2.json "$DIR/a.txt" -o "$DIR/none.bin" --separator '<|none|>'
refused 2 "--format: expected raw or llmc, found 'npz'" "$dpexec" tokenize bytes "$DIR/a.txt" -o "$DIR/none.bin" --format npz
refused 2 "-o FILE is missing" "$dpexec" tokenize bytes "$DIR/a.txt"
refused 1 "missing.txt" "$dpexec" tokenize bytes "$DIR/a.txt" "$DIR/missing.txt" -o "$DIR/none.bin"
check "nothing is left of what was refused" test ! -e "$DIR/none.bin"
finish
