#!/usr/bin/env python3
"""Losses, gradients and trained weights of ONNX Runtime's training 1.19.2, for the page from-onnxruntime-training.md.

    python3.11 -m venv ort && ort/bin/pip install onnxruntime-training-cpu==1.19.2 'numpy<2' 'onnx<1.17' torch
    ort/bin/python tests/oracle/onnxruntime_training.py       # writes onnxruntime_training.json

Runs the left column of the page's table of Python, and ten steps with each loss and optimizer.  torch is imported by
the package, and not used.  A test needs none of them: tests/python/test_onnxruntime_training.py.
"""
import json
import os
import pathlib
import re
import tempfile

import numpy as np

root = pathlib.Path(__file__).resolve().parent.parent.parent
stored = pathlib.Path(__file__).with_suffix(".json")
STEPS, BATCH, PIXELS, CLASSES = 10, 20, 64, 10

# Flags of dpexec for each loss, and for each optimizer.
LOSSES = {"CrossEntropyLoss": "cross-entropy", "MSELoss": "mse", "BCEWithLogitsLoss": "bce-logits", "L1Loss": "l1"}
OPTIMIZERS = {"SGD": {"optimizer": "sgd", "momentum": 0, "lr": 0.1},
              "AdamW": {"optimizer": "adamw", "eps": 1e-12, "weight_decay": 0, "lr": 0.001}}


def page():
    return next(root.glob("docs/**/from-onnxruntime-training.md"))


def cells(language, column):
    """The code in a column (0: ONNX Runtime, 1: dpexec) of the first table under a heading of the page.

    Gives the pieces of the cells that begin with code, in order.
    """
    text = re.search(rf"^## {re.escape(language)}\n(.*?)(?=^## |\Z)", page().read_text(), flags=re.S | re.M).group(1)
    out = []
    table = re.search(r"^\|.*\|$(\n^\|.*\|$)*", text, flags=re.M).group(0)
    for row in table.splitlines()[2:]:
        cell = row.strip("|").split(" | ")[column].strip()
        out += re.findall(r"`([^`]+)`", cell) if cell.startswith("`") else []
    return out


def numbers(n, seed):
    """n numbers from 0 to 1 with 24 bits, the same on every machine."""
    out = []
    for _ in range(n):
        seed = (seed * 1664525 + 1013904223) % 2**32
        out.append((seed >> 8) / 2**24)
    return np.array(out, np.float32)


def batch(k, classes=True):
    """Batch k: inputs [20, 64], and class numbers [20] or zeros and ones [20, 10]."""
    x = numbers(BATCH * PIXELS, 2 * k + 1).reshape(BATCH, PIXELS) - np.float32(0.5)
    y = numbers(BATCH * (1 if classes else CLASSES), 2 * k + 2)
    return x, (y * CLASSES).astype(np.int64) if classes else (y < 0.5).astype(np.float32).reshape(BATCH, CLASSES)


def summary(values):
    """What is stored of an array: about 20 of its numbers, evenly spread, with 9 digits."""
    flat = np.asarray(values, np.float64).ravel()
    return [float(f"{v:.9g}") for v in flat[:: max(1, len(flat) // 20)]]


def run_page(scores):
    """The page's left column; gives its variables."""
    names = {"onnx": __import__("onnx"), "np": np}
    names["x"], names["y"] = batch(0)
    os.symlink(root / "models" / "mlp.onnx", "net.onnx")
    os.mkdir("art")
    exec("\n".join(cells("Python", 0)), names)
    found = {n: summary(names[n]) for n in ("loss", "gradient", "rate", "value", "bias", "buffer")}
    return {**found, "scores": summary(scores("inference.onnx", names["x"]))}


def run_case(loss, optimizer):
    import onnx
    from onnxruntime.training import artifacts, onnxblock
    from onnxruntime.training.api import CheckpointState, Module, Optimizer
    net = onnx.load(root / "models" / "mlp.onnx")
    # OptimType.AdamW is HuggingFace's, which adds epsilon before it corrects the second moment; so epsilon is small here.
    kinds = {"SGD": artifacts.OptimType.SGD, "AdamW": onnxblock.optim.AdamW(eps=OPTIMIZERS["AdamW"]["eps"])}
    names = [i.name for i in net.graph.initializer]
    artifacts.generate_artifacts(net, requires_grad=names, loss=artifacts.LossType[loss],
                                 optimizer=kinds[optimizer], artifact_directory=".")
    state = CheckpointState.load_checkpoint("checkpoint")
    module = Module("training_model.onnx", state, "eval_model.onnx")
    update, losses = Optimizer("optimizer_model.onnx", module), []
    update.set_learning_rate(OPTIMIZERS[optimizer]["lr"])
    for k in range(STEPS):
        losses.append(float(module(*batch(k, loss == "CrossEntropyLoss"))))
        update.step()
        module.lazy_reset_grad()
    module.eval()
    return {"options": {"loss": LOSSES[loss], **OPTIMIZERS[optimizer]}, "losses": summary(losses),
            "evaluation": summary(module(*batch(STEPS, loss == "CrossEntropyLoss"))),
            "weights": summary(state.parameters["fc1.weight"].data)}


def main():
    import onnxruntime

    def scores(path, x):
        return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        found = {"version": onnxruntime.__version__, "page": run_page(scores),
                 "cases": [run_case(loss, optimizer) for loss in LOSSES for optimizer in OPTIMIZERS]}
        os.chdir(root)
    stored.write_text(json.dumps(found).replace(', "', ',\n"').replace("}, {", "},\n{") + "\n")


if __name__ == "__main__":
    main()
