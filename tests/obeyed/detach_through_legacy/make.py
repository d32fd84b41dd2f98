#!/usr/bin/env python3
"""Straight-through estimators by the legacy exporter, which leaves out detach(): what is added and subtracted again tells, and the run names
the edges for --stop-gradient, with which the losses are PyTorch's."""
import pathlib
import sys

import torch
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import steps  # noqa: E402

EDGES = ["/Sub_3_output_0>/Add_3", "/Sub_output_0>/Add", "/Sub_1_output_0>/Add_1", "/Softmax_1_output_0>/Sub_2"]


class Net(nn.Module):
    """A code book as VQ-VAE's, a hard choice as of gumbel_softmax and one the other way round, weights of two values."""

    def __init__(self):
        super().__init__()
        self.book, self.enc, self.gate, self.pick, self.out = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3), nn.Linear(6, 3), nn.Linear(6, 4)
        self.signs = nn.Parameter(0.5 * torch.randn(6, 6))

    def forward(self, x):
        h, q = torch.tanh(self.enc(x)), torch.sin(self.book(x))
        h = h + (q - h).detach()
        p = torch.softmax(self.gate(x), -1)
        p = (p > 0.4).to(x.dtype) - p.detach() + p
        s = torch.softmax(self.pick(x), -1)
        s = (s > 0.3).to(x.dtype) + s - s.detach()
        w = self.signs + (self.signs.sign() * self.signs.abs().mean() - self.signs).detach()
        h = h + torch.tanh(x @ w)
        return self.out(h) * p.sum(-1, keepdim=True) + self.out(h * h) * s.prod(-1, keepdim=True) + self.out(x)


def main():
    torch.manual_seed(0)
    net = Net()
    x, target = torch.randn(6, 6), torch.randint(0, 4, (6,))
    steps.legacy(net, x, HERE / "model.onnx", training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, opset_version=17)
    for folder, flags in ((HERE, []), (HERE.parent / "detach_through_stopped", [a for e in EDGES for a in ("--stop-gradient", e)])):
        folder.mkdir(exist_ok=True)
        if not flags:
            says = [f"--stop-gradient '{e}' stops the gradient" for e in EDGES]
            steps.write(folder, Net(), x, target, lr=0.2)
            e = steps.json.loads((folder / "expected.json").read_text())
            del e["losses"]
            e |= {"says": says, "source": "make.py"}
        else:
            steps.write(folder, net, x, target, lr=0.2)
            e = steps.json.loads((folder / "expected.json").read_text())
            e |= {"flags": e["flags"] + flags, "unsaid": ["is added and subtracted"]}
            (folder / "model.onnx").write_bytes((HERE / "model.onnx").read_bytes())
        (folder / "expected.json").write_text(steps.json.dumps(e, indent=1) + "\n")


main()
