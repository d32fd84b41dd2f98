"""Writes the models of tests/operators/*.c but for statistics.c, whose nodes are of the domain com.example that these bring:
own.onnx; known.onnx, which says the same in ONNX's operators; function.onnx, which is known.onnx but for a function of its own,
Twice of that domain, that computes 3 x; nested.onnx, whose functions call functions; impure.onnx, where nodes read a constant, are
alike, and are read by nobody; state.onnx, whose operator keeps a state; and soft_clip.onnx, with the operator of
docs/example/soft_clip.c, and soft_clip_known.onnx, which says the same.

    python tests/operators/models.py        # onnx 1.22
"""
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
WIDTH, CLASSES = 4, 3
OWN = "com.example"
node = helper.make_node
info = helper.make_tensor_value_info

own = [node("Twice", ["h"], ["t"], name="twice", domain=OWN),
       node("Ramp", ["t", "gain"], ["r"], name="ramp", domain=OWN, slope=0.25),
       node("Tap", ["r"], ["unread"], name="tap", domain=OWN),
       node("Tap", ["r"], ["unread2"], name="tap2", domain=OWN),
       node("Centre", ["r"], ["scores"], name="centre", domain=OWN)]
known = [node("Add", ["h", "h"], ["t"], name="twice"),
         node("LeakyRelu", ["t"], ["l"], name="leaky", alpha=0.25),
         node("Mul", ["l", "gain"], ["r"], name="ramp"),
         node("ReduceMean", ["r"], ["mean"], name="mean", axes=[0], keepdims=1),
         node("Sub", ["r", "mean"], ["scores"], name="centre")]

triple = helper.make_function(OWN, "Twice", ["a"], ["c"], [node("Add", ["a", "a"], ["b"]), node("Add", ["a", "b"], ["c"])],
                              [helper.make_opsetid("", 17)])

for name, nodes in ("own", own), ("known", known), ("function", own[:1] + known[1:]):
    random = np.random.default_rng(7)
    weights = [numpy_helper.from_array(random.standard_normal((WIDTH, CLASSES)).astype(np.float32), "weight"),
               numpy_helper.from_array(random.standard_normal(CLASSES).astype(np.float32), "gain")]
    nodes = [node("MatMul", ["x", "weight"], ["h"], name="product")] + nodes
    graph = helper.make_graph(nodes, name, [info("x", TensorProto.FLOAT, ["batch", WIDTH])],
                              [info("scores", TensorProto.FLOAT, ["batch", CLASSES])], weights)
    opsets = [helper.make_opsetid("", 17)] + ([helper.make_opsetid(OWN, 3)] if name != "known" else [])
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8,
                                functions=[triple] if name == "function" else []), HERE / f"{name}.onnx")

# "outer" calls a function whose second node, "inner", calls another; it stands twice, and so do the names in it.
inner = helper.make_function(OWN, "Inner", ["a"], ["c"], [node("Neg", ["a"], ["b"], name="neg"), node("Abs", ["b"], ["c"], name="abs")],
                             [helper.make_opsetid("", 17)])
outer = helper.make_function(OWN, "Outer", ["a"], ["c"], [node("Relu", ["a"], ["b"], name="relu"),
                                                          node("Inner", ["b"], ["c"], name="inner", domain=OWN)],
                             [helper.make_opsetid("", 17), helper.make_opsetid(OWN, 3)])
nodes = [node("MatMul", ["x", "weight"], ["h"], name="product"), node("Outer", ["h"], ["i"], name="outer", domain=OWN),
         node("Mul", ["i", "gain"], ["j"], name="gain"), node("Outer", ["j"], ["scores"], name="again", domain=OWN)]
graph = helper.make_graph(nodes, "nested", [info("x", TensorProto.FLOAT, ["batch", WIDTH])],
                          [info("scores", TensorProto.FLOAT, ["batch", CLASSES])], weights)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(OWN, 3)], ir_version=8,
                            functions=[inner, outer]), HERE / "nested.onnx")

clip = {"soft_clip": [node("SoftClip", ["h"], ["c"], name="clip", domain=OWN, limit=1.5)],
        "soft_clip_known": [node("Div", ["h", "limit"], ["d"], name="divide"), node("Tanh", ["d"], ["t"], name="tanh"),
                            node("Mul", ["t", "limit"], ["c"], name="multiply")]}
for name, nodes in clip.items():
    random = np.random.default_rng(13)
    weights = [numpy_helper.from_array(random.standard_normal(s).astype(np.float32), k)
               for k, s in (("weight", (WIDTH, WIDTH)), ("last", (WIDTH, CLASSES)))]
    limit = [] if name == "soft_clip" else [numpy_helper.from_array(np.float32(1.5), "limit")]
    nodes = [node("MatMul", ["x", "weight"], ["h"], name="product")] + nodes + [node("MatMul", ["c", "last"], ["scores"], name="last")]
    graph = helper.make_graph(nodes, name, [info("x", TensorProto.FLOAT, ["batch", WIDTH])],
                              [info("scores", TensorProto.FLOAT, ["batch", CLASSES])], weights + limit)
    opsets = [helper.make_opsetid("", 17)] + ([helper.make_opsetid(OWN, 1)] if name == "soft_clip" else [])
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), HERE / f"{name}.onnx")

# Of each of Tap, which is impure, and Twice, which is not: two that are alike and read a constant, and one that nobody reads.
nodes = [node("MatMul", ["x", "weight"], ["h"], name="product")]
for i, op in enumerate(("Tap", "Tap", "Twice", "Twice")):
    nodes += [node(op, ["offset"], [f"o{i}"], name=f"constant{i}", domain=OWN),
              node("Add", ["h" if not i else f"s{i - 1}", f"o{i}"], ["scores" if i == 3 else f"s{i}"], name=f"add{i}")]
nodes += [node(op, ["h"], [op], name=f"unread_{op}", domain=OWN) for op in ("Tap", "Twice")]
random = np.random.default_rng(17)
weights = [numpy_helper.from_array(random.standard_normal(s).astype(np.float32), k) for k, s in (("weight", (WIDTH, CLASSES)), ("offset", (CLASSES,)))]
graph = helper.make_graph(nodes, "impure", [info("x", TensorProto.FLOAT, ["batch", WIDTH])],
                          [info("scores", TensorProto.FLOAT, ["batch", CLASSES])], weights)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(OWN, 3)], ir_version=8),
          HERE / "impure.onnx")

# y = h, beside which the operator keeps a state, in steps that train.
weights = [numpy_helper.from_array(np.random.default_rng(19).standard_normal((WIDTH, CLASSES)).astype(np.float32), "weight"),
           numpy_helper.from_array(np.array([2], np.float32), "seen")]
nodes = [node("MatMul", ["x", "weight"], ["h"], name="product"), node("Seen", ["h", "seen"], ["scores"], name="counter", domain=OWN)]
graph = helper.make_graph(nodes, "state", [info("x", TensorProto.FLOAT, ["batch", WIDTH])],
                          [info("scores", TensorProto.FLOAT, ["batch", CLASSES])], weights)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(OWN, 1)], ir_version=8),
          HERE / "state.onnx")
