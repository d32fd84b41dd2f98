#!/usr/bin/env python3
"""Trains models of SentencePiece and encodes texts with them: what `dpexec tokenize` is compared with.

    tests/cli/sentencepiece_cases.py FOLDER

The folder has text.txt and broken.txt of tests/cli/tokenize_cases.py, and gets spm_KIND.model, and spm_KIND.text.bin and
spm_KIND.broken.bin with the ids as uint16: those of the lines that are not empty, each with <s> behind
it; spm_KIND.large.sha256 is the digest of those of the text 16 times.  Needs `sentencepiece` and `protobuf`
of PyPI.  tests/cli/tokenize holds what version 0.2.3 gave.
"""
import hashlib
import io
import pathlib
import sys

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

folder = pathlib.Path(sys.argv[1])
# A small map of characters (a full one, nmt_nfkc, has 300 KB).
RULES = {"A\u0300": "\u00c0", "e\u0301": "\u00e9", "\u212b": "\u00c5", "\ufb01": "fi", "\u00bd": "1\u20442", "\u3000": " ", "\u00a0": " ", "\t": " ",
         "\r": "", "\u200b": "", "\ufeff": "", "\u1100": "x", "\u1100\u1161": "\uac00", "\u1100\u1161\u11a8": "\uac01",
         **{chr(c): chr(c - 0xfee0) for c in range(0xff21, 0xff3b)}, **{chr(c): chr(c - 0x1d400 + 65) for c in range(0x1d400, 0x1d41a)}}
LLAMA = dict(byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True, pad_id=3)
KINDS = {
    "unigram": dict(model_type="unigram", character_coverage=0.98),
    "unigram_llama": dict(model_type="unigram", **LLAMA),
    "unigram_user": dict(model_type="unigram", user_defined_symbols=["don't", "nam", "<|end|>"], treat_whitespace_as_suffix=True),
    "bpe": dict(model_type="bpe", character_coverage=0.98, user_defined_symbols=["don't", "nam", "<|end|>"]),
    "bpe_llama": dict(model_type="bpe", **LLAMA),
    "bpe_unused": dict(model_type="bpe", add_dummy_prefix=False),
}
text, broken = ((folder / f"{name}.txt").read_bytes().decode(errors="replace") for name in ("text", "broken"))
rules = folder / "rules.tsv"
codes = lambda s: " ".join(f"{ord(c):X}" for c in s)
rules.write_text("".join(f"{codes(a)}\t{codes(b)}\n" for a, b in RULES.items()))
for kind, how in KINDS.items():
    if "normalization_rule_name" not in how:
        how["normalization_rule_tsv"] = str(rules)
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(text.split("\n")), model_writer=model, vocab_size=800,
                                             hard_vocab_limit=False, minloglevel=2, num_threads=1, **how)
    proto = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    if kind == "bpe_unused":
        for i, p in enumerate(proto.pieces):
            if p.type == 1 and len(p.piece) > 1 and i % 3 == 0:
                p.type = 5
    proto.trainer_spec.input.clear()
    proto.normalizer_spec.normalization_rule_tsv = ""
    path = folder / f"spm_{kind}.model"
    path.write_bytes(proto.SerializeToString())
    t = sentencepiece.SentencePieceProcessor(model_file=str(path))
    for name, data in ("text", text), ("broken", broken):
        ids = [i for line in data.split("\n") if line for i in [*t.encode(line), t.bos_id()]]
        (folder / f"spm_{kind}.{name}.bin").write_bytes(b"".join(i.to_bytes(2, "little") for i in ids))
    large = t.encode("\n".join([text] * 16))        # whose sum of scores is beyond what floats hold
    (folder / f"spm_{kind}.large.sha256").write_text(hashlib.sha256(b"".join(i.to_bytes(2, "little") for i in large)).hexdigest() + "\n")
rules.unlink()
