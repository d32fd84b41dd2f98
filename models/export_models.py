#!/usr/bin/env python3
"""Exports the exported_*.onnx models with torch.onnx (made with PyTorch 1.13.1).

    export_models.py [--out DIR]
"""
import argparse
import pathlib

import torch
from torch.onnx import TrainingMode

import torch_nets

MODELS = [  # module, opset, exported in training mode
    (torch_nets.resnet, 14, True),
    (torch_nets.mobilenet, 15, True),
    (torch_nets.encoder, 13, True),
    (torch_nets.folded, 11, False),
]


def export(build, opset, training, path):
    net = torch_nets.make(build)
    torch.onnx.export(net.train(training), torch.zeros(2, 3, 32, 32), str(path), opset_version=opset,
                      training=TrainingMode.TRAINING if training else TrainingMode.EVAL,
                      do_constant_folding=not training, input_names=["image"], output_names=["logits"],
                      dynamic_axes={"image": {0: "batch"}, "logits": {0: "batch"}})


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent)
    out = ap.parse_args().out
    torch.set_num_threads(1)
    for build, opset, training in MODELS:
        export(build, opset, training, out / f"exported_{build.__name__}.onnx")


if __name__ == "__main__":
    main()
