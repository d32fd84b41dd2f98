#!/usr/bin/env python3
"""Writes tests/cli/sequence_first/: models whose input and scores are [time, batch, ...], data that holds samples first, and what
PyTorch trains on it in float64 (the loss of the whole set before the first step, and that of each step).

    pip install torch onnx numpy
    tests/cli/sequence_first.py
"""
import os

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sequence_first")
SAMPLES, TIME, WIDTH, CLASSES, BATCH, LR = 10, 7, 5, 3, 4, 0.5
rng = np.random.default_rng(4)
mix = rng.standard_normal((TIME, TIME))
weight = rng.standard_normal((WIDTH, CLASSES))
x = rng.standard_normal((SAMPLES, TIME, WIDTH))
target = rng.integers(0, CLASSES, (SAMPLES, TIME))
pooled = rng.integers(0, CLASSES, SAMPLES)
reals = rng.standard_normal((SAMPLES, TIME, CLASSES))


def save(name, pool, dims, scores):
    """mixed[u,n,c] = sum over t of mix[u,t] x[t,n,c]: every position of a sample sees its others, unless the time is open."""
    mixed = isinstance(dims[0], int)
    nodes = [h.make_node("Transpose", ["x"], ["xt"], perm=[1, 0, 2]), h.make_node("MatMul", ["mix", "xt"], ["mt"]),
             h.make_node("Transpose", ["mt"], ["m"], perm=[1, 0, 2])] if mixed else []
    nodes += [h.make_node("Tanh", ["m" if mixed else "x"], ["a"]), h.make_node("MatMul", ["a", "weight"], ["s" if pool else "scores"])]
    if pool:
        nodes.append(h.make_node("ReduceMean", ["s"], ["scores"], axes=[0], keepdims=0))
    graph = h.make_graph(nodes, name, [h.make_tensor_value_info("x", T.DOUBLE, dims)],
                         [h.make_tensor_value_info("scores", T.DOUBLE, scores)],
                         ([nh.from_array(mix, "mix")] if mixed else []) + [nh.from_array(weight, "weight")])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, os.path.join(HERE, name + ".onnx"))


def scores(batch, m, w):
    return torch.tanh(torch.einsum("ut,tnc->unc", m, batch)) @ w


def train(name, loss, y, pool, first_mix=mix):
    data, y = torch.tensor(x), torch.tensor(y)
    m, w = (torch.tensor(a, requires_grad=True) for a in (first_mix, weight))
    trained = [w] if first_mix is not mix else [m, w]

    def batch_loss(rows):
        s = scores(data[rows].transpose(0, 1), m, w)
        return loss(s.mean(0), y[rows]) if pool else loss(s.transpose(0, 1), y[rows])

    out = [batch_loss(slice(None)).item()]
    for first in range(0, SAMPLES, BATCH):
        value = batch_loss(slice(first, first + BATCH))
        out.append(value.item())
        for p, g in zip(trained, torch.autograd.grad(value, trained)):
            p.data -= LR * g
    return name + " " + " ".join(repr(v) for v in out)


def main():
    os.makedirs(HERE, exist_ok=True)
    save("open", False, ["T", "N", WIDTH], ["T", "N", CLASSES])
    save("words", False, [TIME, "batch_size", WIDTH], [TIME, "batch_size", CLASSES])
    save("silent", False, [TIME, "N", WIDTH], [TIME, "d", CLASSES])
    save("unnamed", False, [TIME, None, WIDTH], [TIME, None, CLASSES])
    save("fixed", False, [TIME, BATCH, WIDTH], [TIME, BATCH, CLASSES])
    save("pooled", True, [TIME, "N", WIDTH], ["n", CLASSES])
    np.savez(os.path.join(HERE, "data.npz"), x=x, target=target)
    np.savez(os.path.join(HERE, "pooled.npz"), x=x, target=pooled)
    np.savez(os.path.join(HERE, "reals.npz"), x=x, target=reals)
    np.savez(os.path.join(HERE, "as_the_model.npz"), x=x.transpose(1, 0, 2), target=target)
    np.save(os.path.join(HERE, "x.npy"), x.transpose(1, 0, 2))
    cross = lambda s, t: F.cross_entropy(s.reshape(-1, CLASSES), t.reshape(-1))
    with open(os.path.join(HERE, "torch.txt"), "w", encoding="utf-8") as f:
        for line in (train("classes", cross, target, False), train("pooled", cross, pooled, True), train("mse", F.mse_loss, reals, False),
                     train("open", cross, target, False, np.eye(TIME))):
            f.write(line + "\n")


main()
