#!/usr/bin/env python3
"""Exports the models of tests/interop/models: a small network in training mode, with every dropout that is no operator.

    export_models.py OUT           needs PyTorch (2.15), torchvision (0.29), timm (1.0) and onnxscript

Each is called after its dropout and its exporter: `legacy` with the opset, `default` with and without optimisation.
"""
import argparse
import contextlib
import io
import pathlib
import warnings

import onnx
import torch
from timm.layers import DropPath
from torch import nn
from torchvision.ops import StochasticDepth


class Floor(nn.Module):
    """As it stood in timm and many papers' code."""

    def forward(self, x):
        mask = torch.rand((x.shape[0],) + (1,) * (x.ndim - 1)) + 0.8
        return x.div(0.8) * mask.floor()


class Compared(nn.Module):
    """Dropout by hand: an element at a time, divided at the end."""

    def forward(self, x):
        return x * (torch.rand_like(x) < 0.8).to(x.dtype) / 0.8


class Chosen(nn.Module):
    """The mask chooses."""

    def forward(self, x):
        return torch.where(torch.rand(x.shape[0], 1, 1, 1) >= 0.2, x / 0.8, torch.zeros_like(x))


class Net(nn.Module):
    def __init__(self, drop):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.conv2, self.bn2 = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.drop, self.dropout, self.fc = drop, nn.Dropout(0.3), nn.Linear(4, 3)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        x = torch.relu(x + self.drop(self.bn2(self.conv2(x))))
        return self.fc(self.dropout(x.mean((2, 3))))


DROPS = {
    "dropout": nn.Dropout(0.2), "depth_row": StochasticDepth(0.2, "row"), "depth_batch": StochasticDepth(0.2, "batch"),
    "drop_path": DropPath(0.2), "drop_path_unscaled": DropPath(0.2, scale_by_keep=False), "feature_dropout": nn.Dropout2d(0.2),
    "floor": Floor(), "compared": Compared(), "chosen": Chosen(),
}
LEGACY = {      # opsets
    "dropout": (11, 13, 17), "depth_row": (11, 13, 17), "depth_batch": (17,), "drop_path": (13,), "drop_path_unscaled": (17,),
    "floor": (11,), "compared": (17,), "chosen": (17,),
}
DEFAULT = {     # optimised or not
    "dropout": (True, False), "depth_row": (True, False), "drop_path_unscaled": (True, False), "feature_dropout": (True,),
    "floor": (True,), "compared": (True,), "chosen": (False,),
}


def legacy(net, x, opset, path):
    torch.onnx.export(net, (x,), str(path), opset_version=opset, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                      dynamo=False, input_names=["x"], output_names=["y"], dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}})


def default(net, x, optimize, path):
    program = torch.onnx.export(net, (x,), dynamo=True, optimize=optimize, input_names=["x"], output_names=["y"],
                                dynamic_shapes={"x": {0: "batch"}}, verbose=False)
    program.save(str(path))


def strip(path):
    """What tells of the machine that exported it: where in which source file a node was made."""
    model = onnx.load(str(path))
    for part in (*model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.output):
        part.ClearField("doc_string")
        part.ClearField("metadata_props")
    del model.graph.value_info[:]
    del model.metadata_props[:]
    model.graph.ClearField("metadata_props")
    onnx.save(model, str(path))


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("out", type=pathlib.Path)
    out = ap.parse_args().out
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for name, drop in DROPS.items():
        torch.manual_seed(len(name))
        net, x = Net(drop).train(), torch.randn(2, 3, 8, 8)
        with contextlib.redirect_stdout(io.StringIO()):     # the exporters talk
            for opset in LEGACY.get(name, ()):
                legacy(net, x, opset, out / f"{name}_legacy{opset}.onnx")
            for optimize in DEFAULT.get(name, ()):
                default(net, x, optimize, out / f"{name}_default{'' if optimize else '_plain'}.onnx")
    for path in out.glob("*.onnx"):
        strip(path)


if __name__ == "__main__":
    main()
