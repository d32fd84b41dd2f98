#!/usr/bin/env python3
"""Writes a model whose training_info asks for its gradient (Gradient of ai.onnx.preview.training) into the folder given: net.onnx,
data.npz and losses.txt, the losses of 10 steps of the same by numpy in float64.

y = tanh(x w);  loss = mean((y - t)^2);  w' = w - rate dloss/dw.
"""
import sys

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper

SAMPLES, BATCH, RATE = 25, 5, 0.25
rng = np.random.default_rng(0)
w, x, t = (rng.normal(size=s).astype(np.float32) for s in ((6, 3), (SAMPLES, 6), (SAMPLES, 3)))
info = h.make_tensor_value_info
net = h.make_graph([h.make_node("MatMul", ["x", "w"], ["a"]), h.make_node("Tanh", ["a"], ["y"])], "net", [info("x", T.FLOAT, ["n", 6])],
                   [info("y", T.FLOAT, ["n", 3])], [numpy_helper.from_array(w, "w")])
step = h.make_graph([h.make_node("Sub", ["y", "t"], ["d"]), h.make_node("Mul", ["d", "d"], ["dd"]), h.make_node("ReduceMean", ["dd"], ["loss"], keepdims=0),
                     h.make_node("Gradient", ["w", "x", "t"], ["g"], domain="ai.onnx.preview.training", xs=["w"], zs=["x", "t"], y="loss"),
                     h.make_node("Mul", ["g", "rate"], ["s"]), h.make_node("Sub", ["w", "s"], ["next"])], "step", [info("t", T.FLOAT, ["n", 3])],
                    [info("loss", T.FLOAT, []), info("next", T.FLOAT, [6, 3])], [numpy_helper.from_array(np.float32(RATE), "rate")])
model = h.make_model(net, opset_imports=[h.make_opsetid("", 17), h.make_opsetid("ai.onnx.preview.training", 1)], ir_version=8)
training = model.training_info.add()
training.algorithm.CopyFrom(step)
training.update_binding.add(key="w", value="next")
onnx.save(model, sys.argv[1] + "/net.onnx")
np.savez(sys.argv[1] + "/data.npz", x=x, t=t)
w, losses = w.astype(float), []
for k in list(range(0, SAMPLES, BATCH)) * 2:
    y = np.tanh(x[k:k + BATCH].astype(float) @ w)
    d = y - t[k:k + BATCH]
    losses.append((d * d).mean())
    w -= RATE * x[k:k + BATCH].astype(float).T @ (2 * d / d.size * (1 - y * y))
np.savetxt(sys.argv[1] + "/losses.txt", losses, "%.17g")
