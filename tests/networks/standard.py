"""BUILD MODEL.onnx DATA.npz BATCH [OPTIONS of a run]: five steps of the file that --standard writes, run by ONNX Runtime, against dpexec train.

Losses, relative to the larger of 1 and their size, and states, by norm, must agree to 1e-4.  Where they do not, for a step may amplify
rounding (Relu's decisions, Adam's divisions), the same is done in float64, to 1e-6, with onnx.reference, whose convolutions are
PyTorch's here: its own are slow, and wrong for ConvTranspose in groups."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnx.reference
import onnxruntime
import torch
from onnx.reference.op_run import OpRun

import judge

STEPS, TOLERANCE, EXACTLY = 5, 1e-4, 1e-6


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)


class Conv(OpRun):
    def _run(self, x, w, b=None, auto_pad=None, dilations=None, group=None, kernel_shape=None, pads=None, strides=None):
        assert auto_pad == "NOTSET"
        rank = x.ndim - 2
        pads = pads or [0] * 2 * rank
        around = [p for i in reversed(range(rank)) for p in (pads[i], pads[rank + i])]
        convolve = (torch.conv1d, torch.conv2d, torch.conv3d)[rank - 1]
        return (convolve(torch.nn.functional.pad(torch.tensor(x), around), torch.tensor(w), None if b is None else torch.tensor(b),
                         strides or 1, 0, dilations or 1, group or 1).numpy(),)


class ConvTranspose(OpRun):
    def _run(self, x, w, b=None, auto_pad=None, dilations=None, group=None, kernel_shape=None, output_padding=None, output_shape=None,
             pads=None, strides=None):
        assert auto_pad == "NOTSET" and not output_shape
        rank = x.ndim - 2
        transposed = (torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d)[rank - 1]
        full = transposed(torch.tensor(x), torch.tensor(w), None, strides or 1, 0, 0, group or 1, dilations or 1)
        pads, extra = pads or [0] * 2 * rank, output_padding or [0] * rank
        cut = [p for i in reversed(range(rank)) for p in (-pads[i], extra[i] - pads[rank + i])]
        y = torch.nn.functional.pad(full, cut).numpy()
        return (y if b is None else y + b.reshape(-1, *[1] * rank),)


def session_of(path, dtype):
    if dtype == "float64":
        return onnx.reference.ReferenceEvaluator(path, new_ops=[Conv, ConvTranspose])
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def train_there(path, dtype, arrays, batch, options):
    """-> losses, states by name."""
    session, state, losses = session_of(path, dtype), {}, []
    graph = onnx.load(path).graph
    names = [o.name for o in graph.output]
    fed = {i.name: arrays[i.name].astype(onnx.helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type))
           for i in graph.input if i.name in arrays}
    axis = batch_axes(options)
    for k in range(STEPS):
        out = dict(zip(names, session.run(names, {**{n: np.moveaxis(a[k * batch:(k + 1) * batch], 0, axis.get(n, 0)) for n, a in fed.items()}, **state})))
        losses.append(float(out["loss"]))
        state = {name.removesuffix(".next"): v for name, v in out.items() if name.endswith(".next")}
    return losses, state


def train_here(out, model, data, batch, words):
    run(f"{build}/dpexec", "train", model, "--data", data, "--batch-size", str(batch), "--steps", str(STEPS), "--no-shuffle",
        "--threads", "1", "--out", out, *words)
    losses = [m["loss"] for m in map(json.loads, open(f"{out}/metrics.jsonl")) if "loss" in m]
    assert len(losses) == STEPS
    return losses, judge.state(next(pathlib.Path(out, "checkpoints").glob("step-*/state.safetensors")))


def apart(a, b):
    """Two results of training: the largest difference of a loss, of a state, and which state that is."""
    common = a[1].keys() & b[1].keys()
    assert common
    worst = max((np.linalg.norm(a[1][n] - b[1][n]) / max(np.linalg.norm(b[1][n]), 1e-3), n) for n in common)
    return (max(abs(x - y) / max(1, abs(y)) for x, y in zip(a[0], b[0], strict=True)), *worst)


def compare(folder, dtype, arrays, model, batch, options):
    step, shown, words = f"{folder}/{dtype}.onnx", f"{folder}/data.npz", (*options, "--dtype", dtype)
    np.savez(shown, **arrays)
    run(f"{build}/graph-transform", model, "--batch-size", str(batch), *words, "--standard", "-o", step)
    onnx.checker.check_model(onnx.load(step), full_check=True)
    return apart(train_there(step, dtype, arrays, batch, options), train_here(f"{folder}/{dtype}", model, shown, batch, words))


def batch_axes(options):
    """-> {input: axis} of --batch-input NAME:AXIS."""
    given = [o for flag, words in zip(options, options[1:]) if flag == "--batch-input" for o in words.split(",")]
    return {n: int(a) for n, a in (o.rsplit(":", 1) for o in given if ":" in o)}


def main(model, data, batch, *options):
    batch = int(batch)
    arrays = {k: np.concatenate([v] * (STEPS * batch // len(v) + 1))[:STEPS * batch] for k, v in np.load(data).items()}
    with tempfile.TemporaryDirectory() as folder:
        loss, state, name = compare(folder, "float32", arrays, model, batch, options)
        line, agrees = f"losses {loss:.1e}, states {state:.1e} ({name})", max(loss, state) < TOLERANCE
        if not agrees:
            loss, state, name = compare(folder, "float64", arrays, model, batch, options)
            line, agrees = f"{line}; in float64 {loss:.1e}, {state:.1e} ({name})", max(loss, state) < EXACTLY
    print(f"{os.path.basename(model)} {' '.join(options)}: {line}")
    return not agrees


onnxruntime.set_default_logger_severity(3)
build = sys.argv[1]
sys.exit(main(*sys.argv[2:]))
