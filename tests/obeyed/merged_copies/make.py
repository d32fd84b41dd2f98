#!/usr/bin/env python3
"""Makes the cases merged_*: fresh networks whose layers are copies, as simplifiers leave them, and what PyTorch trains of them.

Needs the packages of tests/networks/requirements.txt, onnxsim, onnxslim, onnxoptimizer and onnxruntime.
"""
import copy
import json
import pathlib
import sys
import tempfile
import warnings

import numpy as np
import onnx
import onnxoptimizer
import onnxruntime
import onnxsim
import onnxslim
import torch
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent.parent
STEPS, BATCH, SAMPLES, LR = 5, 4, 12, 0.1


class Twin(nn.Module):
    """Two layers that are copies and read one input: equal nodes."""

    def __init__(self):
        super().__init__()
        self.a, self.na, self.nb = nn.Linear(24, 8), nn.LayerNorm(8), nn.LayerNorm(8)
        self.b, self.fa, self.fb = copy.deepcopy(self.a), nn.Linear(8, 4), nn.Linear(8, 4)

    def forward(self, x):
        return self.fa(self.na(torch.tanh(self.a(x)))) - self.fb(self.nb(torch.relu(self.b(x))))


class Branches(nn.Module):
    """Two branches of several layers that are copies: chains of equal nodes."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, padding=1)
        self.left = nn.Sequential(nn.Conv2d(6, 6, 3, padding=1), nn.InstanceNorm2d(6, affine=True), nn.ReLU())
        self.right, self.out = copy.deepcopy(self.left), nn.Linear(12, 4)

    def forward(self, x):
        x = self.stem(x.reshape(-1, 3, 4, 2))
        return self.out(torch.cat([self.left(x).mean((2, 3)), self.right(x).amax((2, 3))], 1))


class Stack(nn.Module):
    """Layers one behind the other, all copies of one."""

    def __init__(self):
        super().__init__()
        layer = nn.Sequential(nn.Linear(24, 24), nn.LayerNorm(24), nn.GELU())
        self.layers, self.out = nn.ModuleList([copy.deepcopy(layer) for _ in range(3)]), nn.Linear(24, 4)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return self.out(x)


class Ties(nn.Module):
    """True ties: a layer that is called twice, and one weight of two layers with biases of their own."""

    def __init__(self):
        super().__init__()
        self.layer, self.norm = nn.Linear(24, 24), nn.LayerNorm(24)
        self.one, self.two, self.out = nn.Linear(24, 8), nn.Linear(24, 8), nn.Linear(8, 4)
        self.two.weight = self.one.weight

    def forward(self, x):
        for _ in range(2):
            x = torch.tanh(self.norm(self.layer(x)))
        return self.out(torch.relu(self.one(x)) * torch.tanh(self.two(x)))


def onnxsim_(source, to):
    onnx.save(onnxsim.simplify(onnx.load(source))[0], to)


def onnxslim_(source, to):
    onnx.save(onnxslim.slim(onnx.load(source)), to)


def onnxoptimizer_(source, to):
    passes = ["eliminate_identity", "eliminate_duplicate_initializer", "eliminate_common_subexpression", "eliminate_deadend", "eliminate_unused_initializer"]
    onnx.save(onnxoptimizer.optimize(onnx.load(source), passes), to)


def onnxoptimizer_plain(source, to):
    onnx.save(onnxoptimizer.optimize(onnx.load(source)), to)


def ort(source, to):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level, options.optimized_model_filepath = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC, str(to)
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])


def legacy(net, x, to):
    torch.onnx.export(net, (x,), to, dynamo=False, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, opset_version=17,
                      input_names=["x"], output_names=["out"], dynamic_axes={"x": {0: "batch"}, "out": {0: "batch"}})


def default(net, x, to):
    torch.onnx.export(net, (x,), to, dynamo=True, optimize=False, verbose=False, external_data=False, input_names=["x"], output_names=["out"],
                      dynamic_shapes=({0: torch.export.Dim("batch")},))


def train(net, data):
    net = copy.deepcopy(net).double().train()
    optimizer = torch.optim.SGD(net.parameters(), lr=LR)
    for m in net.modules():
        if hasattr(m, "eps"):
            m.eps = float(np.float32(m.eps))
    losses = []
    for step in range(STEPS):
        at = slice(step * BATCH % SAMPLES, step * BATCH % SAMPLES + BATCH)
        loss = nn.functional.cross_entropy(net(data["x"][at].double()), data["target"][at])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [k for k, _ in net.named_parameters()]


CASES = {   # network, exporter, simplifier, what expected.json says besides
    "merged_nodes": (Twin, default, onnxsim_, {}),
    "merged_chain": (Branches, legacy, onnxsim_, {}),
    "merged_stack": (Stack, legacy, onnxslim_, {}),
    "merged_by_ort": (Twin, legacy, ort, {}),
    "merged_ties": (Ties, legacy, onnxslim_, {}),
    "merged_ties_onnxsim": (Ties, default, onnxsim_, {}),
    "merged_nodes_onnxoptimizer": (Twin, default, onnxoptimizer_, {"losses": None, "says": [                  # no trace of which
        "the file has 'node_linear_3' and none called 'node_linear_2', which may have been a copy of 'node_linear'"]}),
    "merged_stack_onnxoptimizer": (Stack, legacy, onnxoptimizer_, {}),
    "merged_twin_onnxoptimizer": (Twin, legacy, onnxoptimizer_plain, {}),
    "merged_ties_onnxoptimizer": (Ties, legacy, onnxoptimizer_, {}),
}


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(2)
    data = {"x": (4 * torch.randn(SAMPLES, 24, generator=generator)).round() / 4, "target": torch.randint(4, (SAMPLES,), generator=generator)}
    for name, (cls, export, simplify, more) in ((k, v) for k, v in CASES.items() if not sys.argv[1:] or k in sys.argv[1:]):
        torch.manual_seed(3)
        net, folder = cls(), HERE / name
        folder.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory() as work:
            export(copy.deepcopy(net).train(), data["x"][:2], f"{work}/net.onnx")
            simplify(f"{work}/net.onnx", str(folder / "net.onnx"))
        np.savez_compressed(folder / "data.npz", **{k: v.numpy() for k, v in data.items()})
        losses, trained = train(net, data)
        flags = ["--loss", "cross-entropy", "--batch-size", str(BATCH), "--steps", str(STEPS), "--lr", str(LR)]
        expected = {"model": "net.onnx", "data": "data.npz", "flags": flags, "losses": losses, **more}
        (folder / "expected.json").write_text(json.dumps({k: v for k, v in expected.items() if v is not None}, indent=1) + "\n")


if __name__ == "__main__":
    main()
