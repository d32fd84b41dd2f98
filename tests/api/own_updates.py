#!/usr/bin/env python3
"""Writes tests/api/own_updates.onnx, a trunk with two heads, and own_updates.h: data for it, and how PyTorch trains it in float64 where
each head has a loss of its own and the trunk the total: the log variables of each step, and the parameters after the last.

    pip install torch onnx numpy
    tests/api/own_updates.py
"""
import os
import subprocess

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

HERE = os.path.dirname(os.path.abspath(__file__))
SAMPLES, WIDTH, HIDDEN, CLASSES, SIDES, BATCH, STEPS = 13, 4, 5, 3, 2, 5, 12
rng = np.random.default_rng(13)
start = {"trunk.weight": rng.standard_normal((WIDTH, HIDDEN)) * 0.7, "trunk.bias": rng.standard_normal(HIDDEN) * 0.1,
         "a.weight": rng.standard_normal((HIDDEN, CLASSES)) * 0.7, "a.bias": rng.standard_normal(CLASSES) * 0.1,
         "b.weight": rng.standard_normal((HIDDEN, SIDES)) * 0.7}
x, y = rng.standard_normal((SAMPLES, WIDTH)), rng.integers(0, CLASSES, SAMPLES)
z = rng.standard_normal((SAMPLES, SIDES))


def save():
    real = lambda name, *shape: h.make_tensor_value_info(name, T.DOUBLE, shape)
    nodes = [h.make_node("MatMul", ["x", "trunk.weight"], ["t"]), h.make_node("Add", ["t", "trunk.bias"], ["u"]),
             h.make_node("Tanh", ["u"], ["f"]), h.make_node("MatMul", ["f", "a.weight"], ["r"]), h.make_node("Add", ["r", "a.bias"], ["s"]),
             h.make_node("SoftmaxCrossEntropyLoss", ["s", "y"], ["a_loss"], reduction="mean"),
             h.make_node("Sigmoid", ["s"], ["p"]), h.make_node("OneHot", ["y", "depth", "values"], ["hot"]),
             h.make_node("Sub", ["p", "hot"], ["e"]), h.make_node("Mul", ["e", "e"], ["a_square"]),
             h.make_node("MatMul", ["f", "b.weight"], ["q"]), h.make_node("Sub", ["q", "z"], ["d"]), h.make_node("Mul", ["d", "d"], ["b_loss"])]
    graph = h.make_graph(nodes, "own_updates",
                         [real("x", "batch", WIDTH), h.make_tensor_value_info("y", T.INT64, ["batch"]), real("z", "batch", SIDES)],
                         [real("a_loss"), real("a_square", "batch", CLASSES), real("b_loss", "batch", SIDES)],
                         [nh.from_array(a, n) for n, a in start.items()] +
                         [nh.from_array(np.array(CLASSES), "depth"), nh.from_array(np.array([0.0, 1.0]), "values")])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, os.path.join(HERE, "own_updates.onnx"))


def batches(group):
    """The samples of each step, `group` batches of an epoch together."""
    while True:
        for at in range(0, SAMPLES, BATCH * group):
            yield slice(at, min(at + BATCH * group, SAMPLES))


def train(group):
    """--lr 0.25 --momentum 0.9 --group 'a.*:loss=a_square,optimizer=adamw,lr=0.05' --group 'b.*:loss=b_loss,lr=0.125'"""
    p = {n: torch.tensor(a, requires_grad=True) for n, a in start.items()}
    of = lambda name: [t for n, t in p.items() if n.startswith(name)]
    optimizers = [torch.optim.SGD(of("trunk"), 0.25, momentum=0.9), torch.optim.AdamW(of("a."), 0.05, weight_decay=0.1),
                  torch.optim.SGD(of("b."), 0.125, momentum=0.9)]
    source, logged = batches(group), []
    for _ in range(STEPS):
        at = next(source)
        f = torch.tanh(torch.tensor(x[at]) @ p["trunk.weight"] + p["trunk.bias"])
        s, hot = f @ p["a.weight"] + p["a.bias"], F.one_hot(torch.tensor(y[at]), CLASSES)
        a_loss, a_square = F.cross_entropy(s, torch.tensor(y[at])), ((torch.sigmoid(s) - hot) ** 2).mean()
        b_loss = ((f @ p["b.weight"] - torch.tensor(z[at])) ** 2).mean()
        for name, loss in (("trunk", a_loss + b_loss), ("a.", a_square), ("b.", b_loss)):
            for t, g in zip(of(name), torch.autograd.grad(loss, of(name), retain_graph=True)):
                t.grad = g
        for o in optimizers:
            o.step()
        logged.append([v.item() for v in (a_loss + b_loss, a_loss, a_square, b_loss)])
    return logged, [t.detach().numpy() for t in p.values()]


def table(name, rows, kind="double"):
    flat = np.concatenate([np.asarray(r).reshape(-1) for r in rows])
    words = [repr(float(a)) if kind == "double" else f"{int(a)}" for a in flat]
    lines, line = [], "   "
    for word in words:
        if len(line) + len(word) > 110:
            lines, line = lines + [line], "   "
        line += f" {word},"
    body = "\n".join(lines + [line])
    return f"static const {kind} {name}[] = {{\n{body}\n}};\n"


if __name__ == "__main__":
    save()
    with open(os.path.join(HERE, "own_updates.h"), "w") as f:
        f.write("/* Made by own_updates.py. */\n")
        f.write(f"enum {{ OWN_SAMPLES = {SAMPLES}, OWN_BATCH = {BATCH}, OWN_STEPS = {STEPS}, OWN_LOGS = 4, OWN_PARAMS = {len(start)} }};\n")
        f.write("static const char *const own_params[OWN_PARAMS] = { " + ", ".join(f'"{n}"' for n in start) + " };\n")
        f.write(table("own_x", [x]) + table("own_y", [y], "long long") + table("own_z", [z]))
        for group, name in ((1, "alone"), (2, "grouped")):
            logged, after = train(group)
            f.write(table(f"own_{name}_logs", logged) + table(f"own_{name}_after", after))
    subprocess.run(["clang-format", "-i", os.path.join(HERE, "own_updates.h")], check=True)
