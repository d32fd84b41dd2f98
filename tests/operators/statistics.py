"""Writes statistics.onnx, with the operator of docs/example/statistics.c, batch_norm.onnx, which has BatchNormalization there, and
turns.onnx, whose operator says where each sample stands in the batch.

    python tests/operators/statistics.py        # onnx 1.22
"""
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
CHANNELS, WIDTH, CLASSES = 3, 4, 3
OWN = "com.example"
node = helper.make_node
info = helper.make_tensor_value_info

for name, layer, more in (("statistics", node("Statistics", ["h", "scale", "bias"], ["n"], name="norm", domain=OWN, epsilon=1e-3), []),
                          ("batch_norm", node("BatchNormalization", ["h", "scale", "bias", "mean", "var"], ["n"], name="norm",
                                              epsilon=1e-3), ["mean", "var"])):
    random = np.random.default_rng(11)
    shapes = {"weight": (WIDTH, WIDTH), "scale": (CHANNELS,), "bias": (CHANNELS,), "last": (CHANNELS * WIDTH, CLASSES)}
    weights = [numpy_helper.from_array(random.standard_normal(s).astype(np.float32), k) for k, s in shapes.items()]
    weights += [numpy_helper.from_array(np.full(CHANNELS, v == "var", np.float32), v) for v in more]
    nodes = [node("MatMul", ["x", "weight"], ["h"], name="product"), layer, node("Flatten", ["n"], ["f"], name="flatten"),
             node("MatMul", ["f", "last"], ["scores"], name="last")]
    graph = helper.make_graph(nodes, name, [info("x", TensorProto.FLOAT, ["batch", CHANNELS, WIDTH])],
                              [info("scores", TensorProto.FLOAT, ["batch", CLASSES])], weights)
    opsets = [helper.make_opsetid("", 17)] + ([] if more else [helper.make_opsetid(OWN, 1)])
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), HERE / f"{name}.onnx")

graph = helper.make_graph([node("Turn", ["x"], ["y"], name="turn", domain=OWN)], "turns", [info("x", TensorProto.FLOAT, ["batch"])],
                          [info("y", TensorProto.FLOAT, ["batch"])])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(OWN, 1)], ir_version=8),
          HERE / "turns.onnx")
