#!/usr/bin/env python3
"""Writes tests/api/own_losses.onnx, a model whose outputs are losses and more, own_losses.npz, data for it, and own_losses.h, what PyTorch
computes of it in float64, with the losses added up as mmengine's parse_losses does.

    pip install torch onnx numpy
    tests/api/own_losses.py
"""
import os

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

HERE = os.path.dirname(os.path.abspath(__file__))
SAMPLES, WIDTH, CLASSES, SIDES, BATCH, LR, EPOCHS = 13, 4, 3, 2, 5, 0.25, 2
rng = np.random.default_rng(10)
w, b, v = rng.standard_normal((WIDTH, CLASSES)), rng.standard_normal(CLASSES), rng.standard_normal((WIDTH, SIDES))
x, y = rng.standard_normal((SAMPLES, WIDTH)), rng.integers(0, CLASSES, SAMPLES)
z = rng.standard_normal((SAMPLES, SIDES))

real = lambda name, *shape: h.make_tensor_value_info(name, T.DOUBLE, shape)
nodes = [h.make_node("MatMul", ["x", "w"], ["s"]), h.make_node("Add", ["s", "b"], ["scores"]),
         h.make_node("SoftmaxCrossEntropyLoss", ["scores", "y"], ["loss"], reduction="mean"),
         h.make_node("MatMul", ["x", "v"], ["p"]), h.make_node("Sub", ["p", "z"], ["d"]), h.make_node("Mul", ["d", "d"], ["box_loss"]),
         h.make_node("Abs", ["scores"], ["a"]), h.make_node("ReduceMean", ["a"], ["Loss_of_size"], keepdims=0),
         h.make_node("ArgMax", ["scores"], ["best"], axis=1, keepdims=0), h.make_node("Equal", ["best", "y"], ["hit"]),
         h.make_node("Cast", ["hit"], ["hits"], to=T.DOUBLE), h.make_node("ReduceMean", ["hits"], ["acc"], keepdims=0)]
graph = h.make_graph(nodes, "own_losses", [real("x", "batch", WIDTH), h.make_tensor_value_info("y", T.INT64, ["batch"]),
                                           real("z", "batch", SIDES)],
                     [real("scores", "batch", CLASSES), real("loss"), real("box_loss", "batch", SIDES), real("Loss_of_size"), real("acc")],
                     [nh.from_array(a, n) for a, n in ((w, "w"), (b, "b"), (v, "v"))])
model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
onnx.checker.check_model(model, full_check=True)
onnx.save(model, os.path.join(HERE, "own_losses.onnx"))


def parse_losses(outputs):
    """mmengine's BaseModel.parse_losses."""
    found = [(name, value.mean()) for name, value in outputs.items()]
    total = sum(value for name, value in found if "loss" in name)
    return total, {"loss": total.item(), **{("loss.0" if n == "loss" else n): a.item() for n, a in found}}


def train(group):
    """The log variables of each update, from `group` batches together, whose means weigh as many samples as they are of."""
    p = [torch.tensor(a, requires_grad=True) for a in (w, b, v)]
    logged = []
    for _ in range(EPOCHS):
        batches = [range(i, min(i + BATCH, SAMPLES)) for i in range(0, SAMPLES, BATCH)]
        for k in range(0, len(batches), group):
            at = [i for one in batches[k:k + group] for i in one]
            xs, ys, zs = torch.tensor(x[at]), torch.tensor(y[at]), torch.tensor(z[at])
            scores = xs @ p[0] + p[1]
            total, logs = parse_losses({"scores": scores, "loss": F.cross_entropy(scores, ys), "box_loss": (xs @ p[2] - zs) ** 2,
                                        "Loss_of_size": scores.abs().mean(), "acc": (scores.argmax(1) == ys).double().mean()})
            for a in p:
                a.grad = None
            total.backward()
            with torch.no_grad():
                for a in p:
                    a -= LR * a.grad
            logged.append(list(logs.values()))
    return list(logs), logged


def data_parallel(n, replicas=4):
    """The numbers that torch.nn.DataParallel gathers of the first n samples: a module's 0-d outputs become a vector, with one for each chunk
    (torch.chunk leaves out those that would be empty)."""
    rows = []
    for at in torch.chunk(torch.arange(n), replicas):
        scores = torch.tensor(x)[at] @ torch.tensor(w) + torch.tensor(b)
        rows.append([F.cross_entropy(scores, torch.tensor(y)[at]).item(), scores.abs().mean().item(),
                     (scores.argmax(1) == torch.tensor(y)[at]).double().mean().item()])
    return np.array(rows).T


def table(name, rows, kind="double"):
    rows = np.asarray(rows)
    text = ", ".join(repr(float(a)) if kind == "double" else f"{int(a)}" for a in rows.reshape(-1))
    dims = "".join(f"[{n}]" for n in rows.shape)
    lines, line = [], "   "
    for word in text.split(" "):
        if len(line) + len(word) > 110:
            lines, line = lines + [line], "   "
        line += " " + word
    body = "\n".join(lines + [line])
    return f"static const {kind} {name}[] = {{\n{body}\n}};\n"


np.savez(os.path.join(HERE, "own_losses.npz"), x=x, y=y, z=z)
names, alone = train(1)
_, grouped = train(2)
with open(os.path.join(HERE, "own_losses.h"), "w") as f:
    f.write("/* Made by own_losses.py. */\n")
    f.write(f"enum {{ OWN_SAMPLES = {SAMPLES}, OWN_BATCH = {BATCH}, OWN_EPOCHS = {EPOCHS}, OWN_LOGS = {len(names)} }};\n")
    f.write("static const char *const own_names[OWN_LOGS] = { " + ", ".join(f'"{n}"' for n in names) + " };\n")
    f.write(table("own_x", x) + table("own_y", y, "long long") + table("own_z", z))
    f.write(table("own_alone", alone) + table("own_grouped", grouped) + table("own_whole", train(3)[1][0]))
    f.write(table("own_scores", x @ w + b))
    for n in (13, 5, 3):
        f.write(f"enum {{ OWN_PARTS_{n} = {data_parallel(n).shape[1]} }};\n" + table(f"own_parts_{n}", data_parallel(n)))
