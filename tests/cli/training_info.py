#!/usr/bin/env python3
"""A network whose file says how it is trained (training_info, in standard operators), and its training by PyTorch 2.15 in float64.

Writes what tests/cli/training_info.sh reads: training_info/net.onnx, its data, and torch.txt, the losses of 20 steps and the sums of the
trained tensors behind them.  The file's own algorithm is also run by onnx.reference, and must agree to what float32 leaves.
"""
import os

import numpy as np
import onnx
import torch
from onnx import TensorProto, checker, helper, numpy_helper, save
from onnx.reference import ReferenceEvaluator

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "training_info")
SAMPLES, BATCH, WIDTH, HIDDEN, OUT, STEPS = 25, 5, 6, 8, 3, 20
RATE, MOMENTUM = 0.25, 0.875
N, F, I = helper.make_node, TensorProto.FLOAT, TensorProto.INT64


def numbers(*shape):
    """Random numbers that float32 has."""
    return torch.randn(*shape, dtype=torch.float32).double() / 2


def tensor(name, value, dtype=np.float32):
    return numpy_helper.from_array(np.asarray(value, dtype), name)


def model(weights):
    """y = tanh(x w + b) v;  loss = mean((y - t)^2);  m' = momentum m + gradient,  w' = w - rate / (1 + step) m'."""
    graph = helper.make_graph(
        [N("MatMul", ["x", "w"], ["xw"]), N("Add", ["xw", "b"], ["a"]), N("Tanh", ["a"], ["h"]), N("MatMul", ["h", "v"], ["y"])], "net",
        [helper.make_tensor_value_info("x", F, ["n", WIDTH])], [helper.make_tensor_value_info("y", F, ["n", OUT])],
        [tensor(k, v) for k, v in weights.items()])
    nodes = [N("Sub", ["y", "t"], ["d"]), N("Mul", ["d", "d"], ["dd"]), N("ReduceMean", ["dd"], ["loss"], keepdims=0),
             N("Size", ["d"], ["many"]), N("CastLike", ["many", "rate"], ["count"]), N("Div", ["two", "count"], ["share"]),
             N("Mul", ["d", "share"], ["dy"]),
             N("Transpose", ["h"], ["hT"], perm=[1, 0]), N("MatMul", ["hT", "dy"], ["g_v"]),
             N("Transpose", ["v"], ["vT"], perm=[1, 0]), N("MatMul", ["dy", "vT"], ["dh"]),
             N("Mul", ["h", "h"], ["hh"]), N("Sub", ["one", "hh"], ["slope"]), N("Mul", ["dh", "slope"], ["da"]),
             N("Transpose", ["x"], ["xT"], perm=[1, 0]), N("MatMul", ["xT", "da"], ["g_w"]), N("ReduceSum", ["da", "first"], ["g_b"], keepdims=0),
             N("Add", ["step", "next"], ["step_next"]), N("CastLike", ["step_next", "rate"], ["number"]), N("Div", ["rate", "number"], ["now"])]
    bindings, outputs = {"step": "step_next"}, [helper.make_tensor_value_info("loss", F, []), helper.make_tensor_value_info("step_next", I, [])]
    for k, v in weights.items():
        nodes += [N("Mul", ["momentum", "m_" + k], ["old_" + k]), N("Add", ["old_" + k, "g_" + k], ["new_m_" + k]),
                  N("Mul", ["now", "new_m_" + k], ["by_" + k]), N("Sub", [k, "by_" + k], ["new_" + k])]
        bindings |= {k: "new_" + k, "m_" + k: "new_m_" + k}
        outputs += [helper.make_tensor_value_info(name, F, list(v.shape)) for name in ("new_" + k, "new_m_" + k)]
    algorithm = helper.make_graph(nodes, "step", [helper.make_tensor_value_info("t", F, ["n", OUT])], outputs, [
        tensor("rate", RATE), tensor("momentum", MOMENTUM), tensor("two", 2), tensor("one", 1), tensor("first", [0], np.int64),
        tensor("next", 1, np.int64), tensor("step", 0, np.int64)] + [tensor("m_" + k, np.zeros(v.shape)) for k, v in weights.items()])
    whole = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    info = whole.training_info.add()
    info.algorithm.CopyFrom(algorithm)
    for key, value in bindings.items():
        info.update_binding.add(key=key, value=value)
    checker.check_model(whole)
    return whole


def combined(whole):
    """The graph that an execution of the algorithm executes (onnx.proto, TrainingInfoProto), which PyTorch has no part in."""
    graph = onnx.GraphProto()
    graph.CopyFrom(whole.graph)
    for field in "node", "initializer", "input", "output":
        getattr(graph, field).extend(getattr(whole.training_info[0].algorithm, field))
    return helper.make_model(graph, opset_imports=whole.opset_import, ir_version=8)


def by_reference(whole, x, t):
    step, bindings = combined(whole), {b.key: b.value for b in whole.training_info[0].update_binding}
    names, losses = [o.name for o in step.graph.output], []
    for k in range(STEPS):
        at = k * BATCH % SAMPLES
        got = dict(zip(names, ReferenceEvaluator(step).run(None, {"x": x[at:at + BATCH], "t": t[at:at + BATCH]})))
        for i in step.graph.initializer:
            if i.name in bindings:
                i.CopyFrom(numpy_helper.from_array(np.asarray(got[bindings[i.name]]), i.name))
        losses.append(float(got["loss"]))
    return losses


def by_torch(weights, x, t):
    for w in weights.values():
        w.requires_grad_()
    optimizer, losses = torch.optim.SGD(list(weights.values()), lr=RATE, momentum=MOMENTUM), []
    for k in range(STEPS):
        at = slice(k * BATCH % SAMPLES, k * BATCH % SAMPLES + BATCH)
        optimizer.param_groups[0]["lr"] = RATE / (1 + k)
        loss = ((x[at] @ weights["w"] + weights["b"]).tanh() @ weights["v"] - t[at]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    torch.manual_seed(1)
    os.makedirs(HERE, exist_ok=True)
    weights, x, t = {"w": numbers(WIDTH, HIDDEN), "b": numbers(HIDDEN), "v": numbers(HIDDEN, OUT)}, numbers(SAMPLES, WIDTH), numbers(SAMPLES, OUT)
    whole = model({k: v.numpy() for k, v in weights.items()})
    save(whole, os.path.join(HERE, "net.onnx"))
    data = {"x": x.numpy().astype(np.float32), "t": t.numpy().astype(np.float32)}
    np.savez_compressed(os.path.join(HERE, "data.npz"), **data)
    reference, losses = by_reference(whole, data["x"], data["t"]), by_torch(weights, x, t)
    np.testing.assert_allclose(reference, losses, 1e-5)
    with open(os.path.join(HERE, "torch.txt"), "w") as f:
        print(*losses, file=f)
        print(*(v.sum().item() for v in weights.values()), file=f)


if __name__ == "__main__":
    main()
