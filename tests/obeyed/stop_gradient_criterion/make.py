#!/usr/bin/env python3
"""A loss in a file of its own (--criterion), by the older exporter, which leaves no trace of detach(): --stop-gradient names one input of a node there."""
import copy
import json
import pathlib
import warnings

import numpy as np
import torch
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
STEPS, LR = 3, 0.3


class Loss(nn.Module):
    def forward(self, y, target):
        return ((y * torch.tanh(y).detach() - target) ** 2).mean()


warnings.simplefilter("ignore")
torch.manual_seed(0)
net, x, target = nn.Linear(4, 3), torch.randn(8, 4), torch.randn(8, 3)
how = dict(dynamo=False, opset_version=17, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)
torch.onnx.export(net, (x,), HERE / "model.onnx", input_names=["x"], output_names=["y"], dynamic_axes={"x": {0: "batch"}}, **how)
torch.onnx.export(Loss(), (net(x).detach(), target), HERE / "loss.onnx", input_names=["y", "target"], output_names=["loss"],
                  dynamic_axes={"y": {0: "batch"}, "target": {0: "batch"}}, **how)
np.savez(HERE / "data.npz", x=x.numpy(), target=target.numpy())
net, losses = copy.deepcopy(net).double(), []
optimizer = torch.optim.SGD(net.parameters(), LR)
for _ in range(STEPS):
    optimizer.zero_grad()
    loss = Loss()(net(x.double()), target.double())
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
flags = ["--criterion", "loss.onnx", "--batch-size", "8", "--steps", str(STEPS), "--lr", str(LR), "--stop-gradient", "/Tanh>/Mul:1"]
(HERE / "expected.json").write_text(json.dumps({"model": "model.onnx", "data": "data.npz", "flags": flags, "losses": losses, "source": "make.py"}, indent=1) + "\n")
