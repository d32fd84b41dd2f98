"""Writes models with an input that no replica shares: part_named.onnx says where its batch is, part_sizes.onnx has fixed sizes alone.

    python tests/api/part.py        # onnx 1.22
"""
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
CLASSES, WIDTH, ENTRIES = 3, 4, 7
node = helper.make_node
info = helper.make_tensor_value_info


def make(name, batch):
    random = np.random.default_rng(3)
    weights = [numpy_helper.from_array(random.standard_normal((WIDTH, CLASSES)).astype(np.float32), "weight"),
               numpy_helper.from_array(random.standard_normal((ENTRIES, CLASSES)).astype(np.float32), "table")]
    nodes = [node("MatMul", ["x", "weight"], ["product"], name="product"),
             node("Gather", ["table", "entry"], ["row"], name="row"),
             node("Add", ["product", "row"], ["sum"], name="sum"),
             node("Mul", ["sum", "scale"], ["scores"], name="scores")]
    inputs = [info("x", TensorProto.FLOAT, [batch, WIDTH]), info("entry", TensorProto.INT64, [batch]),
              info("scale", TensorProto.FLOAT, [CLASSES])]
    graph = helper.make_graph(nodes, name, inputs, [info("scores", TensorProto.FLOAT, [batch, CLASSES])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, HERE / f"part_{name}.onnx")


make("named", "batch")
make("sizes", 8)
