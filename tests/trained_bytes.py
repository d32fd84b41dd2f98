#!/usr/bin/env python3
"""Prints a digest of the bytes that training leaves, a line for each network and setting: what a change of structure must not change.

    tests/trained_bytes.py [BUILD_DIR]        [build]; needs numpy and onnx; compare the lines of two builds on one machine with diff

The networks are those of models/, an LSTM, a GRU and linear attention, on data made from a seed; the settings are one device, three
replicas with uneven parts, and two devices in float64.  The digest is of the tensors in model.onnx, by name, and of the losses.
"""
import hashlib
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[1]
SETTINGS = {
    "one": "--optimizer sgd --lr 0.01 --momentum 0.9 --batch-size 7 --threads 1",
    "three": "--optimizer adamw --lr 0.001 --weight-decay 0.01 --clip-norm 1 --ema 0.9 --batch-size 10 --devices cpu*3 --threads 1",
    "float64": "--optimizer rmsprop --lr 0.001 --batch-size 6 --devices cpu*2 --threads 1 --dtype float64 --accumulate 2 --shard optimizer",
}
SAMPLES = 20


def networks(folder):
    """-> (name, file, flags) of each network; its data are in folder/name.npz."""
    rng = np.random.default_rng(0)
    for path in sorted((ROOT / "models").glob("*.onnx")):
        graph, arrays = onnx.load(path).graph, {}
        for v in graph.input:
            shape = [SAMPLES] + [d.dim_value for d in v.type.tensor_type.shape.dim[1:]]
            integers = v.type.tensor_type.elem_type == onnx.TensorProto.INT64
            arrays[v.name] = rng.integers(0, 255, shape) if integers else rng.standard_normal(shape, np.float32)
        flags = ["--loss", "cross-entropy"]
        if path.stem == "gan":
            flags = ["--loss", "outputs", "--group", "discriminator.*:loss=d_loss", "--group", "generator.*:loss=g_loss", "--turns"]
        else:
            classes, *rest = [d.dim_value for d in graph.output[0].type.tensor_type.shape.dim[1:]]
            arrays["target"] = rng.integers(0, classes, [SAMPLES, *rest])
        np.savez(folder / f"{path.stem}.npz", **arrays)
        yield path.stem, path, flags
    for name in ("lstm", "gru"):
        ids = rng.integers(0, 11, (SAMPLES, 6))
        np.savez(folder / f"{name}.npz", ids=ids, target=np.roll(ids, -1, 1))
        yield name, ROOT / f"tests/cli/recurrent/{name}.onnx", ["--loss", "cross-entropy"]
    subprocess.run([sys.executable, ROOT / "tests/networks/linear_attention.py", folder], check=True)
    (folder / "data.npz").rename(folder / "gated_delta.npz")
    yield "gated_delta", folder / "gated_delta.onnx", ["--loss", "cross-entropy"]


def digest(run):
    h = hashlib.sha256()
    for t in sorted(onnx.load(run / "model.onnx").graph.initializer, key=lambda t: t.name):
        h.update(t.name.encode() + numpy_helper.to_array(t).tobytes())
    for line in (run / "metrics.jsonl").read_text().splitlines():
        h.update(" ".join(part for part in line.split(",") if "loss" in part).encode())
    return h.hexdigest()[:16]


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name, path, loss in networks(folder):
            for setting, flags in SETTINGS.items():
                out = folder / f"{name}-{setting}"
                flags = flags.replace("--accumulate 2 ", "") if name == "gan" else flags    # a group's turn is a whole step
                done = subprocess.run([build / "dpexec", "train", path, "--data", folder / f"{name}.npz", *loss, *flags.split(),
                                       "--epochs", "2", "--seed", "1", "--quiet", "--out", out], capture_output=True, text=True)
                failed += done.returncode != 0
                print(f"{name:18} {setting:8}", digest(out) if done.returncode == 0 else done.stderr.strip().splitlines()[-1], flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
