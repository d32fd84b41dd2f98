"""Small files that bear one piece of evidence each; tests/cli/evidence.sh tells what is made of it.

    python tests/cli/evidence.py FOLDER
"""
import sys

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

SCOPES = "pkg.torch.onnx.name_scopes"
rng = np.random.default_rng(0)


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def save(name, nodes, init, out, shape=(2, 4), producer="", change=None):
    init = [nh.from_array(v, k) for k, v in init.items()]
    g = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, list(shape))], [h.make_tensor_value_info(out, T.FLOAT, None)], init)
    m = h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=10, producer_name=producer, producer_version="2.9")
    if change:
        change(m)
    onnx.save(m, f"{sys.argv[1]}/{name}.onnx")


def scoped(node, text):
    """With metadata (field 9 of the node), which older definitions of the format lack."""
    entry = onnx.StringStringEntryProto(key=SCOPES, value=text).SerializeToString()
    size, n = b"", len(entry)
    while n > 127:
        size, n = size + bytes([n & 127 | 128]), n >> 7
    node.MergeFromString(b"\x4a" + size + bytes([n]) + entry)
    return node


# Names as paddle2onnx (unique_name: layer_N.w_M) and tf2onnx (the variable's read in the SavedModel's graph) write them: what is put
# beside the data, and is zeros, is a parameter only by its name.
def tokens(name, producer, weight, bias, token, made):
    nodes = [h.make_node("Concat", [token, "x"], ["with"], axis=0), h.make_node("Concat", [made, "with"], ["more"], axis=0),
             h.make_node("MatMul", ["more", weight], ["h"]), h.make_node("Add", ["h", bias], ["y"])]
    save(name, nodes, {weight: floats(4, 3), bias: floats(3), token: np.zeros((1, 4), "f"), made: np.zeros((1, 4), "f")}, "y",
         producer=producer)


tokens("paddle", "PaddlePaddle", "linear_0.w_0", "linear_0.b_0", "create_parameter_0.w_0", "Constant_7")
tokens("tf2onnx", "tf2onnx", "StatefulPartitionedCall/vit/dense/MatMul/ReadVariableOp:0",
       "StatefulPartitionedCall/vit/dense/BiasAdd/ReadVariableOp:0", "StatefulPartitionedCall/vit/token/ReadVariableOp:0",
       "const_fold_opt__12")


# What leaves no trace is told by the exporter's name: the default exporter of PyTorch (its modules are in the nodes' metadata) with its
# optimizer (a constant that it folded), the older one in evaluation mode (a weight under a number's name), and others.
weight = floats(4, 3)
linear = h.make_node("MatMul", ["x", "onnx::MatMul_7"], ["y"])
save("older", [linear], {"onnx::MatMul_7": weight}, "y", producer="pytorch")
save("stranger", [linear], {"onnx::MatMul_7": weight}, "y", producer="someone")


# The file's own word.
def binds(m):
    info = m.training_info.add()
    b = info.update_binding.add()
    b.key, b.value = "second", "second_new"


save("info", [h.make_node("MatMul", ["x", "first"], ["h"]), h.make_node("MatMul", ["h", "second"], ["y"])],
     {"first": floats(4, 4), "second": floats(4, 3)}, "y", change=binds)


# A BatchNormalization in training mode, and one that is not.
def norm(x, name, y, training):
    outs = [y] + ([f"{name}.mean_new", f"{name}.var_new"] if training else [])
    return h.make_node("BatchNormalization", [x] + [f"{name}.{k}" for k in ("weight", "bias", "running_mean", "running_var")], outs, name,
                       training_mode=training)


def statistics(name):
    return {f"{name}.weight": np.ones(4, "f") + floats(4) / 8, f"{name}.bias": floats(4), f"{name}.running_mean": floats(4),
            f"{name}.running_var": np.full(4, 0.5, "f")}


save("mixed", [norm("x", "on", "h", 1), norm("h", "off", "y", 0)], {**statistics("on"), **statistics("off")}, "y", shape=(6, 4))
np.savez(f"{sys.argv[1]}/mixed.npz", x=floats(6, 4), target=floats(6, 4))

