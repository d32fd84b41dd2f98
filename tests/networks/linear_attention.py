"""FOLDER: models of LinearAttention, one for each update rule and form of its gates, and data: what standard.py is given.

No exporter writes the operator, and so these are made here: two layers, of which the second begins with a state that is a parameter and
hands its own to the classifier.

    for rule in linear gated delta gated_delta; do
        tests/networks/standard.py build FOLDER/$rule.onnx FOLDER/data.npz 1,4,7 --loss cross-entropy --lr 0.01 --momentum 0.9
    done"""
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

STEPS, WIDTH, CLASSES = 9, 12, 5
# rule: query heads, heads with a state, decay for each head ("head") or number of a key ("key"), numbers of beta
FORMS = {"linear": (2, 2, None, 0), "gated": (4, 2, "head", 0), "delta": (2, 2, None, 1), "gated_delta": (4, 2, "key", 2)}
DK, DV = 4, 3


class Maker:
    def __init__(self, seed):
        self.nodes, self.constants, self.random = [], [], np.random.default_rng(seed)

    def weight(self, *shape):
        name = f"weight.{len(self.constants)}"
        self.constants.append(numpy_helper.from_array((self.random.standard_normal(shape) / np.sqrt(shape[-2])).astype(np.float32), name))
        return name

    def integers(self, *values):
        name = f"integers.{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def node(self, op, *inputs, outputs=1, **attributes):
        names = [f"{op}.{len(self.nodes)}.{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    def keys(self, x, heads):
        """Of length one in each head."""
        apart = self.node("Reshape", self.node("MatMul", x, self.weight(WIDTH, heads * DK)), self.integers(0, 0, heads, DK))
        return self.node("Reshape", self.node("LpNormalization", apart, axis=-1, p=2), self.integers(0, 0, heads * DK))

    def layer(self, x, rule, state=""):
        queries, heads, decays, betas = FORMS[rule]
        gates = {"head": heads, "key": heads * DK}
        q, v = (self.node("MatMul", x, self.weight(WIDTH, n)) for n in (queries * DK, heads * DV))
        decay = decays and self.node("Neg", self.node("Softplus", self.node("MatMul", x, self.weight(WIDTH, gates[decays]))))
        beta = betas and self.node("Sigmoid", self.node("MatMul", x, self.weight(WIDTH, betas)))
        y, state = self.node("LinearAttention", q, self.keys(x, heads), v, state, decay or "", beta or "", outputs=2, update_rule=rule,
                             q_num_heads=queries, kv_num_heads=heads)
        return self.node("Add", x, self.node("MatMul", y, self.weight(queries * DV, WIDTH))), state


def make(rule):
    m, heads = Maker(len(rule)), FORMS[rule][1]
    x, state = m.layer("x", rule)
    scale = m.weight(1, heads, DK, DV)
    y, state = m.layer(x, rule, m.node("Mul", state, scale))
    mean = m.node("Squeeze", m.node("ReduceMean", y, m.integers(1)), m.integers(1))
    flat = m.node("Concat", mean, m.node("Flatten", state), axis=1)
    m.nodes.append(helper.make_node("MatMul", [flat, m.weight(WIDTH + heads * DK * DV, CLASSES)], ["logits"]))
    graph = helper.make_graph(m.nodes, rule, [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", STEPS, WIDTH])],
                              [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", CLASSES])], m.constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 27)], ir_version=13)


folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
for rule in FORMS:
    onnx.save(make(rule), folder / f"{rule}.onnx")
random = np.random.default_rng(0)
np.savez(folder / "data.npz", x=random.standard_normal((64, STEPS, WIDTH)).astype(np.float32), target=random.integers(0, CLASSES, 64))
