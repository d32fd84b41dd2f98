#!/usr/bin/env python3
"""Makes the cases group_*: convolutions with a group for each sample, whose weights are computed from the samples.

    make_groups.py [CASE...]      needs the packages of tests/networks/requirements.txt
"""
import json
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
LR = 0.05


class Modulated(nn.Module):
    """StyleGAN2's modulated and demodulated convolution."""

    def __init__(self, transposed=False):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 3, 3, 3))
        self.style = nn.Linear(5, 3)
        self.transposed = transposed

    def forward(self, x, z):
        b, c, h, w = x.shape
        k = self.w[None] * self.style(z).reshape(b, 1, -1, 1, 1)
        k = k * torch.rsqrt(k.pow(2).sum((2, 3, 4), keepdim=True) + 1e-8)
        x = x.reshape(1, b * c, h, w)
        if self.transposed:
            y = F.conv_transpose2d(x, k.transpose(1, 2).reshape(b * c, 4, 3, 3), padding=1, groups=b)
        else:
            y = F.conv2d(x, k.reshape(b * 4, c, 3, 3), padding=1, groups=b)
        return y.reshape(b, 4, h, w)


class Mixed(nn.Module):
    """CondConv: each sample's kernel is a mixture of experts."""

    def __init__(self):
        super().__init__()
        self.experts = nn.Parameter(torch.randn(2, 4 * 3 * 3 * 3))
        self.route = nn.Linear(3, 2)

    def forward(self, x, z):
        b, c, h, w = x.shape
        k = torch.sigmoid(self.route(x.mean((2, 3)))) @ self.experts
        return F.conv2d(x.reshape(1, b * c, h, w), k.reshape(b * 4, c, 3, 3), padding=1, groups=b).reshape(b, 4, h, w) + z.sum()


def make(name, net, at, how, batch, refused=None):
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    x, z, target = torch.randn(2 * batch, 3, 5, 5), torch.randn(2 * batch, 5), torch.randn(2 * batch, 4, 5, 5)
    names = {"input_names": ["x", "z"], "output_names": ["y"]}
    if how == "legacy":
        torch.onnx.export(net, (x[:at], z[:at]), folder / "model.onnx", dynamo=False, **names)
    else:
        torch.onnx.export(net, (x[:at], z[:at]), folder / "model.onnx", dynamo=True, external_data=False, verbose=False, optimize=how == "optimized",
                          **names)
    np.savez(folder / "data.npz", x=x.numpy(), z=z.numpy(), target=target.numpy())
    net, losses = net.double(), []
    optimizer = torch.optim.SGD(net.parameters(), lr=LR)
    for i in range(0, 2 * batch, batch):
        loss = F.mse_loss(net(x[i:i + batch].double(), z[i:i + batch].double()), target[i:i + batch].double())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    expected = {"model": "model.onnx", "data": "data.npz", "flags": ["--loss", "mse", "--batch-size", str(batch), "--lr", str(LR)]}
    expected.update({"refused": refused} if refused else {"losses": losses})
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


BY_SAMPLE = "its weights are computed from the samples and its group is {}, a group for each sample, which a file holds for one batch size"


def group_batch():
    make("group_batch", Modulated(), 4, "plain", 4)


def group_batch_transposed():
    make("group_batch_transposed", Modulated(True), 3, "legacy", 3)


def group_batch_optimized():
    make("group_batch_optimized", Modulated(), 4, "optimized", 3, "exported for batches of 4 and does not work for 3: Conv node_Conv_")


def group_one_sample():
    make("group_one_sample", Modulated(), 1, "plain", 3, BY_SAMPLE.format(1))


def group_of_mixture():
    make("group_of_mixture", Mixed(), 4, "legacy", 2, BY_SAMPLE.format(4))


CASES = [group_batch, group_batch_transposed, group_batch_optimized, group_one_sample, group_of_mixture]

if __name__ == "__main__":
    for case in CASES:
        torch.manual_seed(2)
        if not sys.argv[1:] or case.__name__ in sys.argv[1:]:
            case()