# Merged tensors: the root reads its part's weight; two modules that are no siblings; no evidence at all.
weight = np.full((4, 4), 0.5, "f")
save("part", [scoped(h.make_node("MatMul", ["x", "emb.weight"], ["h"]), "['', 'emb', 'linear']"),
              scoped(h.make_node("MatMul", ["h", "emb.weight"], ["y"]), "['', 'linear_1']")], {"emb.weight": weight}, "y", producer="pytorch")
save("modules", [scoped(h.make_node("MatMul", ["x", "emb.weight"], ["h"]), "['', 'emb', 'linear']"),
                 scoped(h.make_node("MatMul", ["h", "emb.weight"], ["y"]), "['', 'out', 'linear_1']")], {"emb.weight": weight}, "y",
     producer="pytorch")
save("unknown", [h.make_node("MatMul", ["x", "emb.weight"], ["h"]), h.make_node("MatMul", ["h", "emb.weight"], ["y"])],
     {"emb.weight": weight}, "y", producer="pytorch")

# Lists of modules that are none: the second reader shows nothing then.
broken = ["", "[", "]", "[]", "['emb']", "['', 'out'", "['', 'out', 'linear", "['', 'out\\", "['', 'out', ']", "['', \"out', 'x']", "['',,'out']]",
          "['' 'out' 'x' ", "[,]", "['', out, 'x']", "{'': 'out'}", "[['', 'out'], 'x']", "[" * 100000, "['" + "a" * 100000 + "', 'x']",
          "['\\', 'out']", "['', '" + "\\" * 99999 + "', 'x']", "\x00[", "['', 'out', 'x'", "['', 'out', 'x'}"]
for i, text in enumerate(broken):
    save(f"broken{i:02}", [scoped(h.make_node("MatMul", ["x", "emb.weight"], ["h"]), "['', 'emb', 'linear']"),
                           scoped(h.make_node("MatMul", ["h", "emb.weight"], ["y"]), text)], {"emb.weight": weight}, "y", producer="pytorch")
odd = {"escape": r"['', 'it\'s', 'x']", "double": "['', \"it's\", 'x']", "many": "[" + "'a', " * 50000 + "\"it's\", 'x']"}
for name, text in odd.items():
    save(f"odd_{name}", [scoped(h.make_node("MatMul", ["x", "emb.weight"], ["h"]), "['', 'emb', 'linear']"),
                         scoped(h.make_node("MatMul", ["h", "emb.weight"], ["y"]), text)], {"emb.weight": weight}, "y", producer="pytorch")

# 20,000 of each: readers of one tensor in as many modules, matrices, places that drop.
MANY = 20000
for name, value in {"filled": np.ones(4, "f"), "random": floats(4)}.items():
    nodes = [scoped(h.make_node("Mul", [f"y{i}" if i else "x", "layers.0.weight"], [f"y{i + 1}"]), f"['', 'layers.{i}', 'mul_{i}']")
             for i in range(MANY)]
    save(name, nodes, {"layers.0.weight": value}, f"y{MANY}", producer="pytorch")
same = floats(4, 4)
save("twins", [h.make_node("MatMul", [f"y{i}" if i else "x", f"l{i}.weight"], [f"y{i + 1}"]) for i in range(MANY)],
     {f"l{i}.weight": same if i % 2 else np.ascontiguousarray(same.T) for i in range(MANY)}, f"y{MANY}")
nodes = []
for i in range(MANY):
    nodes += [h.make_node("RandomUniformLike", [f"y{i}" if i else "x"], [f"u{i}"]), h.make_node("Less", [f"u{i}", "keep"], [f"k{i}"]),
              h.make_node("Cast", [f"k{i}"], [f"c{i}"], to=1), h.make_node("Mul", [f"y{i}" if i else "x", f"c{i}"], [f"q{i}"]),
              h.make_node("Div", [f"q{i}", "keep"], [f"y{i + 1}"])]
save("drops", nodes, {"keep": np.float32(0.5)}, f"y{MANY}")
