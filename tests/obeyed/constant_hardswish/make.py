#!/usr/bin/env python3
"""A file that keeps all tensors in Constant nodes; those of its Hardswish, [1] each, are no biases, the last layer's is."""
import pathlib
import sys

import onnx
import torch
from onnx import TensorProto as T, helper as h, numpy_helper
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import steps  # noqa: E402


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.mid, self.gate, self.out = nn.Conv2d(3, 6, 3), nn.Linear(96, 8), nn.Linear(8, 1), nn.Linear(8, 4)

    def forward(self, x):
        h = nn.functional.hardswish(self.conv(x)).flatten(1)
        m = nn.functional.hardswish(self.mid(h))
        return self.out(m) * self.gate(m)


torch.manual_seed(2)
net = Net()
x, target = torch.randn(5, 3, 6, 6), torch.randint(0, 4, (5,))
nodes = []


def constant(name, tensor):
    nodes.append(h.make_node("Constant", [], [name], value=numpy_helper.from_array(tensor.detach().numpy(), name)))
    return name


def add(op, inputs, out, **attributes):
    nodes.append(h.make_node(op, inputs, [out], **attributes))
    return out


def hardswish(v, tag):
    number = {n: constant(f"{tag}_{n}", torch.tensor([float(n)])) for n in (3, 6)}
    low, high = constant(tag + "_low", torch.tensor(0.)), constant(tag + "_high", torch.tensor(6.))
    gate = add("Clip", [add("Add", [v, number[3]], tag + "_sum"), low, high], tag + "_clip")
    return add("Div", [add("Mul", [v, gate], tag + "_mul"), number[6]], tag + "_out")


def linear(v, layer, tag):
    product = add("MatMul", [v, constant(tag + "_w", layer.weight.T.contiguous())], tag + "_product")
    return add("Add", [product, constant(tag + "_b", layer.bias)], tag)


c = add("Conv", ["x", constant("conv_w", net.conv.weight)], "conv_product")
c = add("Add", [c, constant("conv_b", net.conv.bias.reshape(1, -1, 1, 1))], "conv")
m = hardswish(linear(add("Flatten", [hardswish(c, "h1")], "flat"), net.mid, "mid"), "h2")
add("Mul", [linear(m, net.out, "out"), linear(m, net.gate, "gate")], "y")
graph = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, ["n", 3, 6, 6])],
                     [h.make_tensor_value_info("y", T.FLOAT, ["n", 4])])
onnx.save(h.make_model(graph, producer_name="PaddlePaddle", opset_imports=[h.make_opsetid("", 13)], ir_version=8), HERE / "model.onnx")
steps.write(HERE, net, x, target, silent=True,
            trained=[f"{layer}_{p}" for layer in ("conv", "mid", "out", "gate") for p in "wb"])
