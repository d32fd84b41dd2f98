#!/usr/bin/env python3
"""Writes tests/cli/batch_norm/: a model with batch-norms of [N, C], of a transposed [N, C, L] and, without scale and bias, of [N, C, D, H, W],
data for it, and what PyTorch's layers make of them in float64: torch.txt, a line a case: NAME, the loss of the data in evaluation mode after
the last step, the loss of each step; in after.npz the running statistics, scales and biases at the end.

    frozen      the first layer stays in evaluation mode, with its scale and bias
    far         the same data, 3000 away from zero

    pip install torch onnx numpy
    tests/cli/batch_norm.py
"""
import os

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "batch_norm")
SAMPLES, WIDTH, CLASSES, BATCH, LR, EPOCHS = 13, 6, 4, 5, 0.2, 2
MOMENTUM, EPSILON = float(np.float32(0.9)), float(np.float32(1e-5))     # attributes of ONNX are float32
rng = np.random.default_rng(21)
x, target = rng.standard_normal((SAMPLES, WIDTH)), rng.integers(0, CLASSES, SAMPLES)
start = {"fc.weight": rng.standard_normal((WIDTH, 12)), "head.weight": rng.standard_normal((12, CLASSES)) * 0.5}
for layer, channels in (("rows", 12), ("turned", 3), ("plain", 3)):
    if layer != "plain":
        start[layer + ".weight"], start[layer + ".bias"] = rng.uniform(0.5, 1.5, channels), rng.standard_normal(channels) * 0.2
    start[layer + ".running_mean"], start[layer + ".running_var"] = rng.standard_normal(channels) * 0.1, rng.uniform(0.5, 2, channels)
FAR = 3000.0


def save(name, shift):
    norm = lambda layer, a, b, scale, bias: h.make_node("BatchNormalization", [a, scale, bias, layer + ".running_mean", layer + ".running_var"],
                                                        [b], name=layer, momentum=0.9, epsilon=EPSILON)
    nodes = [h.make_node("Constant", [], ["one"], value=nh.from_array(np.ones(3))), h.make_node("Constant", [], ["zero"], value=nh.from_array(np.zeros(3))),
             h.make_node("MatMul", ["x", "fc.weight"], ["f0"]), h.make_node("Add", ["f0", "shift"], ["f"]),
             norm("rows", "f", "r", "rows.weight", "rows.bias"), h.make_node("Relu", ["r"], ["a"]),
             h.make_node("Reshape", ["a", "places"], ["p"]), h.make_node("Transpose", ["p"], ["t"], perm=[0, 2, 1]),
             norm("turned", "t", "u", "turned.weight", "turned.bias"), h.make_node("Sigmoid", ["u"], ["s"]),
             h.make_node("Transpose", ["s"], ["back"], perm=[0, 2, 1]), h.make_node("Reshape", ["back", "volume"], ["v"]),
             norm("plain", "v", "n", "one", "zero"), h.make_node("Flatten", ["n"], ["l"]), h.make_node("MatMul", ["l", "head.weight"], ["scores"])]
    fixed = {"shift": np.array(shift), "places": np.array([0, 4, 3]), "volume": np.array([0, 3, 1, 2, 2])}
    graph = h.make_graph(nodes, "batch_norm", [h.make_tensor_value_info("x", T.DOUBLE, ["batch", WIDTH])],
                         [h.make_tensor_value_info("scores", T.DOUBLE, ["batch", CLASSES])],
                         [nh.from_array(a, n) for n, a in (start | fixed).items()])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, os.path.join(HERE, name + ".onnx"))


class Net(torch.nn.Module):
    def __init__(self, shift):
        super().__init__()
        self.fc, self.head = torch.nn.Linear(WIDTH, 12, bias=False), torch.nn.Linear(12, CLASSES, bias=False)
        self.rows, self.turned = torch.nn.BatchNorm1d(12, EPSILON, 1 - MOMENTUM), torch.nn.BatchNorm1d(3, EPSILON, 1 - MOMENTUM)
        self.plain, self.shift = torch.nn.BatchNorm3d(3, EPSILON, 1 - MOMENTUM, affine=False), shift

    def forward(self, x):
        a = torch.relu(self.rows(self.fc(x) + self.shift))
        back = torch.sigmoid(self.turned(a.reshape(-1, 4, 3).transpose(1, 2))).transpose(1, 2)
        return self.head(self.plain(back.reshape(-1, 3, 1, 2, 2)).flatten(1))


def train(shift=0.0, frozen=False):
    net = Net(shift).double()
    net.load_state_dict({n: torch.tensor(a.T if n in ("fc.weight", "head.weight") else a) for n, a in start.items()}, strict=False)
    xs, ts, losses = torch.tensor(x), torch.tensor(target), []
    optimizer = torch.optim.SGD([p for n, p in net.named_parameters() if not (frozen and n.startswith("rows."))], LR, momentum=0.5)
    for _ in range(EPOCHS):
        for at in range(0, SAMPLES, BATCH):
            net.train()
            net.rows.train(not frozen)
            loss = F.cross_entropy(net(xs[at:at + BATCH]), ts[at:at + BATCH])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    net.eval()
    after = {n: t.numpy() for n, t in net.state_dict().items() if n.split(".")[0] in ("rows", "turned", "plain") and "tracked" not in n}
    return F.cross_entropy(net(xs), ts).item(), losses, after


if __name__ == "__main__":
    torch.set_num_threads(1)
    os.makedirs(HERE, exist_ok=True)
    save("near", 0.0)
    save("far", FAR)
    np.savez(os.path.join(HERE, "data.npz"), x=x, target=target)
    ends = {}
    with open(os.path.join(HERE, "torch.txt"), "w") as f:
        for name, how in (("near", {}), ("frozen", {"frozen": True}), ("far", {"shift": FAR})):
            evaluation, losses, after = train(**how)
            print(name, repr(evaluation), *map(repr, losses), file=f)
            ends.update({f"{name}/{n}": a for n, a in after.items()})
    np.savez_compressed(os.path.join(HERE, "after.npz"), **ends)
