#!/usr/bin/env python3
"""Writes networks of what is in none of the other small models but in networks of docs/reference/networks.md, with data: for kernel_times.sh.

    patterns.py FOLDER          FOLDER/NAME.onnx and .npz for each NAME; prints "NAME LOSS", a line each

Each operator stands where a network has it: swin pads and rolls windows, shufflenet splits channels, a temporal network has Elu, an
autoencoder LeakyRelu and binary cross-entropy, a table of numbers PRelu and its squared error, a mobile network hard sigmoids.
"""
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SAMPLES = 32
rng = np.random.default_rng(1)


class Net:
    def __init__(self, shape):
        self.nodes, self.tensors, self.shape = [], [], shape
        self.last = "x"

    def tensor(self, array):
        name = f"t{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weight(self, *shape):
        return self.tensor(rng.normal(0, 0.1, shape).astype(np.float32))

    def op(self, kind, *more, outputs=1, of=None, **attributes):
        """Appends a node that reads `of`, else the last value, and then `more`."""
        names = [f"v{len(self.nodes)}_{o}" for o in range(outputs)]
        self.nodes.append(helper.make_node(kind, [*([self.last] if of is None else of), *more], names, **attributes))
        self.last = names[0]
        return names

    def conv(self, channels_in, channels):
        self.op("Conv", self.weight(channels, channels_in, 3, 3), self.weight(channels), pads=[1, 1, 1, 1])

    def norm(self, channels):
        one, zero = np.ones(channels, np.float32), np.zeros(channels, np.float32)
        self.op("BatchNormalization", *map(self.tensor, (one, zero, zero, one)), outputs=1)

    def save(self, path, out, target):
        graph = helper.make_graph(self.nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *self.shape])],
                                  [helper.make_tensor_value_info(self.last, TensorProto.FLOAT, ["N", *out])], self.tensors)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 8
        onnx.checker.check_model(model)
        onnx.save(model, path.with_suffix(".onnx"))
        np.savez(path.with_suffix(".npz"), x=rng.normal(size=(SAMPLES, *self.shape)).astype(np.float32), target=target)


def numbers(*a):
    return np.array(a, np.int64)


def windows(path):
    """Padded, rolled by a slice and a concatenation, cut in windows, rows picked out."""
    n = Net((8, 20, 20))
    n.op("Pad", n.tensor(numbers(0, 0, 0, 0, 0, 0, 4, 4)))
    n.conv(8, 16)
    x = n.last
    a = n.op("Slice", *map(n.tensor, (numbers(5), numbers(24), numbers(2))), of=[x])
    b = n.op("Slice", *map(n.tensor, (numbers(0), numbers(5), numbers(2))), of=[x])
    n.op("Concat", of=a + b, axis=2)
    n.op("Gather", n.tensor(rng.permutation(24).astype(np.int64)), axis=3)
    n.op("Transpose", perm=[0, 2, 3, 1])
    n.op("Softmax", axis=3)
    n.op("Tile", n.tensor(numbers(1, 1, 1, 2)))
    n.op("ReduceMean", axes=[1, 2], keepdims=0)
    n.op("ReduceL2", axes=[1], keepdims=1)
    n.op("MatMul", n.weight(1, 10))
    n.save(path, [10], rng.integers(0, 10, SAMPLES))
    return "cross-entropy"


def channels(path):
    """Split in two, one half convolved, joined, shuffled; hard sigmoids gate them."""
    n = Net((16, 16, 16))
    a, b = n.op("Split", n.tensor(numbers(8, 8)), axis=1, outputs=2)
    n.last = b
    n.conv(8, 8)
    n.norm(8)
    n.op("HardSwish")
    n.op("Concat", of=[a, n.last], axis=1)
    x = n.op("Transpose", of=n.op("Reshape", n.tensor(numbers(0, 2, 8, 256))), perm=[0, 2, 1, 3])
    x = n.op("Reshape", n.tensor(numbers(0, 16, 16, 16)), of=x)
    n.op("GlobalAveragePool", of=x)
    n.op("HardSigmoid", alpha=1 / 6)
    n.op("Mul", of=[*x, n.last])
    n.op("Elu")
    n.op("GlobalAveragePool")
    n.op("Flatten")
    n.op("Gemm", n.weight(16, 10), n.weight(10))
    n.save(path, [10], rng.integers(0, 10, SAMPLES))
    return "cross-entropy"


def picture(path, kind):
    """A picture from a picture, or a class for each of its elements."""
    n = Net((2, 24, 24))
    n.conv(2, 8)
    n.op("LeakyRelu", alpha=0.1)
    n.conv(8, 8)
    n.op("PRelu", n.weight(8, 1, 1))
    n.conv(8, 4)
    if kind == "cross-entropy":
        target = rng.integers(0, 4, (SAMPLES, 24, 24))
    else:
        target = rng.random((SAMPLES, 4, 24, 24)).astype(np.float32)
    n.save(path, [4, 24, 24], target)
    return kind


NETS = {"windows": windows, "channels": channels, "classes": lambda p: picture(p, "cross-entropy"), "mse": lambda p: picture(p, "mse"),
        "l1": lambda p: picture(p, "l1"), "bce": lambda p: picture(p, "bce-logits")}

if __name__ == "__main__":
    for name, make in NETS.items():
        print(name, make(pathlib.Path(sys.argv[1]) / name))
