#!/usr/bin/env python3
"""Makes the cases sizes_*: networks whose sizes are computed within the file, through many floats or in branches that sizes decide."""
import pathlib

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper, numpy_helper
from torch import nn

import steps

HERE = pathlib.Path(__file__).resolve().parent


class Frames(nn.Module):
    """EnCodec's encoder in small: each convolution pads at the right until its last frame is whole, by floats of the length, which goes on
    from layer to layer without being read from a tensor again."""

    def __init__(self, layers, channels=3, stride=2):
        super().__init__()
        self.stride = stride
        self.layer = nn.ModuleList(nn.Conv1d(channels if k else 1, channels, 2 * stride, stride) for k in range(layers))
        self.out = nn.Linear(channels, 3)

    def forward(self, x):
        length = torch.tensor(x.shape[-1]) if isinstance(x.shape[-1], int) else x.shape[-1]
        for layer in self.layer:
            frames = torch.ceil((length - 2 * self.stride + self.stride) / self.stride + 1) - 1
            extra = (frames * self.stride + self.stride - length).to(torch.int64)
            x = F.elu(layer(F.pad(x, (self.stride, extra))))
            length = torch.floor((length + self.stride + extra - 2 * self.stride) / self.stride) + 1
        return self.out(x.transpose(1, 2).reshape(x.shape[0], length.to(torch.int64), -1).mean(1))


def frames(name, net, length, lengths):
    folder = HERE / f"sizes_{name}"
    folder.mkdir(exist_ok=True)
    g = torch.Generator().manual_seed(7)
    torch.onnx.export(net, (torch.zeros(2, 1, length),), str(folder / "model.onnx"), dynamo=False, input_names=["x"], output_names=["y"],
                      dynamic_axes={"x": {0: "batch", 2: "length"}, "y": {0: "batch"}}, do_constant_folding=False)
    again = torch.randn(2, 1, lengths[1], generator=g)
    with torch.no_grad():
        np.savez(folder / "outputs.npz", y=net.double()(again.double()).numpy())
    np.save(folder / "again.npy", again.numpy())
    steps.write(folder, net.float(), torch.randn(3, 1, lengths[0], generator=g), torch.arange(3), steps=3,
                outputs={"inputs": {"x": "again.npy"}, "file": "outputs.npz"})


class Window(nn.Module):
    """Needs inputs of 200 numbers, and of all sizes that are open the same."""

    def __init__(self):
        super().__init__()
        self.frame, self.out = nn.Conv1d(1, 3, 200, 100), nn.Linear(3, 3)

    def forward(self, x):
        return self.out(torch.relu(self.frame(x)).mean(2))


class Windows(nn.Module):
    """Swin's: an image of whole windows of 7 x 7."""

    def __init__(self):
        super().__init__()
        self.token, self.out = nn.Linear(2, 4), nn.Linear(4, 3)

    def forward(self, x):
        batch, height, width, _ = x.shape
        h = x.reshape(batch, height // 7, 7, width // 7, 7, 2).permute(0, 1, 3, 2, 4, 5).reshape(-1, 49, 2)
        return self.out(torch.relu(self.token(h)).mean(1).reshape(batch, -1, 4).amax(1))


def window(name, net=None, at=(2, 1, 400), of=(3, 1, 300), **how):
    """graph-transform --parameters, which knows no sizes, lists what a run trains."""
    folder, net = HERE / f"sizes_{name}", net or Window()
    folder.mkdir(exist_ok=True)
    torch.onnx.export(net, (torch.zeros(at),), str(folder / "model.onnx"), input_names=["x"], output_names=["y"], **how)
    steps.write(folder, net, torch.randn(of), torch.arange(3), steps=2, trained=[n for n, _ in net.named_parameters()])


class Cell(nn.Module):
    """Scripted, a GRU asks in nested branches whether its input has a batch."""

    def __init__(self, kind):
        super().__init__()
        self.cell, self.out = kind(4, 5, batch_first=True), nn.Linear(5, 3)

    def forward(self, x):
        return self.out(self.cell(x)[0][:, -1])


def scripted(name, net, length):
    folder = HERE / f"sizes_{name}"
    folder.mkdir(exist_ok=True)
    torch.onnx.export(torch.jit.script(net), (torch.zeros(2, length, 4),), str(folder / "model.onnx"), dynamo=False, input_names=["x"],
                      output_names=["y"], dynamic_axes={"x": {0: "batch", 1: "length"}, "y": {0: "batch"}})
    steps.write(folder, net, torch.randn(3, length + 1, 4), torch.arange(3), steps=3)


def by_hand(name, net, nodes, outputs, constants=(), **more):
    """`nodes` read "q", the scores of `net`, a linear layer, and "c", which holds where the batch is of seven samples."""
    folder = HERE / f"sizes_{name}"
    folder.mkdir(exist_ok=True)
    numbers = [("w", net.weight.detach().numpy()), ("b", net.bias.detach().numpy()), ("one", np.array([1])), ("seven", np.array(7)),
               ("first", np.array(0)), *constants]
    head = [helper.make_node("Gemm", ["x", "w", "b"], ["q"], transB=1), helper.make_node("Shape", ["x"], ["shape"]),
            helper.make_node("Gather", ["shape", "first"], ["size"]), helper.make_node("Equal", ["size", "seven"], ["c"])]
    graph = helper.make_graph([*head, *nodes], name, [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
                              [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in outputs],
                              [numpy_helper.from_array(np.ascontiguousarray(a), n) for n, a in numbers])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), folder / "model.onnx")
    steps.write(folder, net, torch.randn(3, 4), torch.arange(3), steps=3, checked=True, **more)


