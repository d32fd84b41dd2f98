#!/usr/bin/python3
"""Exports modules that torch.onnx (1.13.1) writes as single operators: GELU by erf, by tanh and as GPT-2 has it, layer
normalisation; and what PyTorch computes for them in float64.

    tests/passes/exported_forms.py      # writes exported_forms_*.onnx and exported_forms.h
"""
import math
import pathlib

import torch
import torch.nn.functional as F
from torch import nn
from torch.onnx import TrainingMode

HERE = pathlib.Path(__file__).resolve().parent
OPSETS = (11, 16)       # 17 has LayerNormalization
EPSILON = 2.0 ** -10        # a float32


class NewGELU(nn.Module):
    """GPT-2's."""

    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class FastGELU(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(x * math.sqrt(2.0 / math.pi) * (1.0 + 0.044715 * x * x)))


class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(4, 4), nn.LayerNorm(4, EPSILON), nn.GELU(), nn.Linear(4, 4), nn.GELU(approximate="tanh"),
                         nn.LayerNorm(4, EPSILON, elementwise_affine=False), NewGELU(), nn.Linear(4, 4), FastGELU(),
                         nn.LayerNorm((3, 4), EPSILON))


def array(name, t):
    print(f"static const double {name}[] = {{", file=out)
    values = [repr(v) for v in t.detach().reshape(-1).tolist()]
    for i in range(0, len(values), 6):
        print("    " + ", ".join(values[i:i + 6]) + ",", file=out)
    print("};", file=out)


torch.manual_seed(3)
net = Net()
for p in net.parameters():
    nn.init.uniform_(p, -1, 1)
x, target = torch.randn(2, 3, 4), torch.randn(2, 3, 4)
for opset in OPSETS:
    torch.onnx.export(net, x, str(HERE / f"exported_forms_{opset}.onnx"), opset_version=opset, training=TrainingMode.TRAINING,
                      do_constant_folding=False, input_names=["x"], output_names=["y"])

net, x, target = net.double(), x.double(), target.double()
loss = F.mse_loss(net(x), target)
loss.backward()
with open(HERE / "exported_forms.h", "w") as out:
    print("/* Made by exported_forms.py. */", file=out)
    print(f"static const int exported_opsets[] = {{ {', '.join(map(str, OPSETS))} }};", file=out)
    array("exported_x", x)
    array("exported_target", target)
    array("exported_loss", loss)
    names = [name for name, _ in net.named_parameters()]
    for i, p in enumerate(net.parameters()):
        array(f"exported_grad_{i}", p.grad)
    print("typedef struct { const char *name; const double *grad; int n; } ExportedGrad;", file=out)
    print("static const ExportedGrad exported_grads[] = {", file=out)
    for i, (name, p) in enumerate(net.named_parameters()):
        print(f'    {{ "grad:{name}", exported_grad_{i}, {p.numel()} }},', file=out)
    print("};", file=out)
