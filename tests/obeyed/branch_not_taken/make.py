"""A branch that is never taken, in which a weight of 0 has an infinite slope: it must not reach the weight."""
import json
import pathlib

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
STEPS, BATCH, RATE = 4, 5, 0.1


def model(w):
    def out(name):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
    taken = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["a"])], "taken", [], [out("a")])
    other = helper.make_graph([helper.make_node("Sqrt", ["w"], ["root"]), helper.make_node("Mul", ["x", "root"], ["b"])], "other", [], [out("b")])
    nodes = [helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0), helper.make_node("Greater", ["sum", "zero"], ["positive"]),
             helper.make_node("If", ["positive"], ["y"], then_branch=taken, else_branch=other)]
    rows = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", 4]) for n in "xy"]
    graph = helper.make_graph(nodes, "branch", rows[:1], rows[1:], [numpy_helper.from_array(w, "w"), numpy_helper.from_array(np.float32(0), "zero")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


rng = np.random.default_rng(0)
w = np.array([0, 0.5, 1, 2], np.float32)
x, target = [rng.uniform(0.1, 2, (STEPS * BATCH, 4)).astype(np.float32) for _ in range(2)]
onnx.save(model(w), HERE / "model.onnx")
np.savez(HERE / "data.npz", x=x, target=target)
p, losses = torch.tensor(w, dtype=torch.float64, requires_grad=True), []
for k in range(STEPS):
    at = slice(k * BATCH, (k + 1) * BATCH)
    loss = ((torch.tensor(x[at]).double() * p - torch.tensor(target[at]).double()) ** 2).mean()
    p.grad = None
    loss.backward()
    with torch.no_grad():
        p -= RATE * p.grad
    losses.append(loss.item())
(HERE / "expected.json").write_text(json.dumps({
    "model": "model.onnx", "data": "data.npz", "losses": losses, "source": f"PyTorch {torch.__version__} in float64",
    "flags": ["--loss", "mse", "--train", "w", "--batch-size", str(BATCH), "--steps", str(STEPS), "--lr", str(RATE)]}, indent=1) + "\n")
