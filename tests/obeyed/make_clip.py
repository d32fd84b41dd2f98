#!/usr/bin/env python3
"""Writes the cases clip_*: ties of clamp by numbers and by tensors, as each exporter spells them.

    make_clip.py            needs the packages of tests/networks/requirements.txt
"""
import io
import json
import logging
import pathlib
import warnings

import numpy as np
import onnx
import torch
import torch.nn as nn
import torch.nn.functional as F

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
HERE = pathlib.Path(__file__).resolve().parent
FLAGS = ["--loss", "mse", "--batch-size", "4", "--steps", "4", "--lr", "0.05"]


class Net(nn.Module):
    """Integers in, integer weights: the first step's values meet the bounds 0 and 2."""

    def __init__(self, clamp, buffers):
        super().__init__()
        self.clamp = clamp
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 3)
        if buffers:
            self.register_buffer("low", torch.tensor(0.0))
            self.register_buffer("high", torch.tensor(2.0))
        g = torch.Generator().manual_seed(3)
        with torch.no_grad():
            self.a.weight.copy_(torch.randint(-1, 2, (8, 6), generator=g))
            self.a.bias.copy_(torch.randint(-1, 2, (8,), generator=g))

    def forward(self, x):
        return self.b(self.clamp(self, self.a(x)))


KINDS = {
    "hardtanh": (lambda s, x: F.hardtanh(x, 0.0, 2.0), False),
    "clamp_min": (lambda s, x: x.clamp(min=0.0), False),
    "clamp_integers": (lambda s, x: x.clamp(0, 2), False),
    "clamp_buffers": (lambda s, x: x.clamp(s.low, s.high), True),
    "clamp_made": (lambda s, x: x.clamp(torch.tensor(0.0, dtype=x.dtype), torch.tensor(2.0, dtype=x.dtype)), False),
}
CASES = [("hardtanh", "optimized"), ("hardtanh", "plain"), ("clamp_min", "legacy"), ("clamp_integers", "optimized"), ("clamp_integers", "plain"),
         ("clamp_buffers", "legacy"), ("clamp_buffers", "optimized"), ("clamp_buffers", "plain"), ("clamp_made", "optimized")]


def export(net, how, path):
    x = torch.zeros(4, 6)
    if how == "legacy":
        torch.onnx.export(net, (x,), path, dynamo=False, input_names=["x"], output_names=["y"])
    else:
        onnx.save(torch.onnx.export(net, (x,), dynamo=True, optimize=how == "optimized", verbose=False, input_names=["x"], output_names=["y"]).model_proto, path)


def losses(net, x, target, steps=4, lr=0.05):
    net, found = net.double(), []
    optimizer = torch.optim.SGD([p for p in net.parameters()], lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.mse_loss(net(x), target)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def main():
    g = torch.Generator().manual_seed(1)
    x, target = torch.randint(-1, 2, (4, 6), generator=g).double(), torch.randn(4, 3, generator=g, dtype=torch.float64)
    for kind, how in CASES:
        folder = HERE / f"clip_{kind}_{how}"
        folder.mkdir(exist_ok=True)
        torch.manual_seed(0)
        net = Net(*KINDS[kind]).eval()
        export(net, how, str(folder / "model.onnx"))
        np.savez(folder / "data.npz", x=x.float().numpy(), target=target.numpy())
        e = {"model": "model.onnx", "data": "data.npz", "flags": FLAGS, "losses": losses(net, x, target), "source": "make_clip.py, PyTorch in float64"}
        (folder / "expected.json").write_text(json.dumps(e, indent=1) + "\n")
        print(folder.name, e["losses"])


main()
