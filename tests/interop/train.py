#!/usr/bin/env python3
"""Trains models for two steps and compares what is exported in other runtimes (compare.py).

    train.py DPEXEC FOLDER MODEL.onnx...

FOLDER is for the runs.  Each model must keep its opset, its inputs and outputs and its symbolic dimensions.  Prints a line for each
model, `FAILED: ...` for those that fail; exit status 1 if any did.
"""
import argparse
import pathlib
import subprocess
import sys

import numpy as np
import onnx

import compare
import data

BATCH = 3


def train(dpexec, path, folder):
    """The path of the trained model."""
    folder.mkdir(parents=True)
    model = onnx.load(str(path))
    np.savez(folder / "data.npz", **data.draw(model.graph, BATCH))
    loss = "outputs" if model.graph.output[0].name.endswith("loss") else "cross-entropy"        # its own, as of gan.onnx
    args = [dpexec, str(path), "--data", str(folder / "data.npz"), "--loss", loss, "--batch-size", str(BATCH), "--steps", "2",
            "--lr", "0.02", "--threads", "1", "--quiet", "--out", str(folder / "out")]
    done = subprocess.run(args, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return folder / "out" / "model.onnx"


def interface(model):
    def dims(info):
        return [d.dim_param or d.dim_value for d in info.type.tensor_type.shape.dim]

    graph = model.graph
    return {"opset": compare.opset_of(model), "inputs": [(i.name, dims(i)) for i in compare.inputs_of(graph)],
            "outputs": [(o.name, dims(o)) for o in graph.output]}


def check(dpexec, path, folder):
    exported = train(dpexec, path, folder)
    args = argparse.Namespace(tolerance=1e-5, threads=1, no_reference=False, size=[], input=[], batch=BATCH)
    before, after = interface(onnx.load(str(path))), interface(onnx.load(str(exported)))
    wrong = [f"{key} {before[key]} became {after[key]}" for key in before if before[key] != after[key]]
    result, samples = compare.compare(dpexec, str(exported), args)
    if wrong or result.failed:
        raise RuntimeError("; ".join(wrong + result.failed[:4]))
    return f"opset {after['opset']}, {samples} samples alone, {result.count} outputs agree, worst {result.worst:.1e}"


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("dpexec")
    ap.add_argument("folder", type=pathlib.Path)
    ap.add_argument("model", type=pathlib.Path, nargs="+")
    args = ap.parse_args()
    failed = 0
    for path in args.model:
        try:
            print(f"{path.name}: {check(args.dpexec, path, args.folder / path.stem)}", flush=True)
        except Exception as e:      # whatever a runtime says of the file
            failed += 1
            print(f"FAILED: {path.name}: {type(e).__name__}: {' '.join(str(e).split())[:600]}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
