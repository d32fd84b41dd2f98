#!/usr/bin/env python3
"""Writes tests/cli/mix/: models that mix samples of the batch, data, and what PyTorch trains on it in float64 (the loss of the whole
set before the first step, and that of each step).

    pip install torch onnx numpy
    tests/cli/mix.py
"""
import os

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mix")
SAMPLES, BATCH, LR = 26, 11, 0.5        # the last batch has 4
rng = np.random.default_rng(7)
x, text = rng.standard_normal((SAMPLES, 6)), rng.standard_normal((SAMPLES, 4))
target = rng.integers(0, 3, SAMPLES)


def save(name, nodes, inputs, output, weights, constants):
    graph = h.make_graph([h.make_node(op, i.split(), o.split(), **a) for op, i, o, a in nodes], name,
                         [h.make_tensor_value_info(n, T.DOUBLE, ["N", w]) for n, w in inputs],
                         [h.make_tensor_value_info(output[0], T.DOUBLE, output[1])],
                         [nh.from_array(a, n) for n, a in {**weights, **constants}.items()])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, os.path.join(HERE, name + ".onnx"))


def train(name, batch_loss, weights):
    w = {n: torch.tensor(a, requires_grad=True) for n, a in weights.items()}
    out = [evaluate(batch_loss, w)]
    for first in range(0, SAMPLES, BATCH):
        value = batch_loss(slice(first, first + BATCH), w)
        out.append(value.item())
        for p, g in zip(w.values(), torch.autograd.grad(value, list(w.values()))):
            p.data -= LR * g
    return name + " " + " ".join(repr(v) for v in out)


def evaluate(batch_loss, w):
    """In batches: what mixes samples mixes those of a batch."""
    parts = [slice(first, min(first + BATCH, SAMPLES)) for first in range(0, SAMPLES, BATCH)]
    return sum(batch_loss(s, w).item() * (s.stop - s.start) for s in parts) / SAMPLES


def columns():
    """Every sample is weighed against all others of its batch, feature by feature."""
    weights = {"fc1.weight": rng.standard_normal((6, 5)), "fc2.weight": rng.standard_normal((5, 3))}
    save("columns", [("MatMul", "x fc1.weight", "a", {}), ("Softmax", "a", "s", {"axis": 0}), ("Mul", "s four", "m", {}),
                     ("Add", "m a", "r", {}), ("MatMul", "r fc2.weight", "scores", {})],
         [("x", 6)], ("scores", ["N", 3]), weights, {"four": np.array(4.0)})
    data, labels = torch.tensor(x), torch.tensor(target)

    def loss(rows, w):
        a = data[rows] @ w["fc1.weight"]
        return F.cross_entropy((torch.softmax(a, 0) * 4 + a) @ w["fc2.weight"], labels[rows])

    return train("columns", loss, weights)


def towers():
    """CLIP: pairs of two towers, each sample of one against all of the other, both ways."""
    weights = {"image.weight": rng.standard_normal((6, 3)), "text.weight": rng.standard_normal((4, 3)), "scale": np.array(0.7)}
    norm = lambda of, o: [("ReduceL2", of, of + "_n", {"axes": [1], "keepdims": 1}), ("Div", f"{of} {of}_n", o, {})]
    save("towers", [("MatMul", "x image.weight", "i0", {}), ("Tanh", "i0", "i1", {}), *norm("i1", "i"),
                    ("MatMul", "text text.weight", "t0", {}), ("Tanh", "t0", "t1", {}), *norm("t1", "t"),
                    ("Exp", "scale", "e", {}), ("Mul", "i e", "ie", {}), ("Transpose", "t", "tt", {"perm": [1, 0]}),
                    ("MatMul", "ie tt", "l", {}), ("Transpose", "l", "lt", {"perm": [1, 0]}),
                    ("Shape", "x", "size", {}), ("Gather", "size zero", "n", {}), ("Range", "zero n one", "labels", {}),
                    ("SoftmaxCrossEntropyLoss", "l labels", "li", {}), ("SoftmaxCrossEntropyLoss", "lt labels", "lx", {}),
                    ("Add", "li lx", "both", {}), ("Mul", "both half", "loss", {})],
         [("x", 6), ("text", 4)], ("loss", []), weights,
         {"zero": np.array(0), "one": np.array(1), "half": np.array(0.5)})
    data, words = torch.tensor(x), torch.tensor(text)

    def loss(rows, w):
        i, t = (F.normalize(torch.tanh(d[rows] @ w[n]), dim=1) for d, n in ((data, "image.weight"), (words, "text.weight")))
        logits = i * w["scale"].exp() @ t.T
        labels = torch.arange(len(logits))
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2

    return train("towers", loss, weights)


def main():
    os.makedirs(HERE, exist_ok=True)
    np.savez(os.path.join(HERE, "data.npz"), x=x, target=target)
    np.savez(os.path.join(HERE, "pairs.npz"), x=x, text=text)
    with open(os.path.join(HERE, "torch.txt"), "w", encoding="utf-8") as f:
        for line in (columns(), towers()):
            f.write(line + "\n")


main()
