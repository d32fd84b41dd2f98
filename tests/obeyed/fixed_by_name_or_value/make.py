#!/usr/bin/env python3
"""Buffers of many kinds that the older exporter does not tell from parameters: spectral_norm's vectors, fixed filters (Sobel, Haar,
one for all channels), an evenly spaced scale, running and averaged tensors, sines of two axes; and LayerScale, which is learned."""
import pathlib
import sys

import torch
from torch import nn
from torch.nn import functional as F

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import steps  # noqa: E402


def sines(rows, columns, width):
    rate = 1 / 100 ** (torch.arange(width // 4) / (width // 4))
    grid = [g.reshape(-1, 1) * rate for g in torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")]
    table = torch.cat([f(g) for g in grid for f in (torch.sin, torch.cos)], 1)
    return torch.cat([torch.zeros(1, width), table])[None]


class Filter(nn.Module):
    def __init__(self, weight, **how):
        super().__init__()
        self.how = how
        self.register_buffer("weight", weight)

    def forward(self, x):
        return F.conv2d(x, self.weight, **self.how)


class Normed(nn.Module):
    """What parametrizations.spectral_norm computes of an evaluated convolution, which the older exporter has no dot product for."""

    def __init__(self):
        super().__init__()
        kept = nn.utils.parametrizations.spectral_norm(nn.Conv2d(6, 8, 3, padding=1))
        self.parametrizations, self.bias = kept.parametrizations, kept.bias

    def forward(self, x):
        of = self.parametrizations["weight"]
        return F.conv2d(x, of.original / (of[0]._u @ of.original.flatten(1) @ of[0]._v), self.bias, padding=1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        sobel = torch.tensor([[1., 0, -1], [2, 0, -2], [1, 0, -1]])
        haar = torch.tensor([[[1., 1], [1, 1]], [[1, 1], [-1, -1]], [[1, -1], [1, -1]], [[1, -1], [-1, 1]]]) / 2
        uneven = torch.randn(1, 1, 3, 3).expand(8, 1, 3, 3).contiguous()
        self.edges = Filter(torch.stack([sobel, sobel.T])[:, None].repeat(3, 1, 1, 1), groups=3, padding=1)
        self.haar = Filter(haar[:, None], stride=2)
        self.same = Filter(uneven, groups=8, padding=1)
        self.conv = Normed()
        self.dw = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.old = nn.utils.spectral_norm(nn.Linear(8, 8), name="weight")
        self.fc = nn.utils.parametrizations.weight_norm(nn.Linear(8, 4))
        self.gamma_1, self.gamma_xca = nn.Parameter(torch.full((8,), 0.5)), nn.Parameter(torch.full((8,), 0.5))
        self.register_buffer("scale", torch.linspace(0.5, 1.5, 8))
        self.register_buffer("running_scale", torch.rand(8) + 0.5)
        self.register_buffer("ema_weight", torch.randn(8, 8) * 0.3)
        self.register_buffer("final_logits_bias", torch.randn(1, 4))
        self.register_buffer("positions", sines(4, 4, 8))

    def forward(self, x):
        h = self.dw(self.same(self.conv(self.edges(x))).relu()) * self.gamma_1[:, None, None]
        wavelet = self.haar(h.mean(1, keepdim=True)).flatten(1).mean(1, keepdim=True)
        h = F.max_pool2d(h, 2).flatten(2).transpose(1, 2)
        h = torch.cat([h.mean(1, keepdim=True), h], 1) + self.positions
        h = h * self.scale / self.running_scale + (h @ self.ema_weight) * self.gamma_xca
        return self.fc(self.old(h.mean(1))) + wavelet + self.final_logits_bias


torch.manual_seed(4)
net = Net().eval()
x, target = torch.randn(5, 3, 8, 8), torch.randint(0, 4, (5,))
steps.legacy(net, x, HERE / "model.onnx", opset_version=17, do_constant_folding=False, training=torch.onnx.TrainingMode.EVAL)
steps.write(HERE, net, x, target, lr=0.05, trained=[n for n, _ in net.named_parameters()], says=["ema_weight", "edges.weight", "same.weight"])
