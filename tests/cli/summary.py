"""What graph-transform --summary says of a model, against the file's own tensors: summary.py MODEL.onnx SUMMARY.json [DEPTH]."""
import json
import sys

import numpy as np
import onnx
from onnx import shape_inference

model = onnx.load(sys.argv[1])
model.graph.input[0].type.tensor_type.shape.dim[0].Clear()
model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
graph = shape_inference.infer_shapes(model).graph
size = {t.name: list(t.dims) for t in graph.initializer}
shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in [*graph.value_info, *graph.output]}
summary = json.load(open(sys.argv[2]))
by_layer = {}
for node in graph.node:
    by_layer.setdefault(next((n.rsplit(".", 1)[0] for n in node.input if n in size and "." in n), node.name), []).append(node)
rows = {r["layer"]: r for r in summary["layers"]}
checked = flops = parameters = 0
for layer, nodes in by_layer.items():
    row = rows[layer]
    node, = nodes
    weights = [n for n in node.input if n in size and "running" not in n and node.op_type in ("Conv", "Gemm", "BatchNormalization")]
    assert row["parameters"] == row["trained"] == sum(int(np.prod(size[n])) for n in weights), (row, weights)
    assert row["operators"] == node.op_type and row["output"] == shapes[node.output[0]], row
    parameters += row["parameters"]
    if node.op_type in ("Conv", "Gemm"):        # a multiply-add is two
        expected = 2 * int(np.prod(size[node.input[1]])) * int(np.prod(shapes[node.output[0]][2:]))
        assert row["flops"] == expected, (row, expected)
        checked += 1
assert checked > 3 and summary["parameters"] == summary["trained"] == parameters
assert summary["bytes_of_parameters"] == 4 * parameters
assert summary["flops"] == sum(r["flops"] for r in summary["layers"])
