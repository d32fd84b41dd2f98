#!/usr/bin/env python3
"""Writes the cases moved_constants_*: a GroupNorm, which PyTorch's older exporter writes as an InstanceNormalization by ones and zeros in
Constant nodes, behind simplifiers that make those initializers.

    make_moved_constants.py     needs the packages of tests/networks/requirements.txt, and onnxslim and onnxoptimizer
"""
import pathlib
import tempfile

import numpy as np
import onnx
import onnxoptimizer
import onnxslim
import torch
from torch import nn

import steps

HERE = pathlib.Path(__file__).resolve().parent


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv1d(3, 4, 3), nn.GroupNorm(2, 4), nn.Linear(4, 3)
        self.norm.eps = float(np.float32(self.norm.eps))

    def forward(self, x):
        return self.head(torch.tanh(self.norm(self.conv(x))).mean(2))


TOOLS = {"onnxoptimizer": lambda source, path: onnx.save(onnxoptimizer.optimize(onnx.load(source)), path),
         "onnxslim": lambda source, path: onnx.save(onnxslim.slim(source), path)}
for tool, simplify in TOOLS.items():
    folder = HERE / f"moved_constants_{tool}"
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(9)
    x, target = rng.standard_normal((6, 3, 7)).astype(np.float32), rng.integers(0, 3, 6)
    torch.manual_seed(5)
    net = Net()
    with torch.no_grad():
        net.norm.weight.normal_()
        net.norm.bias.normal_()
    with tempfile.TemporaryDirectory() as work:
        steps.legacy(net, x[:2], f"{work}/net.onnx", do_constant_folding=False, training=torch.onnx.TrainingMode.TRAINING)
        simplify(f"{work}/net.onnx", folder / "model.onnx")
    held = [i.name for i in onnx.load(folder / "model.onnx").graph.initializer]
    assert any("Constant_1_output_0" in k for k in held), held
    steps.write(folder, net, x, target, says=["trains 63 parameters in 6 tensors"])
