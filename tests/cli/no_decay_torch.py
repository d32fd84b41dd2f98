#!/usr/bin/env python3
"""Writes tests/cli/no_decay/torch.txt: losses of PyTorch's training of the network of no_decay.py in float64, with parameter groups without
weight decay; a line a case: optimizer, kinds, and the loss of each step.

Also formulas13.onnx and formulas16.onnx, PyTorch's exports of norms, which these opsets have no operators for; formulas.txt, the same
losses of that network; and formulas.names, its parameters in groups by the modules that they are of.

    pip install torch onnx numpy
    tests/cli/no_decay_torch.py
"""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from torch import nn
from onnx import numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
EPOCHS, BATCH, RATE, DECAY = 2, 12, 0.01, 0.3
torch.set_default_dtype(torch.float64)


class Lion(torch.optim.Optimizer):
    """Chen and others, "Symbolic Discovery of Optimization Algorithms", algorithm 2."""

    def __init__(self, groups, lr):
        super().__init__(groups, {"lr": lr, "weight_decay": 0})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                p -= group["lr"] * (torch.sign(0.9 * m + 0.1 * p.grad) + group["weight_decay"] * p)
                m.mul_(0.99).add_(p.grad, alpha=0.01)


def train(p, forward, data, optimizer, undecayed):
    """The loss of each step: p are parameters by name."""
    x, target = torch.tensor(data["x"].astype("f8")), torch.tensor(data["target"])
    groups = [{"params": [v for k, v in p.items() if undecayed(k) == without], "weight_decay": 0 if without else DECAY}
              for without in (False, True)]
    step = {"adamw": lambda: torch.optim.AdamW(groups, lr=RATE), "sgd": lambda: torch.optim.SGD(groups, lr=RATE, momentum=0.9),
            "lion": lambda: Lion(groups, lr=RATE)}[optimizer]()
    for _ in range(EPOCHS):
        for i in range(0, len(x), BATCH):
            step.zero_grad()
            loss = F.cross_entropy(forward(x[i:i + BATCH]), target[i:i + BATCH])
            loss.backward()
            step.step()
            yield loss.item()


def losses(folder, optimizer, kinds):
    model = onnx.load(folder / "net.onnx")
    p = {t.name: torch.tensor(numpy_helper.to_array(t).astype("f8"), requires_grad=True) for t in model.graph.initializer
         if "running" not in t.name}
    mean, variance = torch.zeros(4), torch.ones(4)

    def forward(x):
        h = F.conv2d(x, p["conv.weight"], p["conv.bias"])
        h = F.batch_norm(h, mean, variance, p["bn.weight"], p["bn.bias"], True).relu().flatten(1)
        h = F.layer_norm(F.linear(h, p["fc.weight"], p["fc.bias"]), (8,), p["ln.weight"], p["ln.bias"])
        return h @ p["fc2.weight"] + p["fc2.bias"]

    def undecayed(name):
        return ("norm" in kinds and name.split(".")[0] in ("bn", "ln")) or ("bias" in kinds and name.endswith("bias"))

    return train(p, forward, np.load(folder / "data.npz"), optimizer, undecayed)


class LlamaNorm(nn.Module):
    """RMS normalisation as Llama's code has it, in float32 whatever x is."""

    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))

    def forward(self, x):
        x32 = x.to(torch.promote_types(x.dtype, torch.float32))
        return self.weight * (x32 * torch.rsqrt(x32.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


class ChannelsNorm(nn.Module):
    """Layer normalisation over the channels of images, as ConvNeXt's code has it."""

    def __init__(self, n):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(n)), nn.Parameter(torch.zeros(n))

    def forward(self, x):
        d = x - x.mean(1, keepdim=True)
        x = d / torch.sqrt(d.pow(2).mean(1, keepdim=True) + 1e-6)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


class Formulas(nn.Module):
    NORMS = nn.LayerNorm, nn.GroupNorm, LlamaNorm, ChannelsNorm

    def __init__(self):
        super().__init__()
        self.conv, self.group, self.channels = nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), ChannelsNorm(4)
        self.fc, self.layer, self.fc1, self.rms = nn.Linear(36, 8), nn.LayerNorm(8), nn.Linear(8, 8, bias=False), LlamaNorm(8)
        self.gamma, self.fc2 = nn.Parameter(torch.full((8,), 0.5)), nn.Linear(8, 3)

    def forward(self, x):
        h = self.channels(self.group(self.conv(x)).relu()).flatten(1)
        h = self.layer(self.fc(h))
        h = h + self.gamma * self.fc1(h)    # a scale of no norm, as LayerScale
        return self.fc2(self.rms(h))


def formulas(folder):
    """Writes the exports, and yields the network with its parameters' names by kind."""
    torch.manual_seed(4)
    net = Formulas().float()
    with torch.no_grad():
        for p in net.parameters():
            p += 0.3 * torch.randn_like(p)
    for opset in 13, 16:
        torch.onnx.export(net, torch.zeros(12, 1, 5, 5, dtype=torch.float32), folder / f"formulas{opset}.onnx", opset_version=opset,
                          input_names=["x"], output_names=["y"], dynamic_axes={"x": {0: "N"}, "y": {0: "N"}}, dynamo=False, do_constant_folding=False,
                          training=torch.onnx.TrainingMode.TRAINING)
    names = {"norm": [], "bias": []}
    for where, module in net.named_modules():
        for name, _ in module.named_parameters(recurse=False):
            if isinstance(module, net.NORMS):
                names["norm"].append(f"{where}.{name}")
            if name == "bias":
                names["bias"].append(f"{where}.{name}")
    return net.double(), names


with tempfile.TemporaryDirectory() as folder:
    subprocess.run([sys.executable, HERE / "no_decay.py", folder], check=True)
    with open(HERE / "no_decay" / "torch.txt", "w") as out:
        for optimizer in "adamw", "sgd", "lion":
            for kinds in "norm", "bias", "norm,bias":
                print(optimizer, kinds, *(f"{v:.15g}" for v in losses(pathlib.Path(folder), optimizer, kinds)), file=out)
    with open(HERE / "no_decay" / "formulas.txt", "w") as out:
        net, names = formulas(HERE / "no_decay")
        data = np.load(pathlib.Path(folder) / "data.npz")
        begin = {k: v.clone() for k, v in net.state_dict().items()}
        for optimizer in "adamw", "sgd":
            for kinds in "norm", "bias", "norm,bias":
                net.load_state_dict(begin)
                without = {name for kind in kinds.split(",") for name in names[kind]}
                print(optimizer, kinds, *(f"{v:.15g}" for v in train(dict(net.named_parameters()), net, data, optimizer, without.__contains__)),
                      file=out)
    (HERE / "no_decay" / "formulas.names").write_text("".join(f"{kind} {' '.join(sorted(names[kind]))}\n" for kind in names))
