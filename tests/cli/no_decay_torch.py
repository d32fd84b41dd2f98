#!/usr/bin/env python3
"""Writes tests/cli/no_decay/torch.txt: losses of PyTorch's training of the network of no_decay.py in float64, with parameter groups without
weight decay; a line a case: optimizer, kinds, and the loss of each step.

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


def losses(folder, optimizer, kinds):
    model = onnx.load(folder / "net.onnx")
    p = {t.name: torch.tensor(numpy_helper.to_array(t).astype("f8"), requires_grad=True) for t in model.graph.initializer
         if "running" not in t.name}
    data = np.load(folder / "data.npz")
    x, target = torch.tensor(data["x"].astype("f8")), torch.tensor(data["target"])
    mean, variance = torch.zeros(4), torch.ones(4)

    def forward(x):
        h = F.conv2d(x, p["conv.weight"], p["conv.bias"])
        h = F.batch_norm(h, mean, variance, p["bn.weight"], p["bn.bias"], True).relu().flatten(1)
        h = F.layer_norm(F.linear(h, p["fc.weight"], p["fc.bias"]), (8,), p["ln.weight"], p["ln.bias"])
        return h @ p["fc2.weight"] + p["fc2.bias"]

    def undecayed(name):
        return ("norm" in kinds and name.split(".")[0] in ("bn", "ln")) or ("bias" in kinds and name.endswith("bias"))

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


with tempfile.TemporaryDirectory() as folder:
    subprocess.run([sys.executable, HERE / "no_decay.py", folder], check=True)
    with open(HERE / "no_decay" / "torch.txt", "w") as out:
        for optimizer in "adamw", "sgd", "lion":
            for kinds in "norm", "bias", "norm,bias":
                print(optimizer, kinds, *(f"{v:.15g}" for v in losses(pathlib.Path(folder), optimizer, kinds)), file=out)
