#!/usr/bin/env python3
"""Makes the cases edges_scattered*: a graph network whose list of edges, of another length than the batch of nodes, is given whole.

    make.py                       needs the packages of tests/networks/requirements.txt
"""
import copy
import json
import pathlib

import numpy as np
import torch
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
STEPS, LR = 4, 0.3


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.out = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x, edges):
        h = torch.tanh(self.first(x))
        return self.out(h + torch.zeros_like(h).index_put((edges[1],), h[edges[0]], accumulate=True))


torch.manual_seed(1)
net, rng = Net(), np.random.default_rng(0)
x, edges, target = rng.standard_normal((6, 4)).astype(np.float32), rng.integers(0, 6, (2, 9)), rng.integers(0, 3, 6)
torch.onnx.export(net, (torch.tensor(x), torch.tensor(edges)), HERE / "model.onnx", dynamo=True, input_names=["x", "edges"], output_names=["y"],
                  dynamic_shapes=({0: torch.export.Dim("nodes")}, {1: torch.export.Dim("edges")}), verbose=False, external_data=False)
np.savez(HERE / "data.npz", x=x, edges=edges, target=target)
twin, losses = copy.deepcopy(net).double(), []
optimizer = torch.optim.SGD(twin.parameters(), LR)
for _ in range(STEPS):
    loss = nn.functional.cross_entropy(twin(torch.tensor(x).double(), torch.tensor(edges)), torch.tensor(target))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
flags = ["--loss", "cross-entropy", "--steps", str(STEPS), "--lr", str(LR), "--batch-size"]
(HERE / "expected.json").write_text(json.dumps(
    {"model": "model.onnx", "data": "data.npz", "flags": [*flags, "6"], "losses": losses, "source": "PyTorch in float64 (make.py)"}, indent=1) + "\n")
(HERE.parent / "edges_scattered_parts/expected.json").write_text(json.dumps(
    {"model": "../edges_scattered/model.onnx", "data": "../edges_scattered/data.npz", "flags": [*flags, "3"],
     "refused": "input 'edges' refers to samples by position", "source": "../edges_scattered/make.py"}, indent=1) + "\n")
