#!/usr/bin/env python3
"""A frozen script: all its weights are Constant nodes, as are the ones and zeros of a GroupNorm."""
import pathlib
import sys

import torch
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import steps  # noqa: E402

torch.manual_seed(1)
net = nn.Sequential(nn.Conv2d(3, 6, 3), nn.GroupNorm(2, 6), nn.Hardswish(), nn.Flatten(), nn.LayerNorm(96), nn.Linear(96, 4))
with torch.no_grad():
    net[1].weight.uniform_(0.5, 1.5)
x, target = torch.randn(5, 3, 6, 6), torch.randint(0, 4, (5,))
steps.legacy(torch.jit.freeze(torch.jit.script(net.eval())), x, HERE / "model.onnx", opset_version=17)
steps.write(HERE, net, x, target)
