#!/usr/bin/env python3
"""The time of updates alone, of two builds of dpexec alternately in one run.  Needs numpy, onnx.

    bench/updates.py [--dpexec build/dpexec] [--against OLD/dpexec] [--threads 1] [--rounds 7] [--sizes 20000,200000,4000000]

A model of one product has one parameter.  Of what --trace says of its update in each step the least counts (other load on the
machine only adds), and of that the median over the rounds.  Prints nanoseconds an element and the ratio of both builds.
"""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

STEPS, IN = 24, 8
OPTIMIZERS = {"sgd": ["--optimizer", "sgd"],
              "momentum": ["--optimizer", "sgd", "--momentum", "0.9", "--weight-decay", "0.01"],
              "nesterov": ["--optimizer", "sgd", "--momentum", "0.9", "--nesterov"],
              "adam": ["--optimizer", "adam"],
              "adamw": ["--optimizer", "adamw", "--weight-decay", "0.01"],
              "lion": ["--optimizer", "lion", "--weight-decay", "0.01"],
              "adagrad": ["--optimizer", "adagrad"],
              "rmsprop": ["--optimizer", "rmsprop", "--centered", "--momentum", "0.9"]}


def write_model(folder, size):
    """y = x w, w of `size` elements, and data for it."""
    out = size // IN
    w = np.random.default_rng(0).standard_normal((IN, out)).astype(np.float32) / 8
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", IN])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", out])],
                              [numpy_helper.from_array(w, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "m.onnx")
    rng = np.random.default_rng(1)
    np.savez(folder / "d.npz", x=rng.standard_normal((STEPS, IN)).astype(np.float32), target=np.arange(STEPS) % 8)


def update_seconds(dpexec, folder, flags, threads):
    trace, out = folder / "trace.json", folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    subprocess.run([dpexec, folder / "m.onnx", "--data", folder / "d.npz", "--loss", "cross-entropy", "--batch-size", "1", "--steps", str(STEPS),
                    "--threads", str(threads), "--out", out, "--trace", trace, *flags],
                   check=True, capture_output=True)
    events = json.loads(trace.read_text())["traceEvents"]
    spent = sorted(e["dur"] * 1e-6 for e in events if e.get("cat", "").endswith("Update"))
    if len(spent) != STEPS:
        raise SystemExit(f"{dpexec}: {len(spent)} updates in {STEPS} steps of one parameter")
    return spent[0]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--dpexec", default="build/dpexec")
    p.add_argument("--against")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--sizes", default="20000,200000,4000000")
    p.add_argument("--only", nargs="*", default=list(OPTIMIZERS))
    a = p.parse_args()
    builds = [a.dpexec] + ([a.against] if a.against else [])
    for size in map(int, a.sizes.split(",")):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            write_model(folder, size)
            for optimizer in a.only:
                times = [[update_seconds(b, folder, OPTIMIZERS[optimizer], a.threads) / size * 1e9 for b in builds] for _ in range(a.rounds)]
                medians = [statistics.median(t) for t in zip(*times)]
                ratio = f"  ratio {medians[0] / medians[1]:.2f}" if a.against else ""
                print(f"{size:9} {optimizer:9} " + " ".join(f"{m:7.3f}" for m in medians) + f" ns{ratio}", flush=True)


if __name__ == "__main__":
    main()
