#!/usr/bin/env python3
"""Makes this case: convolutions over an image padded with a learned value, in a hand-made file where a flag alone calls it a parameter."""
import json
import pathlib

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import TensorProto as T, helper as h, numpy_helper

HERE, BATCH, STEPS, LR = pathlib.Path(__file__).resolve().parent, 4, 5, 0.2
rng = np.random.default_rng(5)
w, fill = rng.normal(size=(2, 2, 3, 3)).astype(np.float32), np.float32(0.75)
x, target = rng.normal(size=(BATCH * STEPS, 2, 4, 5)).astype(np.float32), rng.normal(size=(BATCH * STEPS, 2, 4, 5)).astype(np.float32)
graph = h.make_graph(
    [h.make_node("Pad", ["x", "pads", "fill"], ["padded"], name="pad"), h.make_node("Conv", ["padded", "w"], ["y"], name="conv")], "g",
    [h.make_tensor_value_info("x", T.FLOAT, ["N", 2, 4, 5])], [h.make_tensor_value_info("y", T.FLOAT, ["N", 2, 4, 5])],
    [numpy_helper.from_array(w, "w"), numpy_helper.from_array(np.array(fill), "fill"),
     numpy_helper.from_array(np.array([0, 0, 1, 1, 0, 0, 1, 1]), "pads")])
onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 18)], ir_version=8), HERE / "model.onnx")
np.savez(HERE / "data.npz", x=x, target=target)
tensors = [torch.tensor(w, dtype=torch.float64, requires_grad=True), torch.tensor(fill, dtype=torch.float64, requires_grad=True)]
optimizer, losses = torch.optim.SGD(tensors, LR), []
for i in range(0, len(x), BATCH):
    inside = F.pad(torch.ones(1, 1, 4, 5, dtype=torch.float64), (1, 1, 1, 1))
    padded = F.pad(torch.tensor(x[i:i + BATCH]).double(), (1, 1, 1, 1)) + tensors[1] * (1 - inside)
    loss = ((F.conv2d(padded, tensors[0]) - torch.tensor(target[i:i + BATCH]).double()) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
flags = ["--loss", "mse", "--batch-size", str(BATCH), "--steps", str(STEPS), "--lr", str(LR), "--train", "fill"]
(HERE / "expected.json").write_text(json.dumps({
    "model": "model.onnx", "data": "data.npz", "flags": flags, "losses": losses, "tensors": {"fill": [tensors[1].item()]},
    "source": "make.py"}, indent=1) + "\n")
