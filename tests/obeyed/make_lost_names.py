#!/usr/bin/env python3
"""Writes the cases lost_name_*: patterns of a module's names, in files whose exporter renamed the weights of Linear layers.

    make_lost_names.py      needs the packages of tests/networks/requirements.txt

A pattern reaches the biases alone, which the run must say; with the weights' new names besides it is PyTorch's freezing of the module.
"""
import pathlib

import numpy as np
import onnx
import torch
from torch import nn

import steps

HERE = pathlib.Path(__file__).resolve().parent


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 5), nn.Tanh())
        self.head = nn.Linear(5, 3)

    def forward(self, x):
        return self.head(self.body(x)).mean(1)


class Tied(nn.Module):
    """One matrix, which the file calls head.weight."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.body, self.head = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 4)), nn.Linear(4, 5, bias=False)
        self.head.weight = self.body[0].weight

    def forward(self, x):
        return self.head(self.body(x)).mean(1)


def net():
    torch.manual_seed(2)
    return Net()


def weights(path):
    """The new names of the three weights, in the order of the layers."""
    made = onnx.load(path).graph
    held = {i.name for i in made.initializer}
    return [i for n in made.node if n.op_type == "MatMul" for i in n.input if i in held]


CASES = [("legacy", steps.legacy, "freeze"), ("legacy", steps.legacy, "named"), ("legacy", steps.legacy, "group"),
         ("default", steps.default, "freeze"), ("default", steps.default, "train"), ("default", steps.default, "group")]

if __name__ == "__main__":
    for exporter, export, kind in CASES:
        folder = HERE / f"lost_name_{kind}_{exporter}"
        folder.mkdir(exist_ok=True)
        rng = np.random.default_rng(6)
        x, target = rng.standard_normal((6, 3, 4)).astype(np.float32), rng.integers(0, 3, 6)
        made = net()
        export(made, x[:2], folder / "model.onnx")
        body = weights(folder / "model.onnx")[:2]
        head = weights(folder / "model.onnx")[2]
        both = f"'{body[0]}' of 'body.0', '{body[1]}' of 'body.2', which have other names in the file"
        one = f"'{head}' of 'head', which has another name in the file"
        p, more = dict(made.named_parameters()), {}
        parameters = list(p.values())
        if kind == "freeze":
            flags, more["says"] = ["--freeze", "body.*"], [f"--freeze 'body.*' does not reach {both}"]
            parameters = [v for k, v in p.items() if k not in ("body.0.bias", "body.2.bias")]
        elif kind == "named":
            flags, more["unsaid"] = ["--freeze", "body.*", "--freeze", body[0], "--freeze", body[1]], ["does not reach"]
            parameters = [v for k, v in p.items() if k.startswith("head")]
        elif kind == "train":
            flags, more["says"] = ["--freeze", "*", "--train", "head.*"], [f"--train 'head.*' does not reach {one}"]
            parameters = [p["head.bias"]]
        else:
            flags, more["says"] = ["--group", "head.*:lr=0.5"], [f"--group 'head.*' does not reach {one}"]
            parameters = [{"params": [v for k, v in p.items() if k != "head.bias"]}, {"params": [p["head.bias"]], "lr": 0.5}]
        steps.write(folder, made, x, target, parameters=parameters, extra=flags, **more)
    folder = HERE / "lost_name_tied_plain"
    folder.mkdir(exist_ok=True)
    made = Tied()
    x, target = rng.integers(0, 5, (6, 3)), rng.integers(0, 5, 6)
    steps.default(made, x[:2], folder / "model.onnx", optimize=False)
    p = dict(made.named_parameters())
    steps.write(folder, made, x, target, parameters=[p["body.0.weight"]], extra=["--freeze", "body.*"], forward=lambda x: made(x.long()),
                says=["--freeze 'body.*' does not reach 'head.weight' of 'body.0', which has another name in the file"])
    np.savez(folder / "data.npz", x=x, target=target)
