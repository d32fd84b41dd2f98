#!/usr/bin/env python3
"""A function that is called by another one, by a loop and by an If: its Constant nodes are one tensor for all calls."""
import pathlib
import sys

import onnx
import torch
from onnx import numpy_helper
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import steps  # noqa: E402

torch.manual_seed(3)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.v = nn.Parameter(torch.randn(6, 6) * 0.4), nn.Parameter(torch.randn(6, 4))

    def forward(self, x):
        for slope in (0.1, 0.1, 0.3, 0.3, 0.2, 0.2):
            x = x + nn.functional.leaky_relu(x @ self.w, slope) * slope
        return x @ self.v


net = Net()
model = onnx.parser.parse_model("""
<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
agraph (float[n, 6] x) => (float[n, 4] y)
<int64 two = {2}, bool yes = {1}>
{
    a = own.Twice(x)
    b = Loop <body = trip (int64 i, bool before, float[n, 6] s) => (bool after, float[n, 6] t)
              { after = Identity(before)  t = own.Block <slope = 0.3> (s) }> (two, yes, a)
    c = If <then_branch = left () => (float[n, 6] l) { h = own.Block <slope = 0.2> (b)  l = own.Block <slope = 0.2> (h) },
            else_branch = right () => (float[n, 6] r) { r = Identity(b) }> (yes)
    V = Constant <value = float[1] {0}> ()
    y = MatMul(c, V)
}
<domain: "own", opset_import: ["" : 17]>
Block <slope> (X) => (Y)
{
    W = Constant <value = float[1] {0}> ()
    S = Constant <value_float: float = @slope> ()
    p = MatMul(X, W)
    z = Constant <value_float = 0.0> ()
    up = Max(p, z)
    down = Min(p, z)
    less = Mul(down, S)
    q = Add(up, less)
    r = Mul(q, S)
    Y = Add(X, r)
}
<domain: "own", opset_import: ["" : 17, "own" : 1]>
Twice (X) => (Y)
{
    h = own.Block <slope = 0.1> (X)
    Y = own.Block <slope = 0.1> (h)
}
""")
for nodes, name, tensor in ((model.functions[0].node, "W", net.w), (model.graph.node, "V", net.v)):
    constant = next(n for n in nodes if n.op_type == "Constant" and n.output[0] == name)
    constant.attribute[0].t.CopyFrom(numpy_helper.from_array(tensor.detach().numpy(), name))
onnx.checker.check_model(model)
onnx.save(model, HERE / "model.onnx")
steps.write(HERE, net, torch.randn(5, 6), torch.randint(0, 4, (5,)), silent=True)
