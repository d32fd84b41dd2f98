"""Writes net.onnx, a network with biases of a convolution, a Gemm and an Add, a batch norm and a layer norm, and data.npz: no_decay.py FOLDER.

deform.onnx has a deformable convolution and a GRU, whose biases are not their third inputs.
"""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

folder = sys.argv[1]
r = np.random.default_rng(3)
shapes = {"conv.weight": (4, 1, 3, 3), "conv.bias": (4,), "bn.weight": (4,), "bn.bias": (4,), "fc.weight": (8, 36), "fc.bias": (8,),
          "ln.weight": (8,), "ln.bias": (8,), "fc2.weight": (8, 3), "fc2.bias": (3,)}
tensors = {name: r.normal(size=shape).astype("f4") * 0.5 for name, shape in shapes.items()}
tensors["bn.running_mean"] = np.zeros(4, "f4")
tensors["bn.running_var"] = np.ones(4, "f4")
nodes = [
    helper.make_node("Conv", ["x", "conv.weight", "conv.bias"], ["c"], kernel_shape=[3, 3]),
    helper.make_node("BatchNormalization", ["c", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"], ["b"]),
    helper.make_node("Relu", ["b"], ["h"]),
    helper.make_node("Flatten", ["h"], ["f"]),
    helper.make_node("Gemm", ["f", "fc.weight", "fc.bias"], ["g"], transB=1),
    helper.make_node("LayerNormalization", ["g", "ln.weight", "ln.bias"], ["l"], axis=-1),
    helper.make_node("MatMul", ["l", "fc2.weight"], ["m"]),
    helper.make_node("Add", ["m", "fc2.bias"], ["y"]),
]


def save(name, nodes, tensors, opset):
    graph = helper.make_graph(nodes, name, [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 1, 5, 5])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])],
                              [numpy_helper.from_array(v, k) for k, v in tensors.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), f"{folder}/{name}.onnx")


save("net", nodes, tensors, 17)
np.savez(f"{folder}/data.npz", x=r.normal(size=(48, 1, 5, 5)).astype("f4"), target=r.integers(0, 3, 48))

shapes = {"offset.weight": (18, 1, 3, 3), "deform.weight": (1, 1, 3, 3), "deform.bias": (1,), "gru.input": (1, 9, 9), "gru.state": (1, 9, 3),
          "gru.bias": (1, 18)}
nodes = [
    helper.make_node("Conv", ["x", "offset.weight"], ["o"], kernel_shape=[3, 3]),
    helper.make_node("DeformConv", ["x", "deform.weight", "o", "deform.bias"], ["d"], kernel_shape=[3, 3]),
    helper.make_node("Reshape", ["d", "line"], ["s"]),
    helper.make_node("GRU", ["s", "gru.input", "gru.state", "gru.bias"], ["", "h"], hidden_size=3),
    helper.make_node("Squeeze", ["h", "axis"], ["y"]),
]
tensors = {name: r.normal(size=shape).astype("f4") for name, shape in shapes.items()}
save("deform", nodes, tensors | {"line": np.array([1, -1, 9]), "axis": np.array([0])}, 19)