def subgraph(name, nodes, *outputs):
    return helper.make_graph([helper.make_node(*n) if isinstance(n, tuple) else n for n in nodes], name, [],
                             [helper.make_tensor_value_info(n, TensorProto.FLOAT, [None] * rank) for n, rank in outputs])


def repeated(name, op, inverse):
    """A branch that sizes never take holds the node that stands behind it."""
    then = subgraph("then", [(op, ["q", "one"], ["t"]), (inverse, ["t", "one"], ["u"])], ("u", 2))
    choice = helper.make_node("If", ["c"], ["r"], then_branch=then, else_branch=subgraph("else", [("Identity", ["q"], ["e"])], ("e", 2)))
    net = nn.Linear(4, 3)
    by_hand(name, net, [choice, helper.make_node(op, ["r", "one"], ["p"]), helper.make_node("Tanh", ["p"], ["tanh"]),
                                    helper.make_node(inverse, ["tanh", "one"], ["y"])], [("y", ["batch", 3])], forward=lambda x: torch.tanh(net(x)))


def unnamed():
    """Two results of one If without a name, of which one has another rank in each branch."""
    then = subgraph("then", [("Neg", ["x"], ["n"]), ("Gemm", ["n", "w2", "b"], ["t"]), ("Unsqueeze", ["t", "one"], ["t2"])], ("t", 2), ("t2", 3))
    other = subgraph("else", [("Mul", ["x", "half"], ["h"]), ("Gemm", ["h", "w2", "b"], ["e"]), ("Relu", ["e"], ["e2"])], ("e", 2), ("e2", 2))
    node = [helper.make_node("ReduceMax", ["x"], ["max"], keepdims=0), helper.make_node("Greater", ["max", "large"], ["some"]),
            helper.make_node("Transpose", ["w"], ["w2"]), helper.make_node("If", ["some"], ["y", "z"], then_branch=then, else_branch=other)]
    net = nn.Linear(4, 3)
    by_hand("unnamed_choices", net, node, [("y", ["batch", 3]), ("z", ["any", "number"])],
            [("half", np.float32(0.5)), ("large", np.float32(100))], forward=lambda x: net(x / 2))


def nested():
    """A branch that data take, with one that sizes never take inside of it and around it; the output is the choice."""
    def choice(condition, y, then, other, rank=2):
        return helper.make_node("If", [condition], [y], then_branch=subgraph(f"{y}_then", then, (f"{y}_t", rank)),
                                else_branch=subgraph(f"{y}_else", other, (f"{y}_e", 2)))
    square = [("Transpose", ["q"], ["turned"]), ("MatMul", ["turned", "w3"], ["inner_t"])]     # none of three rows
    inner = choice("c", "inner", square, [("MatMul", ["q", "w3"], ["inner_e"])])
    by_data = choice("some", "data", [inner, ("Relu", ["inner"], ["data_t"])], [("Neg", ["q"], ["data_e"])])
    outer = choice("c", "y", [("Unsqueeze", ["q", "one"], ["apart"]), ("MatMul", ["apart", "w7"], ["y_t"])], [by_data, ("Identity", ["data"], ["y_e"])], 3)
    net, w3 = nn.Linear(4, 3), nn.Linear(3, 3, bias=False)
    both = nn.Sequential(net, w3, nn.ReLU())
    head = [helper.make_node("ReduceMax", ["x"], ["max"], keepdims=0), helper.make_node("Greater", ["max", "small"], ["some"])]
    numbers = [("w3", w3.weight.detach().numpy().T), ("w7", np.ones((3, 5), np.float32)), ("small", np.float32(-100))]
    w3.double()
    by_hand("nested_choices", net, [*head, outer], [("y", ["batch", "any"])], numbers, forward=both, parameters=[net.weight, net.bias, w3.weight])


def main():
    torch.manual_seed(0)
    frames("through_floats", Frames(3), 64, (101, 77))
    frames("through_floats_stride", Frames(3, 4, 3), 64, (55, 100))
    scripted("in_branches", Cell(nn.GRU), 4)
    scripted("in_branches_rnn", Cell(nn.RNN), 5)
    window("window", dynamo=False, dynamic_axes={"x": {0: "batch", 2: "length"}, "y": {0: "batch"}})
    window("window_default", dynamo=True, optimize=False, external_data=False, verbose=False,
           dynamic_shapes=({0: torch.export.Dim("batch"), 2: torch.export.Dim("length", min=200)},))
    repeated("branch_repeated", "Unsqueeze", "Squeeze")
    unnamed()
    torch.manual_seed(1)
    nested()
    window("windows", Windows(), (2, 14, 21, 2), (3, 21, 35, 2), dynamo=True, optimize=False, external_data=False, verbose=False,
           dynamic_shapes=({0: torch.export.Dim("batch"), 1: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC},))


if __name__ == "__main__":
    main()
