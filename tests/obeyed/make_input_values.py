#!/usr/bin/env python3
"""Makes the cases of --input-value: inputs that are one number, or a few, for a whole run.  make_input_values.py

Losses and evaluations are PyTorch's in float64. Needs the packages of tests/networks/requirements.txt.
"""
import json
import pathlib

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
STEPS, BATCH, RATE, WIDTH, OUT = 5, 6, 0.1, 4, 3
rng = np.random.default_rng(12)
X = rng.standard_normal((STEPS * BATCH, WIDTH)).astype(np.float32)
TARGET = rng.standard_normal((STEPS * BATCH, OUT)).astype(np.float32)
WEIGHTS = {n: (rng.standard_normal(s) / 2).astype(np.float32)
           for n, s in {"a.weight": (WIDTH, OUT), "b.weight": (WIDTH, OUT), "b.bias": (OUT,), "c.weight": (OUT, OUT)}.items()}


def info(name, kind, dims):
    return helper.make_tensor_value_info(name, kind, dims)


def save(folder, nodes, given, names, defaults=(), ir_version=8):
    """`given`: ValueInfo of the inputs behind x; `defaults`: initializers of some."""
    graph = helper.make_graph(nodes, "net", [info("x", TensorProto.FLOAT, ["N", WIDTH]), *given], [info("y", TensorProto.FLOAT, ["N", OUT])],
                              [*(numpy_helper.from_array(WEIGHTS[n], n) for n in names), *defaults])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=ir_version)
    onnx.checker.check_model(model)
    folder.mkdir(exist_ok=True)
    onnx.save(model, folder / "model.onnx")


def branch(name, nodes):
    return helper.make_graph(nodes, name, [], [info(f"y_{name}", TensorProto.FLOAT, None)])


def layer(name, x="x", y=None, bias=False):
    y = y or f"y_{name}"
    if not bias:
        return [helper.make_node("MatMul", [x, f"{name}.weight"], [y])]
    return [helper.make_node("MatMul", [x, f"{name}.weight"], [f"{y}_product"]), helper.make_node("Add", [f"{y}_product", f"{name}.bias"], [y])]


def number(name, value, kind):
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.array(value, kind)))


def trained(forward, names):
    """-> losses of the steps, and of the evaluation behind them, in float64."""
    p = {n: nn.Parameter(torch.tensor(WEIGHTS[n]).double()) for n in names}
    optimizer = torch.optim.SGD(p.values(), RATE)
    x, target = torch.tensor(X).double(), torch.tensor(TARGET).double()
    losses = []
    for k in range(2 * STEPS):
        at = slice(k % STEPS * BATCH, (k % STEPS + 1) * BATCH)
        if k == STEPS:
            with torch.no_grad():
                after = nn.functional.mse_loss(forward(x, p), target).item()
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(forward(x[at], p), target[at])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses[:STEPS], after, losses[STEPS:]


def case(folder, values, forward, names, says=()):
    losses, after, again = trained(forward, names)
    data = {"data": "data.npz"}
    flags = ["--loss", "mse", "--batch-size", str(BATCH), "--steps", str(STEPS), "--lr", str(RATE)]
    given = [f for v in values for f in ("--input-value", v)]
    np.savez(folder / "data.npz", x=X, target=TARGET)
    (folder / "expected.json").write_text(json.dumps({
        "model": "model.onnx", **data, "flags": [*flags, *given], "losses": losses, "says": list(says), "checked": True,
        "evaluation": {**data, "flags": ["--loss", "mse"], "loss": after}, "again": {**data, "flags": flags, "losses": again},
        "source": f"PyTorch {torch.__version__.split('+')[0]} in float64, ../make_input_values.py"}, indent=1) + "\n")


def rate():
    """A rate decides between two networks, and one inside of another's branch."""
    inner = helper.make_node("If", ["slow"], ["y_a"], then_branch=branch("c", layer("a", y="h") + layer("c", "h")), else_branch=branch("d", layer("a", y="y_d")))
    nodes = [number("sixteen", 16000, np.int64), number("nine", 9000, np.int64), helper.make_node("Equal", ["sr", "sixteen"], ["wide"]),
             helper.make_node("Less", ["sr", "nine"], ["slow"]),
             helper.make_node("If", ["wide"], ["y"], then_branch=branch("b", layer("b", bias=True)), else_branch=branch("a", [inner]))]
    for folder, sr, forward, names in (
            ("input_value_rate", "sr=16000", lambda x, p: x @ p["b.weight"] + p["b.bias"], ["b.weight", "b.bias"]),
            ("input_value_rate_nested", "sr=8e3", lambda x, p: x @ p["a.weight"] @ p["c.weight"], ["a.weight", "c.weight"])):
        save(HERE / folder, nodes, [info("sr", TensorProto.INT64, [])], WEIGHTS)
        case(HERE / folder, [sr], forward, names, [f"trains {sum(WEIGHTS[n].size for n in names)} parameters in 2 tensors"])


def scale():
    """A scale, whose gradient exists and which no run may train; a vector of two; one that has a default."""
    nodes = [*layer("a", y="h"), helper.make_node("Mul", ["h", "weight"], ["s"]), helper.make_node("Gather", ["pair", "one"], ["p"]),
             helper.make_node("Mul", ["s", "p"], ["t"]), helper.make_node("Mul", ["t", "gain"], ["y"])]
    given = [info("weight", TensorProto.FLOAT, []), info("pair", TensorProto.FLOAT, ["two"]), info("gain", TensorProto.FLOAT, [1])]
    defaults = [numpy_helper.from_array(np.array([0.5], np.float32), "gain"), numpy_helper.from_array(np.array(1, np.int64), "one")]
    folder = HERE / "input_value_scale"
    save(folder, nodes, given, ["a.weight"], defaults)
    case(folder, ["weight=1.5", "pair=7,-0.75", "gain=2"], lambda x, p: x @ p["a.weight"] * 1.5 * -0.75 * 2, ["a.weight"], ["trains 12 parameters in 1 tensor"])


def switch():
    """A bool of one element that decides a branch, and by which Where chooses."""
    nodes = [helper.make_node("Squeeze", ["flip"], ["f"]), helper.make_node("Neg", ["x"], ["n"]), helper.make_node("Where", ["flip", "n", "x"], ["z"]),
             helper.make_node("If", ["f"], ["h"], then_branch=branch("a", layer("a", "z")), else_branch=branch("b", layer("b", "z"))), *layer("c", "h", "y")]
    for folder, value, sign, name in (("input_value_bool", "flip=true", -1, "a.weight"), ("input_value_bool_false", "flip=0", 1, "b.weight")):
        save(HERE / folder, nodes, [info("flip", TensorProto.BOOL, [1])], ["a.weight", "b.weight", "c.weight"])
        case(HERE / folder, [value], lambda x, p, sign=sign, name=name: sign * x @ p[name] @ p["c.weight"], [name, "c.weight"], ["trains 21 parameters in 2 tensors"])


if __name__ == "__main__":
    rate()
    scale()
    switch()
