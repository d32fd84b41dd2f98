#!/usr/bin/env python3
"""What a process takes with --shard, measured against the prediction of --dry-run.

Exports GPT-2 124M (torch) with a short sequence, trains a few steps of Adam in several processes on each level, and
sets each process's VmHWM beside what `dpexec train --dry-run` says of a process, and beside what it says for 64 of them.  What a
process takes before there is a model is measured with a small one and added to the prediction.

    bench/shard_memory.py BUILD_DIR [--processes 4] [--levels none,optimizer,gradients,parameters] [--layers 12] [--model FILE.onnx]
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import numpy as np

UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
TRAIN = ["--loss", "cross-entropy", "--optimizer", "adam", "--threads", "1", "--out", "none"]


def export(path, layers, length, width=768, heads=12, words=50257, longest=1024):
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            q, k, v = (t.reshape(-1, length, heads, width // heads).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(width, 2))
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(-1, length, width))
            return x + self.down(nn.functional.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(words, width), nn.Embedding(longest, width)
            self.blocks, self.norm = nn.Sequential(*(Block() for _ in range(layers))), nn.LayerNorm(width)
            self.head = nn.Linear(width, words, bias=False)
            self.head.weight = self.tokens.weight

        def forward(self, tokens):
            x = self.tokens(tokens) + self.places(torch.arange(length))
            return self.head(self.norm(self.blocks(x))).transpose(1, 2)

    torch.onnx.export(Net().train(), (torch.zeros(2, length, dtype=torch.int64),), str(path), input_names=["tokens"],
                      output_names=["logits"], dynamo=False, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                      opset_version=17, dynamic_axes={"tokens": {0: "batch"}, "logits": {0: "batch"}})


def children(pid):
    try:
        return [int(c) for c in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def high_water(pid):
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return int(found[1]) * 1024 if found else 0


def run(command):
    """The most memory that each child of `dpexec launch` took."""
    most = {}
    p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    while p.poll() is None:
        for child in children(p.pid):
            most[child] = max(most.get(child, 0), high_water(child))
        time.sleep(0.02)
    if p.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {p.stdout.read()}")
    return sorted(most.values())


def predict(dpexec, args, processes, level):
    out = subprocess.run([dpexec, "train", *args, "--devices", f"cpu*{processes}", "--shard", level, "--dry-run"], stdout=subprocess.PIPE,
                         text=True, check=True).stdout
    found = re.findall(r"as a process of its own: ([0-9.]+) (\w+):", out)
    return max(float(n) * UNITS[unit] for n, unit in found)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("build")
    p.add_argument("--processes", type=int, default=4)
    p.add_argument("--far", type=int, default=64)
    p.add_argument("--levels", default="none,optimizer,gradients,parameters")
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--length", type=int, default=32)
    p.add_argument("--model")
    p.add_argument("--json")
    a = p.parse_args()
    dpexec = str(pathlib.Path(a.build) / "dpexec")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model = pathlib.Path(a.model) if a.model else folder / "gpt2.onnx"
        if not model.exists():
            export(model, a.layers, a.length)
        tokens = np.random.default_rng(0).integers(0, 50257, (2 * a.processes, a.length + 1), dtype=np.int64)
        np.savez(folder / "data.npz", tokens=tokens[:, :-1], target=tokens[:, 1:])
        np.savez(folder / "small.npz", x=np.zeros((8, 64), np.float32), target=np.zeros(8, np.int64))
        launch = [dpexec, "launch", "-n", str(a.processes), "--"]
        small = run(launch + ["models/mlp.onnx", "--data", str(folder / "small.npz"), *TRAIN, "--batch-size", "8", "--steps", "50",
                              "--devices", "cpu:0", "--quiet"])
        before = max(small)
        for level in a.levels.split(","):
            args = [str(model), *TRAIN, "--batch-size", str(a.processes)]
            measured = run(launch + args + ["--data", str(folder / "data.npz"), "--steps", "2", "--devices", "cpu:0", "--shard", level,
                                            "--quiet"])
            expected = predict(dpexec, args, a.processes, level) + before
            far = predict(dpexec, args[:-1] + [str(a.far)], a.far, level) + before if a.far else None
            rows.append({"level": level, "measured": measured, "predicted": expected, "far": far})
            print(f"{level:11s} measured {min(measured) / 2**20:.0f} to {max(measured) / 2**20:.0f} MiB, predicted {expected / 2**20:.0f} "
                  f"({max(measured) / expected:.3f})" + (f"; for {a.far} processes {far / 2**20:.0f}" if far else ""), flush=True)
    if a.json:
        pathlib.Path(a.json).write_text(json.dumps({"processes": a.processes, "before": before, "rows": rows}, indent=1) + "\n")


main()
