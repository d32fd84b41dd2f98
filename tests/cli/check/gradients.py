#!/usr/bin/env python3
"""Golden data of Gradient (ai.onnx.preview.training), in the layout of ONNX's tests, into the folder given: closed forms in float64."""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper

TRAINING = "ai.onnx.preview.training"
rng = np.random.default_rng(5)


def write(name, nodes, inputs, outputs, initializers=None):
    folder = "%s/%s/test_data_set_0" % (sys.argv[1], name)
    os.makedirs(folder)
    graph = h.make_graph(nodes, name, [h.make_tensor_value_info(k, T.DOUBLE, list(a.shape)) for k, a in inputs.items()],
                         [h.make_tensor_value_info(k, T.DOUBLE, list(a.shape)) for k, a in outputs.items()],
                         [numpy_helper.from_array(np.asarray(a), k) for k, a in (initializers or {}).items()])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17), h.make_opsetid(TRAINING, 1)])
    onnx.save(model, os.path.dirname(folder) + "/model.onnx")
    for kind, values in (("input", inputs), ("output", outputs)):
        for i, a in enumerate(values.values()):
            open("%s/%s_%d.pb" % (folder, kind, i), "wb").write(numpy_helper.from_array(np.asarray(a)).SerializeToString())


def gradient(inputs, outputs, **attributes):
    return h.make_node("Gradient", inputs, outputs, domain=TRAINING, **attributes)


node = h.make_node
x, w, v = rng.normal(size=(3, 4)), rng.normal(size=(4, 2)), rng.normal(size=(4, 2))
# o = sum tanh(x w): by w, with the values of the graph, and with others.
layer = [node("MatMul", ["x", "w"], ["h"]), node("Tanh", ["h"], ["t"]), node("ReduceSum", ["t"], ["o"], keepdims=0)]
by_w = lambda w: x.T @ (1 - np.tanh(x @ w) ** 2)
o = np.tanh(x @ w).sum()
write("layer", layer + [gradient(["w", "x"], ["dw"], xs=["w"], zs=["x"], y="o")], {"x": x, "w": w}, {"o": o, "dw": by_w(w)})
write("elsewhere", layer + [gradient(["v", "x"], ["dw"], xs=["w"], zs=["x"], y="o")], {"x": x, "w": w, "v": v}, {"o": o, "dw": by_w(v)})
# By what lies between, the second alone; y is a tensor, of which the sum counts.
write("between", layer + [gradient(["w", "h"], ["", "dh"], xs=["w", "h"], y="t")], {"x": x, "w": w},
      {"o": o, "dh": 1 - np.tanh(x @ w) ** 2})
# A parameter that the file holds; what y does not depend on.
write("held", layer + [gradient(["w", "x", "v"], ["dw", "dx", "dv"], xs=["w", "x", "v"], y="o")], {"x": x, "v": v},
      {"dw": by_w(w), "dx": (1 - np.tanh(x @ w) ** 2) @ w.T, "dv": 0 * v}, {"w": w})
# The second derivative of the sum of s^3 by way of the first: 6 s; and what becomes other operators, Sum and HardSwish.
s = rng.normal(size=5)
cube = [node("Mul", ["s", "s"], ["q"]), node("Mul", ["q", "s"], ["c"])]
write("second", cube + [gradient(["s"], ["d"], xs=["s"], y="c"), gradient(["s"], ["dd"], xs=["s"], y="d")], {"s": s}, {"d": 3 * s**2, "dd": 6 * s})
write("third", cube + [gradient(["s"], ["d"], xs=["s"], y="c"), gradient(["s"], ["dd"], xs=["s"], y="d"), gradient(["s"], ["ddd"], xs=["s"], y="dd")],
      {"s": s}, {"dd": 6 * s, "ddd": np.full(5, 6.0)})
u = np.linspace(-4, 4, 5)
write("composite", [node("HardSwish", ["u"], ["a"]), node("Sum", ["a", "u", "k"], ["b"]), gradient(["u"], ["du"], xs=["u"], y="b")], {"u": u},
      {"du": 1 + np.where(u <= -3, 0, np.where(u >= 3, 1, (2 * u + 3) / 6))}, {"k": 2.0})
# What becomes others, of an output that is not its first: a mean of four.
write("mean", [node("LayerNormalization", ["x", "one"], ["n", "mean"]), node("Cast", ["mean"], ["m"], to=T.DOUBLE),
               gradient(["x"], ["dx"], xs=["x"], y="m")], {"x": x}, {"dx": np.full((3, 4), 0.25)}, {"one": np.ones(4)})
