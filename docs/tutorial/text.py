#!/usr/bin/env python3
"""Makes the files of docs/tutorial/text.md: code.txt, the first 1.2 MB of Python's own library, and gpt.onnx, a GPT that reads bytes.

    python docs/tutorial/text.py FOLDER           # numpy and onnx
"""
import pathlib
import sys
import sysconfig

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

BYTES = 1_200_000
VOCABULARY, LENGTH, WIDTH, HEADS, LAYERS = 256, 64, 96, 4, 3


def text():
    files = sorted(pathlib.Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return b"".join(f.read_bytes() for f in files)[:BYTES]


class Net:
    """A graph that grows by nodes and weights; weights begin as GPT-2's do."""

    def __init__(self, seed):
        self.rng, self.nodes, self.weights = np.random.default_rng(seed), [], []

    def tensor(self, name, value):
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def normal(self, name, *shape, std=0.02):
        return self.tensor(name, self.rng.normal(0, std, shape).astype("f4"))

    def node(self, op, *inputs, out=None, **attributes):
        out = out or f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [out], **attributes))
        return out

    def linear(self, x, name, n, m, std=0.02):
        y = self.node("MatMul", x, self.normal(f"{name}.weight", n, m, std=std))
        return self.node("Add", y, self.tensor(f"{name}.bias", np.zeros(m, "f4")))

    def norm(self, x, name):
        scale, bias = self.tensor(f"{name}.weight", np.ones(WIDTH, "f4")), self.tensor(f"{name}.bias", np.zeros(WIDTH, "f4"))
        return self.node("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-5)


def gpt(seed):
    net, head, small = Net(seed), WIDTH // HEADS, 0.02 / (2 * LAYERS) ** 0.5
    mask = net.tensor("mask", np.triu(np.full((LENGTH, LENGTH), -1e9, "f4"), 1))
    split, merge = net.tensor("split", np.int64([0, LENGTH, HEADS, head])), net.tensor("merge", np.int64([0, LENGTH, WIDTH]))
    scale = net.tensor("scale", np.float32(head ** -0.5))

    x = net.node("Gather", net.normal("token.weight", VOCABULARY, WIDTH), "tokens")
    x = net.node("Add", x, net.normal("position.weight", LENGTH, WIDTH))
    for i in range(LAYERS):
        y = net.norm(x, f"{i}.norm1")
        q, k, v = (net.node("Transpose", net.node("Reshape", net.linear(y, f"{i}.{w}", WIDTH, WIDTH), split),
                            perm=[0, 2, 3, 1] if w == "key" else [0, 2, 1, 3]) for w in ("query", "key", "value"))
        scores = net.node("Add", net.node("Mul", net.node("MatMul", q, k), scale), mask)
        y = net.node("Transpose", net.node("MatMul", net.node("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        x = net.node("Add", x, net.linear(net.node("Reshape", y, merge), f"{i}.out", WIDTH, WIDTH, small))
        y = net.node("Relu", net.linear(net.norm(x, f"{i}.norm2"), f"{i}.up", WIDTH, 4 * WIDTH))
        x = net.node("Add", x, net.linear(y, f"{i}.down", 4 * WIDTH, WIDTH, small))
    y = net.node("MatMul", net.norm(x, "norm"), net.normal("head.weight", WIDTH, VOCABULARY), out="logits")

    graph = helper.make_graph(net.nodes, "gpt", [helper.make_tensor_value_info("tokens", TensorProto.INT64, ["N", LENGTH])],
                              [helper.make_tensor_value_info(y, TensorProto.FLOAT, ["N", LENGTH, VOCABULARY])], net.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main():
    folder = pathlib.Path(sys.argv[1])
    (folder / "code.txt").write_bytes(text())
    save(gpt(0), folder / "gpt.onnx")


main()
