"""Writes a model of which a part has shapes that data decide, and what onnx.reference computes with it.

    python tests/api/apart.py           # onnx 1.22; writes apart.onnx and apart.h, for tools/format.sh
"""
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

HERE = pathlib.Path(__file__).resolve().parent
N, F, I = helper.make_node, TensorProto.FLOAT, TensorProto.INT64
SAMPLES, CHANNELS, SIZE, HIDDEN, OUT = 6, 2, 5, 4, 3
SIGNS, MIDDLE = (1, -1), -7  # of two batches, and what parts their sums
rng = np.random.default_rng(11)


def info(name, shape, dtype=F):
    return helper.make_tensor_value_info(name, dtype, shape)


def floats(*shape):
    return (rng.standard_normal(shape) / 2).astype(np.float32)


def branch(name, nodes, output):
    return helper.make_graph(nodes, name, [], [info(output, None)])


# A convolution and scores, which have static shapes.  Behind them the large scores, times a weight that the scores were made of
# too, and the first row or all, as their sum says.
nodes = [
    N("Conv", ["x", "conv.weight", "conv.bias"], ["c"], pads=[1, 1, 1, 1]), N("Relu", ["c"], ["r"]), N("GlobalAveragePool", ["r"], ["p"]),
    N("Flatten", ["p"], ["f"]), N("MatMul", ["f", "head.weight"], ["scores"]), N("Greater", ["scores", "edge"], ["large"]),
    N("NonZero", ["large"], ["where"]), N("Transpose", ["where"], ["places"], perm=[1, 0]), N("GatherND", ["scores", "places"], ["values"]),
    N("Unsqueeze", ["values", "axis"], ["column"]), N("ReduceMax", ["head.weight"], ["most"], keepdims=0), N("Mul", ["column", "most"], ["found"]),
    N("ReduceSum", ["scores"], ["sum"], keepdims=0), N("Greater", ["sum", "middle"], ["high"]),
    N("If", ["high"], ["picked"], name="pick", then_branch=branch("row", [N("Gather", ["scores", "rows"], ["row"])], "row"),
      else_branch=branch("all", [N("Tanh", ["scores"], ["all"])], "all"))]
constants = {"conv.weight": floats(HIDDEN, CHANNELS, 3, 3), "conv.bias": floats(HIDDEN), "head.weight": floats(HIDDEN, OUT),
             "edge": np.float32(0), "middle": np.float32(MIDDLE), "axis": np.array([1]), "rows": np.array([0])}
model = helper.make_model(helper.make_graph(
    nodes, "apart", [info("x", ["N", CHANNELS, SIZE, SIZE])], [info("scores", ["N", OUT]), info("found", [None, 1]), info("picked", ["P", OUT]), info("sum", [])],
    [numpy_helper.from_array(v, k) for k, v in constants.items()]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
onnx.checker.check_model(model)
onnx.save(model, HERE / "apart.onnx")


def array(out, name, value):
    texts = [np.format_float_positional(np.float32(v), trim="0") + "F" for v in np.ravel(value)]
    out.write(f"static const float {name}[] = {{ {', '.join(texts)} }};\n")


x = [s * np.abs(floats(SAMPLES, CHANNELS, SIZE, SIZE)) for s in SIGNS]  # one for each branch
with open(HERE / "apart.h", "w") as out:
    out.write("/* Made by apart.py. */\n")
    out.write(f"enum {{ ROWS = {SAMPLES}, CHANNELS = {CHANNELS}, SIZE = {SIZE}, OUT = {OUT} }};\n")
    run = ReferenceEvaluator(model)
    sums = [float(run.run(["sum"], {"x": v})[0]) for v in x]
    assert sums[0] < MIDDLE - 0.2 and sums[1] > MIDDLE + 0.2, sums
    for i, v in enumerate(x):
        results = run.run(None, {"x": v})
        print([r.shape for r in results])
        array(out, f"apart_x_{i}", v)
        for name, r in zip(("scores", "found", "picked", "sum"), results):
            array(out, f"apart_{name}_{i}", r)
