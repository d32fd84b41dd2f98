#!/usr/bin/env python3
"""Writes the cases folded_norm_*: batch-norms that simplifiers folded into the layer in front of them.

    make_folded_norms.py    needs the packages of tests/networks/requirements.txt, and onnxslim and onnxoptimizer

The files still say that PyTorch made them.  Expected losses are those of PyTorch's training of what the file holds: the folded
layers (torch.nn.utils.fusion), or with onnxoptimizer, which writes formulas, batch-norms in evaluation mode whose scales are fixed.
"""
import pathlib
import tempfile

import numpy as np
import onnx
import onnxoptimizer
import onnxruntime
import onnxscript.rewriter
import onnxslim
import torch
from torch import nn
from torch.nn.utils import fusion

import steps

HERE = pathlib.Path(__file__).resolve().parent
CONVOLUTIONS = "convolutions are not the module's own but computed from them"
LINEAR = "linear layer (Gemm node_Gemm_0 (output 'getitem')) are not the module's own but computed from them"
FORMULA = "batch normalisation is written as a formula of running statistics"


class Net(nn.Module):
    def __init__(self, linear):
        super().__init__()
        self.conv = nn.Linear(6, 4) if linear else nn.Conv2d(2, 4, 3)
        self.norm = nn.BatchNorm1d(4) if linear else nn.BatchNorm2d(4)
        self.head, self.linear = nn.Linear(4, 3), linear

    def forward(self, x):
        y = torch.tanh(self.norm(self.conv(x)))
        return self.head(y if self.linear else y.mean((2, 3)))


def net(linear):
    torch.manual_seed(1)
    made = Net(linear).eval()
    with torch.no_grad():
        made.norm.running_mean.normal_()
        made.norm.running_var.uniform_(0.5, 2)
        made.norm.weight.normal_()
        made.norm.bias.normal_()
    made.norm.eps = float(np.float32(made.norm.eps))
    return made


def ort(source, path):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(path)
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])


def rewrite(source, path):
    onnx.save(onnxscript.rewriter.rewrite(onnx.load(source)), path)


TOOLS = {"onnxoptimizer": lambda source, path: onnx.save(onnxoptimizer.optimize(onnx.load(source)), path),
         "onnxscript": rewrite,
         "onnxslim": lambda source, path: onnx.save(onnxslim.slim(str(source)), path),
         "ort": ort}
CASES = [("onnxoptimizer", False, steps.legacy, FORMULA), ("onnxscript", False, steps.legacy, CONVOLUTIONS),
         ("onnxscript", True, steps.default, LINEAR), ("onnxslim", False, steps.default, CONVOLUTIONS), ("ort", False, steps.default, CONVOLUTIONS)]

if __name__ == "__main__":
    for tool, linear, exporter, says in CASES:
        folder = HERE / f"folded_norm_{tool}{'_linear' if linear else ''}"
        folder.mkdir(exist_ok=True)
        rng = np.random.default_rng(4)
        x, target = rng.standard_normal((6, 6) if linear else (6, 2, 5, 5)).astype(np.float32), rng.integers(0, 3, 6)
        made, parameters, names = net(linear), None, 4
        how = {"do_constant_folding": False, "training": torch.onnx.TrainingMode.PRESERVE} if exporter is steps.legacy else {"optimize": False}
        with tempfile.TemporaryDirectory() as work:
            exporter(made, x[:2], f"{work}/net.onnx", **how)
            TOOLS[tool](pathlib.Path(work) / "net.onnx", folder / "model.onnx")
        if tool == "onnxoptimizer":
            parameters = [p for k, p in made.named_parameters() if k != "norm.weight"]
            names = 5
        elif linear:
            made.conv, made.norm = fusion.fuse_linear_bn_eval(made.conv, made.norm), nn.Identity()
        else:
            made.conv, made.norm = fusion.fuse_conv_bn_eval(made.conv, made.norm), nn.Identity()
        steps.write(folder, made, x, target, parameters=parameters, says=[says, f"parameters in {names} tensors"])
