#!/usr/bin/env python3
"""Tokens a second of dpexec generate, which keeps keys and values of earlier tokens, beside ONNX Runtime, which computes all tokens of
the text for each new one.  Both write the likeliest tokens, and the same ones.

    build/python/bin/python bench/generate.py --dpexec build/dpexec --threads 2

Needs onnxruntime and numpy.  The models are those of dpexec new gpt: GPT-2's size, and the small one of docs/tutorial/nothing.md.
Seconds are those of a whole text less those of its first four tokens, which also pay for loading, planning and the check.
"""
import argparse
import json
import pathlib
import resource
import subprocess
import tempfile
import time

import numpy as np
import onnxruntime

FIRST = 4
MODELS = {"gpt2": "--layers 12 --width 768 --heads 12 --block 256 --vocab 50257", "small": ""}


def written(dpexec, model, prompt, tokens, threads):
    """The text's bytes, the seconds, and those of processors."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    run = subprocess.run([dpexec, "generate", model, "--prompt", prompt, "--tokens", str(tokens), "--temperature", "0", "--threads",
                          str(threads)], check=True, capture_output=True)
    whole, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert b"anew" not in run.stderr, run.stderr.decode()
    return run.stdout, np.array([whole, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime])


def recomputed(model, prompt, tokens, threads):
    """The ids, and both clocks when each was there."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    net = onnxruntime.InferenceSession(model, options)
    name, ids, at = net.get_inputs()[0].name, list(prompt.encode()), []
    for _ in range(tokens):
        ids.append(int(net.run(None, {name: np.array([ids], np.int64)})[0][0, -1].argmax()))
        at.append(np.array([time.perf_counter(), time.process_time()]))
    return ids, at


def measure(dpexec, model, tokens, threads, rounds):
    prompt = "The "
    ours, theirs = [], []
    for _ in range(rounds):
        text, whole = written(dpexec, model, prompt, tokens, threads)
        ours.append((tokens - FIRST) / (whole - written(dpexec, model, prompt, FIRST, threads)[1]))
        ids, at = recomputed(model, prompt, tokens, threads)
        theirs.append((tokens - FIRST) / (at[-1] - at[FIRST - 1]))
        same = b"".join(bytes([i]) if i < 256 else b"\xef\xbf\xbd" for i in ids)
        assert text[:-1] == same, (text, same)
    ours, theirs = np.median(ours, axis=0), np.median(theirs, axis=0)
    return {"tokens": tokens, "dpexec a second": ours[0], "onnxruntime a second": theirs[0], "ratio": ours[0] / theirs[0],
            "dpexec CPU ms": 1e3 / ours[1], "onnxruntime CPU ms": 1e3 / theirs[1]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dpexec", default="build/dpexec")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=250)
    parser.add_argument("--models", default=",".join(MODELS))
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in a.models.split(","):
            model = str(pathlib.Path(folder) / f"{name}.onnx")
            subprocess.run([a.dpexec, "new", "gpt", *MODELS[name].split(), "-o", model], check=True, capture_output=True)
            tokens = a.tokens if name == "gpt2" else min(a.tokens, 120)
            print(json.dumps({"model": name, **measure(a.dpexec, model, tokens, a.threads, a.rounds)}), flush=True)


if __name__ == "__main__":
    main()
