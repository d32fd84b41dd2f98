#!/usr/bin/env python3
"""Makes the cases buckets_*: numbers of buckets that a network computes from integers in float32 and rounds down.  The quotients are
whole numbers but for rounding, so that another type of float finds another bucket.

    make_buckets.py [CASE...]      needs the packages of tests/networks/requirements.txt
"""
import json
import math
import pathlib
import sys

import numpy as np
import onnx
import torch
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
BATCH, STEPS = 4, 3


class Buckets(nn.Module):
    """A class of the mean of the vectors of buckets."""

    def __init__(self, of):
        super().__init__()
        self.table, self.head, self.of = nn.Embedding(64, 4), nn.Linear(4, 3), of

    def forward(self, n):
        return self.head(self.table(self.of(n)).mean(1))


def by_log(n):
    """As relative positions of T5 and ProphetNet have them."""
    return (torch.log(n.float() / 2) / math.log(4) * 4).to(torch.int64)


def by_quotient(n):
    return torch.floor(n.float() / 0.1).to(torch.int64)


# name: the function, numbers that meet its boundaries, by the default exporter
CASES = {
    "buckets_log": (by_log, [2, 4, 8, 16, 32, 64, 128, 256], False),
    "buckets_log_default": (by_log, [2, 4, 8, 16, 32, 64, 128, 256], True),
    "buckets_quotient": (by_quotient, [1, 2, 3, 4, 5, 6], False),
}


def make(name):
    of, numbers, dynamo = CASES[name]
    folder, net = HERE / name, Buckets(of)
    folder.mkdir(exist_ok=True)
    n = torch.tensor(numbers)[torch.randint(len(numbers), (BATCH * STEPS, 6))]
    target = torch.randint(3, (BATCH * STEPS,))
    how = dict(dynamo=True, optimize=False, dynamic_shapes={"n": {0: torch.export.Dim("batch")}}) if dynamo else dict(
        dynamo=False, dynamic_axes={"n": {0: "batch"}}, do_constant_folding=False)
    torch.onnx.export(net, (n[:BATCH],), folder / "model.onnx", input_names=["n"], output_names=["scores"],
                      **how, **({"external_data": False} if dynamo else {}))
    model = onnx.load(folder / "model.onnx")
    for node in model.graph.node:           # whose stack traces name files of the machine that exported
        kept = [p for p in node.metadata_props if "stack_trace" not in p.key]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    onnx.save(model, folder / "model.onnx")
    np.savez(folder / "data.npz", n=n.numpy(), target=target.numpy())
    net, losses = net.double(), []      # but for the buckets, which the network computes in float32
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    for part, wanted in zip(n.split(BATCH), target.split(BATCH)):
        optimizer.zero_grad()
        value = nn.functional.cross_entropy(net(part), wanted)
        value.backward()
        optimizer.step()
        losses.append(value.item())
    (folder / "expected.json").write_text(json.dumps({
        "model": "model.onnx", "data": "data.npz", "flags": ["--loss", "cross-entropy", "--batch-size", str(BATCH), "--lr", "0.5"],
        "losses": losses}, indent=1) + "\n")


if __name__ == "__main__":
    for case in CASES:
        torch.manual_seed(5)
        if not sys.argv[1:] or case in sys.argv[1:]:
            make(case)
