"""Fine-tuning of a model whose code nobody has, against ONNX Runtime; used by third_party.py.

A model is trained for a few steps of plain SGD, in float64, towards its own outputs and noise, by dpexec on one and on three replicas. ONNX
Runtime says whether that is right: it computes the same losses from the files that dpexec writes, and the gradient of the first step is
the slope that ONNX Runtime finds along it. The parameters w change by d = -lr g, so L(w - d) - L(w + d) = 2 |d|^2 / lr, up to terms of d^3.
"""
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

STEPS, DROP = 3, 2e-3       # the share of the first loss that the first step is to take off
LOSS, SLOPE, REPLICAS = 1e-5, 3e-2, 1e-9


class Tuned:
    """One model: `arrays` has the samples of each input first, `axes` where the file has them; `whole` are inputs that are no samples, `given`
    those that --input-value gives and that model.onnx has no longer."""

    def __init__(self, build, path, arrays, output=None, axes=None, whole=None, given=None, flags=(), drop=DROP):
        self.build, self.path, self.flags = build, path, [str(f) for f in flags]
        self.whole, self.drop = whole or {}, drop
        self.feeds = {n: np.moveaxis(a, 0, (axes or {}).get(n, 0)) for n, a in arrays.items()} | self.whole | (given or {})
        self.flags += [f for n, value in (given or {}).items() for f in ("--input-value", f"{n}={value}")]
        graph = onnx.load(str(path)).graph
        self.output = output or graph.output[0].name
        for node in graph.node:     # ONNX Runtime evaluates: batch-norms stay as they are
            self.flags += ["--freeze", node.input[3]] if node.op_type == "BatchNormalization" else []
        made = self.session(path).run([self.output], self.feeds)[0]
        noise = np.random.default_rng(6).standard_normal(made.shape)
        self.target = (made + noise * (made.std() + 0.1)).astype(np.float32)
        self.data = dict(arrays) | self.whole | {"target": self.target}
        self.flags += [f for n, axis in (axes or {}).items() for f in ("--batch-input", f"{n}:{axis}")]
        if axes:
            self.flags += [f for n in arrays if n not in axes for f in ("--batch-input", n)] + ["--batch-input", "target"]

    @staticmethod
    def session(model):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 3
        given = model.SerializeToString() if isinstance(model, onnx.ModelProto) else str(model)
        return onnxruntime.InferenceSession(given, options, providers=["CPUExecutionProvider"])

    def loss(self, model):
        """By ONNX Runtime."""
        session = self.session(model)
        made = session.run([self.output], {i.name: self.feeds[i.name] for i in session.get_inputs()})[0].astype(np.float64)
        return float(np.mean((made - self.target) ** 2))

    def train(self, folder, lr, steps, replicas=1):
        """-> losses, the model that is written, what is said of what is trained."""
        out = Path(tempfile.mkdtemp(dir=folder)) / "run"
        data = out.parent / "data.npz"
        np.savez(data, **self.data)
        words = [self.build / "dpexec", "train", self.path, "--data", data, "--loss", "mse", "--logits", self.output, "--steps", steps, "--lr",
                 repr(lr), "--batch-size", len(self.target), "--no-shuffle", "--threads", 1, "--replicas", replicas, "--dtype", "float64",
                 "--out", out, *self.flags]
        p = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False)
        if p.returncode:
            raise RuntimeError((p.stdout + p.stderr).strip().splitlines()[-1][:400])
        lines = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
        said = next((line for line in (p.stdout + p.stderr).splitlines() if line.startswith("trains ")), "")
        return [m["loss"] for m in lines if "loss" in m], onnx.load(str(out / "model.onnx")), said.split(" (")[0]


def numbers(model):
    return {t.name: numpy_helper.to_array(t).astype(np.float64) for t in model.graph.initializer}


def mirrored(before, after):
    """`before`, with all parameters on the other side of where `after` has them."""
    model, new = onnx.ModelProto(), numbers(after)
    model.CopyFrom(before)
    for t in model.graph.initializer:
        old = numpy_helper.to_array(t)
        if np.issubdtype(old.dtype, np.floating) and not np.array_equal(old, new[t.name]):
            t.CopyFrom(numpy_helper.from_array((2 * old.astype(np.float64) - new[t.name]).astype(old.dtype), t.name))
    return model


def moved(before, after):
    """Sum of squares; tables of -inf stay."""
    new = numbers(after)
    return sum(float((np.subtract(a, new[n], where=a != new[n], out=np.zeros(a.shape)) ** 2).sum()) for n, a in numbers(before).items()
               if n in new and new[n].shape == a.shape)


def judge(tuned):
    """-> whether it is right, a line."""
    with tempfile.TemporaryDirectory() as folder:
        lr = 1e-3
        start, before, _ = tuned.train(folder, 1e-30, 1)
        for _ in range(8):      # a rate at which the first step takes off DROP
            _, after, said = tuned.train(folder, lr, 1)
            square = moved(before, after) / lr**2
            if not square > 0:
                return False, "no parameter moves"
            found, lr = lr, tuned.drop * start[0] / square
            if 0.5 < lr / found < 2:
                break
        losses, _, _ = tuned.train(folder, lr, STEPS)
        three, _, _ = tuned.train(folder, lr, STEPS, 3)
        _, after, _ = tuned.train(folder, lr, 1)
        expected = 2 * moved(before, after) / lr
        theirs = [tuned.loss(m) for m in (before, after, mirrored(before, after))]
    off = max(abs(theirs[0] / losses[0] - 1), abs(theirs[1] / losses[1] - 1))
    slope = abs((theirs[2] - theirs[1]) / expected - 1)
    apart = max(abs(a / b - 1) for a, b in zip(losses, three))
    good = off <= LOSS and slope <= SLOPE and apart <= REPLICAS and losses[-1] < losses[0] and bool(np.isfinite(losses).all())
    return good, f"{said}; loss {losses[0]:.4g} to {losses[-1]:.4g}, {off:.0e} off; slope {slope:.0e}; replicas {apart:.0e}"
