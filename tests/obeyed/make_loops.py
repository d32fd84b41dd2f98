#!/usr/bin/env python3
"""Makes the cases loop_*: EmbeddingBag, which exporters write as a loop over the batch, whose size the file leaves open.

    make_loops.py                 needs the packages of tests/networks/requirements.txt
"""
import json
import pathlib

import numpy as np
import onnx
import torch
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent


class Bag(nn.Module):
    def __init__(self, mode):
        super().__init__()
        self.bag, self.out = nn.EmbeddingBag(10, 4, mode=mode), nn.Linear(4, 3)

    def forward(self, x):
        return self.out(self.bag(x))


def forget_metadata(file):
    model = onnx.load(file)
    forget_nodes(model.graph)
    onnx.save(model, file)


def forget_nodes(graph):
    """Of the bodies of loops and branches: most of such a file."""
    graph.ClearField("value_info")
    for node in graph.node:
        node.ClearField("metadata_props")
        for attribute in node.attribute:
            forget_nodes(attribute.g)


def make(name, mode, how, refused):
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    x, names = torch.randint(0, 10, (8, 6)), {"input_names": ["x"], "output_names": ["y"]}
    if how == "legacy":
        torch.onnx.export(Bag(mode), (x,), folder / "model.onnx", dynamo=False, dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}}, **names)
    else:
        torch.onnx.export(Bag(mode), (x,), folder / "model.onnx", dynamo=True, dynamic_shapes=({0: torch.export.Dim("batch")},),
                          external_data=False, verbose=False, **names)
    forget_metadata(folder / "model.onnx")
    np.savez(folder / "data.npz", x=x.numpy(), target=torch.randint(0, 3, (8,)).numpy())
    (folder / "expected.json").write_text(json.dumps(
        {"model": "model.onnx", "data": "data.npz", "flags": ["--loss", "cross-entropy", "--batch-size", "4"], "refused": refused}, indent=1) + "\n")


if __name__ == "__main__":
    torch.manual_seed(4)
    make("loop_over_batch", "sum", "legacy", "follows from a size that the file leaves open, such as the batch, expected one that constants")
    make("loop_over_batch_dynamo", "mean", "dynamo", "follows from a size that the file leaves open, such as the batch, expected a constant condition")
