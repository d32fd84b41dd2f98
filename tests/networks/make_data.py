#!/usr/bin/env python3
"""Makes data/: a few exported networks with what PyTorch computes, for tests/cli/networks.sh, which needs no PyTorch.

    make_data.py [PATTERN...]       only cases whose names match; in the environment of run.sh

data/NET.npz: 8 samples.  data/CASE.onnx: the file as the exporter wrote it, but for the stack traces in its metadata.
data/expected.json: for each case the loss of each of 20 steps in float64, how many parameters the network has, the file's
other tensors (`others`), and whether the file holds the same network; if not, dpexec must say so.
"""
import fnmatch
import json
import pathlib
import sys
import tempfile
import warnings

import numpy as np
import onnx
import torch

import judge
import nets
import prepare

DATA = pathlib.Path(__file__).resolve().parent / "data"
SAMPLES = 8
CASES = [
    "unet.perturbed.legacy-train-11.fixed", "unet.perturbed.default-noopt.dynamic", "unet.perturbed.default-eval.dynamic",
    "vit.perturbed.legacy-train-17.dynamic", "vit.fresh.default-eval.fixed",
    "bert.perturbed.default-noopt.dynamic", "bert.fresh.default-eval.dynamic",
    "gpt_ntv.perturbed.legacy-train-17.dynamic", "gpt_nvt.perturbed.default-eval.dynamic",
    "groupnorm.perturbed.legacy-train-17.dynamic", "instancenorm.perturbed.legacy-train-13.dynamic",
    "memory.perturbed.default-eval.dynamic", "encoder.perturbed.default-noopt.dynamic",
    "sequence_first.perturbed.legacy-train-17.dynamic", "contrastive.perturbed.default-eval.dynamic",
    "dice.perturbed.legacy-train-17.dynamic",
]


def without_traces(path):
    """Drops what a file says about lines of Python; most of its size otherwise."""
    model = onnx.load(str(path))
    for graph in [model.graph, *model.functions]:
        for node in graph.node:
            kept = [(p.key, p.value) for p in node.metadata_props if "name_scopes" in p.key]
            del node.metadata_props[:]
            for key, value in kept:
                node.metadata_props.add(key=key, value=value)
    onnx.save(model, str(path))


def small(a):
    """Numbers of few digits, which compress well."""
    return (a * 8).round() / 8 if a.is_floating_point() else a


def make(case, folder):
    name, weights, exporter, batch = case.split(".")
    spec, path = nets.NETS[name], DATA / f"{case}.onnx"
    data = {k: small(v[:SAMPLES]) for k, v in spec.data(torch.Generator().manual_seed(5)).items()}
    np.savez_compressed(DATA / f"{name}.npz", **{k: v.numpy() for k, v in data.items()})
    prepare.oracle(spec, weights, data, folder)
    prepare.export(spec, weights, data, f"{exporter}-{batch}", path)
    without_traces(path)
    oracle = json.loads((folder / "oracle.json").read_text())
    numbers = np.load(folder / "oracle.npz")
    held = judge.holders({k: numbers["first:" + k] for k in oracle["parameters"]}, judge.tensors(path)[0])
    gone = judge.lost(oracle | {"npz": folder / "oracle.npz"}, path)
    theirs = {n for names in held.values() for n in names}
    aliases = {k: t[0] for t in oracle["tied"] for k in t}
    return {"net": name, "args": ["--loss", spec.loss, *spec.flags], "lr": spec.lr, "losses": oracle["losses"],
            "same": not gone["absent"] and not gone["batch_norms"],
            "parameters": len({aliases.get(k, k) for k in oracle["parameters"]}),
            "others": sorted(k for k, a in judge.tensors(path)[0].items() if k not in theirs and a.ndim)}


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    DATA.mkdir(exist_ok=True)
    path = DATA / "expected.json"
    expected = json.loads(path.read_text()) if path.exists() else {}
    for case in CASES:
        if sys.argv[1:] and not any(fnmatch.fnmatch(case, p) for p in sys.argv[1:]):
            continue
        with tempfile.TemporaryDirectory() as folder:
            expected[case] = make(case, pathlib.Path(folder))
        print(case, (DATA / f"{case}.onnx").stat().st_size, flush=True)
        path.write_text(json.dumps({c: expected[c] for c in CASES if c in expected}, separators=(",", ":")).replace('},"', '},\n"') + "\n")


if __name__ == "__main__":
    main()
