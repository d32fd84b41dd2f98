#!/usr/bin/env python3
"""Writes models whose training_info has several steps and initializations into the folder given, and what numpy makes of them.

steps.onnx: y = tanh(x w + b); a training iteration is two steps, each by a Gradient of its own, of the same loss = mean((y - t)^2) over the
same batch: the first updates w with a momentum, the second b, behind the first.  Both call what they compute by the same names.  First
values: w is 0.1 (0, 1, 2, ...), the second initialization overrides what the first says of b, and sets its algorithm's own rate.
steps.txt: the losses of both in 10 iterations, in float64.
random.onnx: y = x w f; w and f are drawn, f is not updated.
"""
import sys

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper

SAMPLES, BATCH, RATES, MOMENTUM = 25, 5, (0.25, 0.5), 0.5
info, node, folder = h.make_tensor_value_info, h.make_node, sys.argv[1]
rng = np.random.default_rng(0)
x, t = (rng.normal(size=s).astype(np.float32) for s in ((SAMPLES, 6), (SAMPLES, 3)))
OPSETS = [h.make_opsetid("", 17), h.make_opsetid("ai.onnx.preview.training", 1)]


def tensor(name, value, dtype=np.float32):
    return numpy_helper.from_array(np.asarray(value, dtype), name)


def bind(entries, **names):
    for key, value in names.items():
        entries.add(key=key, value=value)


def step(key, shape, momentum):
    """Loss and gradient of `key`, its next value, and that of its momentum `m`, if it has one."""
    nodes = [node("Sub", ["y", "t"], ["d"]), node("Mul", ["d", "d"], ["dd"]), node("ReduceMean", ["dd"], ["loss"], keepdims=0),
             node("Gradient", [key, "x", "t"], ["g"], domain="ai.onnx.preview.training", xs=[key], zs=["x", "t"], y="loss")]
    by, outputs, tensors = "g", [info("loss", T.FLOAT, []), info("next", T.FLOAT, shape)], [tensor("rate", RATES[0])]
    if momentum:
        nodes += [node("Mul", ["m", "momentum"], ["old"]), node("Add", ["old", "g"], ["next_m"])]
        by = "next_m"
        outputs.append(info("next_m", T.FLOAT, shape))
        tensors += [tensor("momentum", MOMENTUM), tensor("m", np.zeros(shape))]
    nodes += [node("Mul", [by, "rate"], ["s"]), node("Sub", [key, "s"], ["next"])]
    return h.make_graph(nodes, "step", [info("t", T.FLOAT, ["n", 3])], outputs, tensors)


def steps():
    net = h.make_graph([node("MatMul", ["x", "w"], ["xw"]), node("Add", ["xw", "b"], ["a"]), node("Tanh", ["a"], ["y"])], "net",
                       [info("x", T.FLOAT, ["n", 6])], [info("y", T.FLOAT, ["n", 3])], [tensor("w", np.full((6, 3), 9)), tensor("b", [9, 9, 9])])
    model = h.make_model(net, opset_imports=OPSETS, ir_version=8)
    first, second = model.training_info.add(), model.training_info.add()
    first.algorithm.CopyFrom(step("w", [6, 3], True))
    bind(first.update_binding, w="next", m="next_m")
    second.algorithm.CopyFrom(step("b", [3], False))
    bind(second.update_binding, b="next")
    first.initialization.CopyFrom(h.make_graph(
        [node("Range", ["none", "many", "one"], ["all"]), node("Reshape", ["all", "shape"], ["w0"]), node("Cast", ["w0"], ["float"], to=T.FLOAT),
         node("Mul", ["float", "tenth"], ["value"])], "first", [], [info("value", T.FLOAT, [6, 3]), info("float", T.FLOAT, [6, 3]), info("b0", T.FLOAT, [3])],
        [tensor("none", 0, np.int64), tensor("many", 18, np.int64), tensor("one", 1, np.int64), tensor("shape", [6, 3], np.int64), tensor("tenth", 0.125),
         tensor("b0", [5, 5, 5])]))
    bind(first.initialization_binding, w="value", b="b0")
    second.initialization.CopyFrom(h.make_graph(
        [node("ConstantOfShape", ["three"], ["value"], value=tensor("", [0.25])), node("Identity", ["half"], ["rate"])], "second", [],
        [info("value", T.FLOAT, [3]), info("rate", T.FLOAT, [])], [tensor("three", [3], np.int64), tensor("half", RATES[1])]))
    bind(second.initialization_binding, b="value", rate="rate")
    onnx.save(model, folder + "/steps.onnx")


def by_numpy():
    w, b, m, losses = np.arange(18).reshape(6, 3) * 0.125, np.full(3, 0.25), np.zeros((6, 3)), []

    def forward(at):
        y = np.tanh(x[at].astype(float) @ w + b)
        d = y - t[at]
        losses.append((d * d).mean())
        return 2 * d / d.size * (1 - y * y)

    for k in list(range(0, SAMPLES, BATCH)) * 2:
        at = slice(k, k + BATCH)
        m = MOMENTUM * m + x[at].astype(float).T @ forward(at)
        w = w - RATES[0] * m
        b = b - RATES[1] * forward(at).sum(0)
    np.savetxt(folder + "/steps.txt", np.reshape(losses, (-1, 2)), "%.17g")


def drawn():
    net = h.make_graph([node("MatMul", ["x", "w"], ["a"]), node("MatMul", ["a", "f"], ["y"])], "net", [info("x", T.FLOAT, ["n", 6])],
                       [info("y", T.FLOAT, ["n", 3])], [tensor("w", np.zeros((6, 400))), tensor("f", np.zeros((400, 3)))])
    model = h.make_model(net, opset_imports=OPSETS, ir_version=8)
    training = model.training_info.add()
    training.algorithm.CopyFrom(step("w", [6, 400], False))
    bind(training.update_binding, w="next")
    training.initialization.CopyFrom(h.make_graph(
        [node("RandomNormal", [], ["w0"], shape=[6, 400], mean=0.5, scale=0.0625), node("RandomUniform", [], ["f0"], shape=[400, 3], low=-0.25, high=0.125)],
        "draw", [], [info("w0", T.FLOAT, [6, 400]), info("f0", T.FLOAT, [400, 3])]))
    bind(training.initialization_binding, w="w0", f="f0")
    onnx.save(model, folder + "/random.onnx")


np.savez(folder + "/data.npz", x=x, t=t)
steps()
by_numpy()
drawn()
