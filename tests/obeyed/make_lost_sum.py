#!/usr/bin/env python3
"""Writes the cases lost_sum_*: what follows cross_entropy(reduction="none"), which torch 2.15's default exporter loses.

    make_lost_sum.py        needs the packages of tests/networks/requirements.txt

The exporter takes the losses of the samples for one number, and writes Identity for a sum or a running sum of them.  The file's loss is
then the mean of the samples' losses, and the run must name what is lost.  A mean is exported whole.
"""
import json
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
STEPS, LR = 4, 0.2


class Net(nn.Module):
    def __init__(self, then):
        super().__init__()
        self.fc, self.then = nn.Linear(4, 3), then

    def forward(self, x, t):
        each = F.cross_entropy(self.fc(x), t, reduction="none")
        return self.then(each)


DECLARED = "output 'loss' is declared as one number, and the file's nodes compute [6]"
for name, then, optimize, told in (("plain", torch.sum, False, "has lost PyTorch's aten.sum of a tensor that has shape [6]"),
                                   ("optimized", torch.sum, True, DECLARED), ("not", torch.mean, False, None),
                                   ("running", lambda each: each.cumsum(0).mean(), False, "has lost PyTorch's aten.cumsum of a tensor that has shape [6]")):
    folder = HERE / f"lost_sum_{name}"
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(8)
    x, t = rng.standard_normal((6, 4)).astype(np.float32), rng.integers(0, 3, 6)
    torch.manual_seed(3)
    net, batch = Net(then), torch.export.Dim("batch")
    torch.onnx.export(net, (torch.tensor(x[:2]), torch.tensor(t[:2])), folder / "model.onnx", dynamo=True, optimize=optimize, verbose=False,
                      external_data=False, input_names=["x", "t"], output_names=["loss"], dynamic_shapes=({0: batch}, {0: batch}))
    np.savez(folder / "data.npz", x=x, t=t)
    net = net.double()
    sgd, losses = torch.optim.SGD(net.parameters(), LR), []
    for _ in range(STEPS):
        loss = F.cross_entropy(net.fc(torch.tensor(x).double()), torch.tensor(t))
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        losses.append(loss.item())
    (folder / "expected.json").write_text(json.dumps({
        "model": "model.onnx", "data": "data.npz", "losses": losses,
        "flags": ["--loss", "output:loss", "--batch-size", "6", "--steps", str(STEPS), "--lr", str(LR)],
        "source": f"PyTorch {torch.__version__.split('+')[0]} in float64 (make_lost_sum.py)",
        **({"says": [told]} if told else {"unsaid": ["is declared as", "has lost"]})}, indent=1) + "\n")
