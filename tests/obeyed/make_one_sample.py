#!/usr/bin/env python3
"""Makes the cases one_sample_*: networks exported for one sample, trained and run on several, or at another length."""
import json
import pathlib

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from torch import nn

import steps

HERE = pathlib.Path(__file__).resolve().parent


class Pyramid(nn.Module):
    """Small maps resized to the large one's size, and the sum to the image's."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 3, 2, 1), nn.Conv2d(4, 4, 3, 2, 1)
        self.out = nn.Linear(4, 3)

    def forward(self, x):
        a = torch.relu(self.a(x))
        y = a + F.interpolate(torch.relu(self.b(a)), size=a.shape[-2:], mode="bilinear", align_corners=False)
        return self.out(F.interpolate(y, size=x.shape[-2:], mode="nearest").amax((2, 3)))


class Rows(nn.Module):
    """Two positions of each sample, by a list of rows and one of positions."""

    def __init__(self):
        super().__init__()
        self.first, self.out = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        y = torch.tanh(self.first(x))
        n = y.shape[0]
        return self.out(y[torch.arange(n)[:, None], torch.tensor([[2, 0]]).expand(n, 2)].prod(1))


class Axial(nn.Module):
    """Attention within rows, which are joined with the samples in front of them."""

    def __init__(self):
        super().__init__()
        self.mix, self.out = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        n, c, h, w = x.shape
        y = x.permute(2, 0, 3, 1).reshape(h * n, w, c)
        y = self.mix(torch.softmax(y @ y.transpose(1, 2), -1) @ y)
        return self.out(x.mean((2, 3)) + y.view(h, n, w, c).amax((0, 2)))


class Stacked(nn.Module):
    """One row for all samples, stacked with theirs, which the exporter folds, and taken as it is."""

    def __init__(self):
        super().__init__()
        self.row, self.first, self.out = nn.Parameter(torch.randn(1, 4)), nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        y = torch.stack([self.first(x), self.row.expand(x.shape[0], 4)], 1)
        return self.out(torch.maximum(y.amax(1), torch.where(x > 0, self.row, x)))


class Tokens(nn.Module):
    """Class token and positions of one row."""

    def __init__(self):
        super().__init__()
        self.token, self.place = nn.Parameter(torch.randn(1, 1, 4)), nn.Parameter(torch.randn(1, 4, 4))
        self.first, self.out = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        y = torch.cat([self.token.expand(x.shape[0], -1, -1), self.first(x)], 1) + self.place
        return self.out((torch.softmax(y @ y.transpose(1, 2), -1) @ y)[:, 0])


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.out = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 3)

    def forward(self, x):
        return self.out(self.attention(x, x, x, need_weights=False)[0].mean(1))


def make(name, net, shape, export, batch=3, run=None, **how):
    folder = HERE / f"one_sample_{name}"
    folder.mkdir(exist_ok=True)
    g = torch.Generator().manual_seed(5)
    for p in net.parameters():
        p.data = torch.randn(p.shape, generator=g) * 0.5
    export(net.eval(), torch.zeros(1, *shape), str(folder / "model.onnx"), **how)
    again = torch.randn(*(run or (2, *shape)), generator=g)
    with torch.no_grad():
        np.savez(folder / "outputs.npz", y=net.double()(again.double()).numpy())
    np.save(folder / "again.npy", again.numpy())
    flags = ["--input-shape", "x=" + ",".join(map(str, run))] if run else ["--batch-size", str(len(again))]
    steps.write(folder, net.float(), torch.randn(batch, *shape, generator=g), torch.arange(batch) % 3, steps=3,
                outputs={"inputs": {"x": "again.npy"}, "flags": flags, "file": "outputs.npz"})
    if run:     # which of the sizes is open, the file says; how long it is, no flag but this one
        expected = json.loads((folder / "expected.json").read_text())
        expected["flags"] += ["--input-shape", "x=" + ",".join(map(str, (batch, *shape)))]
        (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


def default(net, x, path, **how):
    torch.onnx.export(net, (x,), path, dynamo=True, input_names=["x"], output_names=["y"], verbose=False, external_data=False, **how)
    model = onnx.load(path)
    for node in model.graph.node:       # traces of calls are most of the file
        del node.metadata_props[:]
    del model.graph.value_info[:]
    onnx.save(model, path)


def untouched(net, x, path, **how):
    """With all that the exporter says of folded tensors."""
    torch.onnx.export(net, (x,), path, dynamo=True, input_names=["x"], output_names=["y"], verbose=False, external_data=False, **how)


def legacy(net, x, path, **how):
    torch.onnx.export(net, (x,), path, dynamo=False, input_names=["x"], output_names=["y"], **how)


def main():
    torch.manual_seed(0)
    make("resize", Pyramid(), (3, 8, 8), default)
    make("resize_plain", Pyramid(), (3, 6, 10), default, optimize=False)
    make("rows", Rows(), (3, 4), default)
    make("rows_legacy", Rows(), (3, 4), legacy)
    make("joined_axes", Axial(), (4, 3, 3), legacy)
    make("joined_axes_default", Axial(), (4, 3, 3), default)
    make("row_stacked", Stacked(), (4,), untouched)
    make("row_stacked_alone", Stacked(), (4,), untouched, batch=1)
    make("tokens_alone", Tokens(), (3, 4), default, batch=1)
    make("tokens_alone_plain", Tokens(), (3, 4), default, batch=1, optimize=False)
    make("tokens_legacy", Tokens(), (3, 4), legacy, batch=1)
    make("open_length", Heads(), (6, 8), default, batch=1, run=(1, 32, 8), dynamic_shapes={"x": {1: torch.export.Dim("length")}})


if __name__ == "__main__":
    main()
