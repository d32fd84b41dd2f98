#!/usr/bin/env python3
"""What the default exporter computed from parameters that the file still has: each is computed from them again."""
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
        self.fc, self.out, self.p = nn.Linear(8, 8), nn.Linear(8, 4), nn.Parameter(torch.tensor([3.0]))
        self.mix, self.gate, self.more = nn.Parameter(torch.rand(8)), nn.Parameter(torch.rand(8) + 0.5), nn.Parameter(torch.rand(8))
        self.m = nn.Parameter(torch.randn(8, 8))

    def forward(self, x):
        h = self.fc(x).abs() + 0.1
        h = (h**self.p).mean(1, keepdim=True) ** (1 / self.p) + h
        h = h * self.mix + (1 - self.mix) * h.tanh()
        h = h * self.gate + h.sin() * (-self.gate) + (self.gate * 0.3) * h.cos()
        h = h + (self.gate + self.more) * h.sigmoid() + h * self.more
        return self.out(h @ self.m + h.tanh() @ self.m.t())


torch.manual_seed(0)
net = Net()
x, target = torch.randn(5, 8), torch.randint(0, 4, (5,))
steps.default(net, x, HERE / "model.onnx")
steps.write(HERE, net, x, target, lr=0.05, trained=[n for n, _ in net.named_parameters()])
