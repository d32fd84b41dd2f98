#!/usr/bin/env python3
"""Makes this case: OneHot with learned values (off, on), which the file's training metadata calls a parameter, along two axes."""
import json
import pathlib

import numpy as np
import onnx
import torch
from onnx import TensorProto as T, helper as h, numpy_helper

HERE, BATCH, STEPS, LR = pathlib.Path(__file__).resolve().parent, 4, 5, 0.3
rng = np.random.default_rng(6)
w, values = rng.normal(size=(5, 3)).astype(np.float32), np.array([-0.25, 1.5], np.float32)
x, target = rng.integers(0, 5, (BATCH * STEPS, 3)), rng.normal(size=(BATCH * STEPS, 3, 3)).astype(np.float32)
graph = h.make_graph(
    [h.make_node("OneHot", ["x", "depth", "onehot.values"], ["first"], name="first", axis=1),
     h.make_node("Transpose", ["first"], ["turned"], perm=[0, 2, 1]), h.make_node("OneHot", ["x", "depth", "onehot.values"], ["last"], name="last"),
     h.make_node("Mul", ["turned", "last"], ["both"]), h.make_node("MatMul", ["both", "w"], ["y"])], "g",
    [h.make_tensor_value_info("x", T.INT64, ["N", 3])], [h.make_tensor_value_info("y", T.FLOAT, ["N", 3, 3])],
    [numpy_helper.from_array(w, "w"), numpy_helper.from_array(values, "onehot.values"), numpy_helper.from_array(np.array(5), "depth")])
model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
h.set_model_props(model, {"dpexec.parameter:onehot.values": "trained", "dpexec.parameter:w": "trained"})
onnx.save(model, HERE / "model.onnx")
np.savez(HERE / "data.npz", x=x, target=target)
tensors = [torch.tensor(t, dtype=torch.float64, requires_grad=True) for t in (w, values)]
optimizer, losses = torch.optim.SGD(tensors, LR), []
for i in range(0, len(x), BATCH):
    hot = torch.nn.functional.one_hot(torch.tensor(x[i:i + BATCH]), 5).double()
    hot = tensors[1][0] + (tensors[1][1] - tensors[1][0]) * hot
    loss = (((hot * hot) @ tensors[0] - torch.tensor(target[i:i + BATCH]).double()) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
flags = ["--loss", "mse", "--batch-size", str(BATCH), "--steps", str(STEPS), "--lr", str(LR)]
(HERE / "expected.json").write_text(json.dumps({
    "model": "model.onnx", "data": "data.npz", "flags": flags, "losses": losses, "trained": ["onehot.values", "w"], "source": "make.py"},
    indent=1) + "\n")
