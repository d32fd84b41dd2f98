#!/usr/bin/env python3
"""Makes this case, scores of twice as many rows as the batch has, and soft_labels_unranked, one-hot floats for scores whose rank the file
does not tell."""
import json
import pathlib

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent


def make(name, nodes, net, target, flags, **expected):
    folder = HERE.parent / name
    numbers = [numpy_helper.from_array(p.detach().numpy(), n) for n, p in net.named_parameters()]
    graph = helper.make_graph(nodes, name, [helper.make_tensor_value_info("x", 1, ["batch", 4])], [helper.make_tensor_value_info("y", 1, None)],
                              numbers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), folder / "model.onnx")
    np.savez(folder / "data.npz", x=X, target=target)
    flags = ["--loss", "cross-entropy", "--batch-size", "4", "--lr", "0.1", *flags]
    (folder / "expected.json").write_text(json.dumps({"model": "model.onnx", "data": "data.npz", "flags": flags, **expected}, indent=1) + "\n")


torch.manual_seed(0)
X, CLASSES = np.random.default_rng(0).standard_normal((8, 4), np.float32), np.arange(8) % 3
net = torch.nn.Linear(4, 3)
gemm = lambda y: helper.make_node("Gemm", ["x", "weight", "bias"], [y], transB=1)
make("batch_rows_joined", [gemm("a"), helper.make_node("Concat", ["a", "a"], ["y"], axis=0)], net, CLASSES, [],
     refused="output 'y' is [8,3] for a batch of 4: the loss needs scores of each sample")
make("soft_labels_unranked", [gemm("y")], net, np.eye(3, dtype=np.float32)[CLASSES], ["--soft-labels"], losses=[])
net, losses = net.double(), []
sgd = torch.optim.SGD(net.parameters(), 0.1)
for x, t in zip(torch.tensor(X).double().split(4), torch.tensor(CLASSES).split(4)):
    sgd.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(x), t)
    loss.backward()
    sgd.step()
    losses.append(loss.item())
file = HERE.parent / "soft_labels_unranked" / "expected.json"
file.write_text(json.dumps({**json.loads(file.read_text()), "losses": losses}, indent=1) + "\n")
