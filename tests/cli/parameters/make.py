"""Small networks as PyTorch exports them, and which of their tensors named_parameters() has: the fixtures of tests/cli/parameters.sh.

    python make.py        with torch, onnx and onnxscript

*.legacy is the older exporter for training, *.export the newer one with optimize=False.  Beside FILE.onnx, FILE.txt lists the names."""
import math
import os

import torch
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))


class Tokens(nn.Module):
    """Parameters that are expanded and concatenated."""

    def __init__(self):
        super().__init__()
        self.fc, self.out = nn.Linear(8, 16), nn.Linear(16, 3)
        self.bank, self.token = nn.Parameter(torch.randn(5, 16)), nn.Parameter(torch.zeros(1, 1, 16))
        self.scale = nn.Parameter(torch.full((1,), 0.7))

    def forward(self, x):
        h, n = self.fc(x), x.shape[0]
        k = torch.cat([self.bank.unsqueeze(0).expand(n, -1, -1), self.token.expand(n, -1, -1), h.unsqueeze(1)], 1)
        a = torch.softmax((h.unsqueeze(1) * k).sum(-1) * self.scale, -1)
        return self.out((a.unsqueeze(-1) * k).sum(1))


class Norms(nn.Module):
    """Normalisations with and without parameters of their own."""

    def __init__(self):
        super().__init__()
        self.c1, self.c2, self.c3 = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3), nn.Conv2d(4, 4, 3)
        self.group, self.instance = nn.GroupNorm(2, 4), nn.InstanceNorm2d(4)
        self.plain, self.batch = nn.BatchNorm2d(4, affine=False), nn.BatchNorm2d(4)
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        x = torch.relu(self.instance(self.group(self.c1(x))))
        return self.fc(self.batch(self.c3(torch.relu(self.plain(self.c2(x))))).mean((2, 3)))


class Buffers(nn.Module):
    """Positions that are computed and positions that are learned, a mask, a filter of the loss."""

    def __init__(self):
        super().__init__()
        self.embed, self.q, self.out, self.norm = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 3), nn.LayerNorm(8)
        angle = torch.arange(10.)[:, None] * torch.exp(torch.arange(0, 8, 2.) * -(math.log(10000.) / 8))
        self.register_buffer("table", torch.stack([angle.sin(), angle.cos()], -1).reshape(1, 10, 8))
        self.register_buffer("causal", torch.triu(torch.full((10, 10), -100.), 1))
        self.register_buffer("smooth", torch.tensor([[[0.25, 0.5, 0.25]]]).repeat(10, 1, 1))
        self.pos, self.gamma = nn.Parameter(torch.randn(1, 10, 8) * 0.02), nn.Parameter(torch.full((8,), 1e-6))

    def forward(self, x):
        x = self.embed(x) + self.table + self.pos
        x = x + self.gamma * (torch.softmax(self.q(x) @ x.transpose(1, 2) + self.causal, -1) @ x)
        return self.out(nn.functional.conv1d(self.norm(x), self.smooth, padding=1, groups=10).mean(1))


def main():
    for name, make, shape in ("tokens", Tokens, (4, 8)), ("norms", Norms, (4, 3, 10, 10)), ("buffers", Buffers, (4, 10, 6)):
        for kind in "legacy", "export":
            if kind == "export" and name != "tokens":
                continue
            torch.manual_seed(0)
            net = make().train()
            path = os.path.join(HERE, f"{name}.{kind}")
            how = dict(dynamo=False, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, opset_version=17) \
                if kind == "legacy" else dict(dynamo=True, optimize=False, external_data=False, verbose=False)
            torch.onnx.export(net, (torch.randn(shape),), path + ".onnx", **how)
            with open(path + ".txt", "w") as f:
                f.writelines(f"{k}\n" for k in sorted(k for k, _ in net.named_parameters()))


main()
