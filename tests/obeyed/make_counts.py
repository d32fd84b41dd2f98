#!/usr/bin/env python3
"""Makes the cases counts_*: losses within the model by a function of the batch's size, which an export of a fixed batch holds as a number.

    make_counts.py [CASE...]      needs the packages of tests/networks/requirements.txt
"""
import json
import math
import pathlib
import sys

import numpy as np
import torch
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLE, BATCH, SAMPLES = 6, 4, 8


class Loss(nn.Module):
    def __init__(self, of):
        super().__init__()
        self.layer, self.of = nn.Linear(4, 3), of

    def forward(self, x):
        return self.of(self.layer(x), x)


# name: the loss, what the run says, the batch
CASES = {
    "counts_root": (lambda y, x: (y * y).sum() / x.size(0) ** 0.5, "Div by 2.44949 of what is summed over the batch: if that is the root", BATCH),
    "counts_terms": (lambda y, x: ((y * y).sum(1) / x.size(0)).sum(), "Div by 6 of what is summed over the batch behind it", BATCH),
    "counts_inverse": (lambda y, x: (y * y).sum() * (1 / x.size(0)), "Mul by 0.166667 of what is summed over the batch", BATCH),
    "counts_logarithm": (lambda y, x: (torch.logsumexp(y, 0) - math.log(x.size(0))).sum(), "Sub by 1.79176 of what the batch gives", BATCH),
    "counts_mean_times": (lambda y, x: (y * y).mean() * len(x), "Mul by 6 of a mean over the batch", BATCH),
    "counts_last_batch": (lambda y, x: (y * y).sum() / len(x), "it is wrong for batches of 2", EXAMPLE),
    "counts_none": (lambda y, x: 0.5 * (y * y).mean() + y.abs().sum(1).mean() + y.var(0, unbiased=False).sum(), None, BATCH),
}


def make(name):
    of, says, batch = CASES[name]
    folder, net = HERE / name, Loss(of)
    folder.mkdir(exist_ok=True)
    x = torch.randn(SAMPLES, 4)
    torch.onnx.export(net.train(), (x[:EXAMPLE],), folder / "model.onnx", dynamo=False, training=torch.onnx.TrainingMode.TRAINING,
                      do_constant_folding=False, input_names=["x"], output_names=["loss"])
    np.savez(folder / "data.npz", x=x.numpy())
    net, losses = net.double(), []
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for part in x.double().split(batch):
        optimizer.zero_grad()
        value = net(part)
        value.backward()
        optimizer.step()
        losses.append(value.item())
    expected = {"model": "model.onnx", "data": "data.npz", "flags": ["--loss", "output:loss", "--batch-size", str(batch), "--lr", "0.05"]}
    expected.update({"says": [says]} if says else {"losses": losses, "silent": True})
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    for case in CASES:
        torch.manual_seed(3)
        if not sys.argv[1:] or case in sys.argv[1:]:
            make(case)
