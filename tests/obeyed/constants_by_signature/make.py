#!/usr/bin/env python3
"""Tensors that the default exporter calls CONSTANT_TENSOR are none to train; a table of sines that it calls PARAMETER is trained,
for nothing tells whether it is frozen, and warned of."""
import pathlib
import sys

import torch
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import steps  # noqa: E402


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        angle = torch.arange(6.)[:, None] / 100 ** (torch.arange(4) / 4)
        self.positions = nn.Parameter(torch.cat([angle.sin(), angle.cos()], 1)[None])
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        mixing = torch.tensor([[0.9, 0.3, -0.2, 0.1], [0.2, 1.1, 0.4, 0.3], [0.7, -0.5, 0.8, 0.6], [0.15, 0.25, 0.35, 1.3]])
        return self.fc((x + self.positions).tanh().mean(1)) @ mixing.to(x.dtype) * torch.tensor([1.5, 0.7, 1.1, 2.0]).to(x.dtype)


torch.manual_seed(6)
net = Net()
x, target = torch.randn(5, 6, 8), torch.randint(0, 4, (5,))
steps.default(net, x, HERE / "model.onnx", optimize=False)
steps.write(HERE, net, x, target, trained=["positions", "fc.weight", "fc.bias"], says=["positions"])
