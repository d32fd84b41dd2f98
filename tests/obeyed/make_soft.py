#!/usr/bin/env python3
"""Makes the cases soft_*: cross-entropy against class probabilities, and what PyTorch computes of them in float64.

    make_soft.py [CASE...]
"""
import json
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
LR, BATCH = 0.5, 5


def export(net, x, file, how):
    if how == "legacy":
        torch.onnx.export(net, (x,), file, dynamo=False, input_names=["x"], output_names=["y"],
                          dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}})
    else:
        torch.onnx.export(net, (x,), file, dynamo=True, dynamic_shapes=({0: torch.export.Dim("batch")},), input_names=["x"],
                          output_names=["y"], external_data=False, verbose=False, optimize=how == "optimized")


def make(name, net, x, target, how, flags=(), weights=None, smoothing=0.0, last=False, hard=False, says=()):
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    export(net, x[:3], folder / "model.onnx", how)
    np.savez(folder / "data.npz", x=x.numpy(), target=target.numpy())
    net, x, given = net.double(), x.double(), target.double()
    turned = (lambda v: v.movedim(-1, 1)) if last else (lambda v: v)
    optimizer, losses = torch.optim.SGD(net.parameters(), lr=LR), []
    for at in range(0, len(x), BATCH):
        loss = F.cross_entropy(turned(net(x[at:at + BATCH])), turned(given[at:at + BATCH]), weight=weights, label_smoothing=smoothing)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    expected = {"model": "model.onnx", "data": "data.npz",
                "flags": ["--loss", "cross-entropy", "--batch-size", str(BATCH), "--lr", str(LR), *flags], "losses": losses}
    if weights is not None:
        np.save(folder / "weights.npy", weights.numpy())
        expected["flags"] += ["--class-weights", "weights.npy"]
    if hard:     # trained on probabilities, evaluated on class numbers
        np.savez(folder / "hard.npz", x=x.float().numpy(), target=given.argmax(1).numpy())
        expected["evaluation"] = {"data": "hard.npz", "flags": ["--loss", "cross-entropy", "--batch-size", "4"],
                                  "loss": F.cross_entropy(net(x), given.argmax(1)).item()}
    expected.update({"says": says} if says else {"silent": True})
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


def probabilities(*shape, axis=1):
    return torch.softmax(2 * torch.randn(*shape), axis)


def perceptron(classes):
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, classes))


class Last(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 6)

    def forward(self, x):
        return self.a(torch.tanh(x))


def soft_labels():
    make("soft_labels", perceptron(3), torch.randn(14, 4), probabilities(14, 3).double(), "plain", hard=True)


def soft_labels_weighted():
    make("soft_labels_weighted", perceptron(3), torch.randn(11, 4), probabilities(11, 3), "legacy", ["--label-smoothing", "0.1"],
         torch.tensor([0.5, 2.0, 1.0], dtype=torch.float64), 0.1)


def soft_labels_one_hot():
    make("soft_labels_one_hot", perceptron(6), torch.randn(13, 4), F.one_hot(torch.arange(13) % 6, 6).half(), "optimized",
         ["--soft-labels", "--ignore-index", "-100"])


def soft_labels_map():
    net = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 5, 1))
    make("soft_labels_map", net, torch.randn(12, 2, 3, 5), probabilities(12, 5, 3, 5), "plain",
         weights=torch.rand(5, dtype=torch.float64) + 0.5,
         says=["the classes of the scores [5,5,3,5] and of their targets", "are taken along axis 1; --class-axis chooses"])


def soft_labels_last():
    make("soft_labels_last", Last(), torch.randn(13, 7, 4), probabilities(13, 7, 6, axis=2), "plain", ["--class-axis", "-1"], last=True)


CASES = [soft_labels, soft_labels_weighted, soft_labels_one_hot, soft_labels_map, soft_labels_last]

if __name__ == "__main__":
    for case in CASES:
        torch.manual_seed(1)
        if not sys.argv[1:] or case.__name__ in sys.argv[1:]:
            case()
