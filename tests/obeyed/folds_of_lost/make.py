#!/usr/bin/env python3
"""What the default exporter computed from parameters that the file no longer holds: formulas of them and repeated rows of a table, which are
trained instead and said; ../folds_of_moved has the same numbers in other places, which train alike and are not mentioned."""
import pathlib
import sys

import torch
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import steps  # noqa: E402


class Lost(nn.Module):
    """A decay as state-space models have it, a scale, relative positions as T5 has them."""

    def __init__(self):
        super().__init__()
        self.log_a, self.out = nn.Parameter(0.3 * torch.randn(6)), nn.Linear(6, 4)
        self.bias, self.g = nn.Embedding(7, 1), nn.Parameter(0.2 * torch.randn(6))
        self.q, self.k = nn.Linear(6, 6), nn.Linear(6, 6)

    def near(self):
        at = torch.arange(4)
        return self.bias(at[None] - at[:, None] + 3).squeeze(-1)

    def forward(self, x):
        scores = self.q(x) @ self.k(x).transpose(1, 2) + self.near()
        return self.out((torch.softmax(scores, -1) @ x * torch.exp(-torch.exp(self.log_a)) * (1 + self.g)).mean(1))


class Folded(nn.Module):
    """The network of the file: each computed tensor is a parameter."""

    def __init__(self, net):
        super().__init__()
        self.q, self.k, self.out = net.q, net.k, net.out
        self.near, self.decay, self.scale = (nn.Parameter(t.detach().clone()) for t in (net.near(), (-net.log_a.exp()).exp(), 1 + net.g))

    def forward(self, x):
        scores = self.q(x) @ self.k(x).transpose(1, 2) + self.near
        return self.out((torch.softmax(scores, -1) @ x * self.decay * self.scale).mean(1))


class Moved(nn.Module):
    """Transposed, reshaped, looked up once."""

    def __init__(self):
        super().__init__()
        self.u, self.v, self.out = nn.Parameter(0.4 * torch.randn(6, 6)), nn.Parameter(0.4 * torch.randn(24)), nn.Linear(6, 4)
        self.places = nn.Embedding(8, 6)

    def forward(self, x):
        x = x + self.places(torch.arange(4)) + self.v.view(6, 4).t()
        return self.out(torch.tanh(x @ self.u.t()).mean(1))


def main():
    for folder, kind, as_folded in ((HERE, Lost, Folded), (HERE.parent / "folds_of_moved", Moved, lambda net: net)):
        torch.manual_seed(0)
        net = kind()
        x, target = torch.randn(5, 4, 6), torch.randint(0, 4, (5,))
        torch.onnx.export(net.train(), (x,), str(folder / "model.onnx"), input_names=["x"], output_names=["y"], dynamo=True, optimize=True, external_data=False, verbose=False,
                          dynamic_shapes=({0: torch.export.Dim("batch")},))
        lost = {"says": ["computed from parameters that the file does not have, and are trained instead of them"]}
        kept = {"unsaid": ["computed from parameters that the file"]}
        steps.write(folder, as_folded(net), x, target, lr=0.2, **(lost if kind is Lost else kept))


main()
