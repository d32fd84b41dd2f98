"""Writes a model with a Loop of as many trips as an input says, between products of matrices, and what NumPy computes with it.

    python tests/exec/part.py           # onnx; writes part.onnx and part.h, for tools/format.sh
"""
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
N, F, I = helper.make_node, TensorProto.FLOAT, TensorProto.INT64
ROWS, WIDTH, HIDDEN, TRIPS = 3, 4, 5, 3
rng = np.random.default_rng(2)


def info(name, dtype=F, shape=None):
    return helper.make_tensor_value_info(name, dtype, shape)


def floats(*shape):
    return (rng.standard_normal(shape) / 2).astype(np.float32)


x, a, b = floats(ROWS, WIDTH), floats(WIDTH, HIDDEN), floats(HIDDEN, WIDTH)
# h is what is carried; r, of the first part, is read by the body, g by the last part alone, and n by nobody else.
body = helper.make_graph([N("Mul", ["v", "r"], ["w"]), N("Identity", ["c"], ["go"]), N("Identity", ["w"], ["kept"])], "body",
                         [info("i", I, []), info("c", TensorProto.BOOL, []), info("v")], [info("go", TensorProto.BOOL, []), info("w"), info("kept")])
nodes = [N("MatMul", ["x", "a"], ["h"]), N("Abs", ["h"], ["r"]), N("Neg", ["h"], ["n"]), N("Tanh", ["n"], ["g"]),
         N("Loop", ["m", "", "h"], ["last", "all"], body=body),
         N("MatMul", ["last", "b"], ["p"]), N("ReduceSum", ["all", "axes"], ["s"], keepdims=0), N("Sub", ["s", "g"], ["q"])]
model = helper.make_model(helper.make_graph(nodes, "part", [info("x", F, [ROWS, WIDTH]), info("m", I, [])],
                                            [info("p", F, [ROWS, WIDTH]), info("q", F, [ROWS, HIDDEN]), info("r", F, [ROWS, HIDDEN])],
                                            [numpy_helper.from_array(v, k) for k, v in (("a", a), ("b", b), ("axes", np.array([0])))]),
                          opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
onnx.checker.check_model(model)
onnx.save(model, HERE / "part.onnx")
h = x @ a
last = h * np.abs(h) ** TRIPS
q = sum(h * np.abs(h) ** (k + 1) for k in range(TRIPS)) - np.tanh(-h)


def array(out, name, value):
    texts = [np.format_float_positional(np.float32(v), trim="0") + "F" for v in np.ravel(value)]
    out.write(f"static const float {name}[] = {{ {', '.join(texts)} }};\n")


with open(HERE / "part.h", "w") as out:
    out.write("/* Made by part.py. */\n")
    out.write(f"enum {{ ROWS = {ROWS}, WIDTH = {WIDTH}, TRIPS = {TRIPS} }};\n")
    for name, value in (("x", x), ("p", last @ b), ("q", q), ("r", np.abs(h))):
        array(out, f"part_{name}", value)
