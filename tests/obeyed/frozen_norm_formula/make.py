#!/usr/bin/env python3
"""FrozenBatchNorm2d of torchvision, which exporters write as a formula: its weight and bias are buffers."""
import pathlib
import sys

import torch
from torch import nn
from torchvision.ops import FrozenBatchNorm2d

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import steps  # noqa: E402

torch.manual_seed(5)
net = nn.Sequential(nn.Conv2d(3, 6, 3), FrozenBatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 4, 3), FrozenBatchNorm2d(4), nn.Flatten(),
                    nn.Linear(16, 4))
for n in (1, 4):
    for name in ("weight", "running_var"):
        getattr(net[n], name).uniform_(0.5, 1.5)
    for name in ("bias", "running_mean"):
        getattr(net[n], name).normal_()
x, target = torch.randn(5, 3, 6, 6), torch.randint(0, 4, (5,))
steps.legacy(net, x, HERE / "model.onnx", opset_version=17, do_constant_folding=False, training=torch.onnx.TrainingMode.TRAINING)
steps.write(HERE, net, x, target, trained=[n for n, _ in net.named_parameters()], says=["1.weight", "4.bias"])
