#!/usr/bin/env python3
"""Makes the nets of the table of worlds (tests/worlds/rows.sh), small enough for a row to take milliseconds: fewer numbers in some
tensors than there are replicas, so that pieces are empty.  Needs numpy and onnx; the same bytes every time."""
import pathlib
import sys

import onnx

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "models"))
from builder import Net  # noqa: E402


def mlp():
    net = Net("mlp", seed=1)
    net.gemm(net.relu(net.gemm(net.input("x", [4]), "fc1", 4, 5)), "fc2", 5, 3, out="logits")
    net.output("logits", [3])
    return net.model()


def cnn():
    net = Net("cnn", seed=2, bn_bias=0.1)
    x = net.pool(net.relu(net.conv_bn(net.input("x", [1, 6, 6]), 1, 1, 3)))
    x = net.op("GlobalAveragePool", net.relu(net.conv_bn(x, 2, 3, 4)))
    net.gemm(net.op("Flatten", x), "fc", 4, 3, out="logits")
    net.output("logits", [3])
    return net.model()


def dropout():
    net = Net("dropout", seed=3)
    x = net.relu(net.conv(net.input("x", [2, 4, 4]), "conv1", 2, 4, bias=True))
    x = net.op("Add", x, net.conv(net.op("Dropout", x, net.const(0.3)), "conv2", 4, 4))
    net.gemm(net.op("Dropout", net.op("Flatten", x), net.const(0.2)), "fc", 64, 3, out="logits")
    net.output("logits", [3])
    return net.model()


for make in (mlp, cnn, dropout):
    onnx.save(make(), HERE / f"{make.__name__}.onnx")
