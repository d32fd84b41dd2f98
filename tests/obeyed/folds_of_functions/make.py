#!/usr/bin/env python3
"""What exporters computed from parameters that the file still has by exp, log, sqrt and others: this case by the default exporter,
../folds_legacy by the older one, which does not say from what."""
import pathlib
import sys

import torch
import torch.nn.functional as F
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import steps  # noqa: E402


class Net(nn.Module):
    """Uncertainty weights, a temperature, gates; each parameter is read as it is, too."""

    def __init__(self):
        super().__init__()
        self.fc, self.out = nn.Linear(6, 6), nn.Linear(6, 4)
        self.log_var, self.t, self.gate = nn.Parameter(0.3 * torch.randn(6)), nn.Parameter(torch.tensor(0.7)), nn.Parameter(torch.rand(6) + 0.5)

    def forward(self, x):
        h = self.fc(x) + self.log_var * x + self.t
        h = torch.exp(-self.log_var) * h + h.tanh() * self.t.exp() + F.softplus(self.gate) * h.sin()
        return self.out(h * self.gate + self.gate.sqrt() * h.cos() + torch.sigmoid(-self.gate) * h.sigmoid() + self.gate.log() * h.tanh())


class Legacy(Net):
    """The older exporter folds signs, quotients and roots."""

    def forward(self, x):
        h = self.fc(x) + self.log_var * x + self.t
        h = torch.exp(-self.log_var) * h + h.tanh() * (-self.t).exp()
        return self.out(h * self.gate + self.gate.sqrt() * h.cos())


for folder, kind, export in ((HERE, Net, steps.default), (HERE.parent / "folds_legacy", Legacy, steps.legacy)):
    torch.manual_seed(0)
    net = kind()
    x, target = torch.randn(5, 6), torch.randint(0, 4, (5,))
    export(net, x, folder / "model.onnx")
    steps.write(folder, net, x, target, lr=0.05, trained=[n for n, _ in net.named_parameters()])
