"""Writes models whose If, Loop, Scan or sequence is decided by the batch's size, which the file fixes at 2, and what onnx.reference
computes with them.

    python tests/api/decided.py         # onnx 1.22; writes decided_*.onnx and decided.h, for tools/format.sh
"""
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

HERE = pathlib.Path(__file__).resolve().parent
WIDTH = 3
node = helper.make_node
info = helper.make_tensor_value_info
SIZE = [node("Shape", ["x"], ["dims"]), node("Gather", ["dims", "zero"], ["n"])]


def constant(name, value):
    return numpy_helper.from_array(np.array(value), name)


def branch(operator):
    return helper.make_graph([node(operator, ["x"], ["b"])], "b", [], [info("b", TensorProto.FLOAT, [None, WIDTH])])


def choice(compare):
    """A branch is taken by how the batch's size compares with a constant."""
    return [*SIZE, node(compare, ["n", "edge"], ["c"]),
            node("If", ["c"], ["v"], name="pick", then_branch=branch("Neg"), else_branch=branch("Tanh"))]


def turns():
    """As many trips as samples.  (onnx.reference makes no trip where the condition is absent.)"""
    body = helper.make_graph(
        [node("Tanh", ["h"], ["h2"]), node("Identity", ["go"], ["go2"])], "body",
        [info("i", TensorProto.INT64, []), info("go", TensorProto.BOOL, []), info("h", TensorProto.FLOAT, [None, WIDTH])],
        [info("go2", TensorProto.BOOL, []), info("h2", TensorProto.FLOAT, [None, WIDTH])])
    return [*SIZE, node("Loop", ["n", "yes", "x"], ["v"], name="turns", body=body)]


def counts():
    """While a counter is less than the batch's size."""
    body = helper.make_graph(
        [node("Tanh", ["h"], ["h2"]), node("Add", ["k", "one"], ["k2"]), node("Less", ["k2", "n"], ["go2"])], "body",
        [info("i", TensorProto.INT64, []), info("go", TensorProto.BOOL, []), info("h", TensorProto.FLOAT, [None, WIDTH]),
         info("k", TensorProto.INT64, [])],
        [info("go2", TensorProto.BOOL, []), info("h2", TensorProto.FLOAT, [None, WIDTH]), info("k2", TensorProto.INT64, [])])
    return [*SIZE, node("Loop", ["", "yes", "x", "zero"], ["v", "count"], name="counts", body=body)]


def sums():
    """Running sums over the samples."""
    body = helper.make_graph(
        [node("Add", ["s", "row"], ["s2"]), node("Identity", ["s2"], ["kept"])], "body",
        [info("s", TensorProto.FLOAT, [WIDTH]), info("row", TensorProto.FLOAT, [WIDTH])],
        [info("s2", TensorProto.FLOAT, [WIDTH]), info("kept", TensorProto.FLOAT, [WIDTH])])
    return [node("Scan", ["start", "x"], ["total", "v"], name="sums", num_scan_inputs=1, body=body)]


def last():
    """The last of as many parts as there are samples, added to all."""
    return [node("SplitToSequence", ["x", "one"], ["parts"], axis=0), node("SequenceAt", ["parts", "end"], ["p"]),
            node("Add", ["x", "p"], ["v"])]


MODELS = {
    "greater": (choice("Greater"), 2, [1, 2]),  # more than two samples: another branch
    "less": (choice("Less"), 5, [2, 4]),  # less than five: the same at four
    "turns": (turns(), 0, [2]),
    "counts": (counts(), 0, [2]),
    "sums": (sums(), 0, [2]),
    "last": (last(), 0, [2]),
}


def make(nodes, edge):
    constants = [constant("zero", 0), constant("one", 1), constant("end", -1), constant("edge", edge), constant("yes", True),
                 constant("start", np.zeros(WIDTH, np.float32)),
                 constant("w", (np.arange(WIDTH * WIDTH, dtype=np.float32) - 4).reshape(WIDTH, -1) / 4)]
    read = str(nodes) + '"w"'
    graph = helper.make_graph([*nodes, node("MatMul", ["v", "w"], ["y"])], "decided",
                              [info("x", TensorProto.FLOAT, [2, WIDTH])], [info("y", TensorProto.FLOAT, [None, WIDTH])],
                              [c for c in constants if f'"{c.name}"' in read])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def array(out, name, value):
    texts = [np.format_float_positional(v, trim="0") + "F" for v in value.ravel()]
    out.write(f"static const float {name}[] = {{ {', '.join(texts)} }};\n")


x = np.random.default_rng(7).integers(-8, 9, (4, WIDTH)).astype(np.float32) / 8
with open(HERE / "decided.h", "w") as out:
    out.write("/* Made by decided.py. */\n")
    array(out, "decided_x", x)
    for name, (nodes, edge, sizes) in MODELS.items():
        model = make(nodes, edge)
        onnx.checker.check_model(model)
        onnx.save(model, HERE / f"decided_{name}.onnx")
        for n in sizes:
            array(out, f"decided_{name}_{n}", ReferenceEvaluator(model).run(None, {"x": x[:n]})[0])
