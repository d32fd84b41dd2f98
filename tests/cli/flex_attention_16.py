#!/usr/bin/env python3
"""Writes tests of FlexAttention in float16 and bfloat16 into the folder given, as the official ones lie: NAME/model.onnx, test_data_set_0.

What is expected is the function body that onnx 1.22 has for it, node by node: each in float64, its output rounded to the type that the body
gives it (queries and keys times the root of the scale, scores, scores cast, softmax, values cast, their product, the result).  Numbers for which
that depends on whether a node computes in float32 or in float64 are passed over.  onnx.reference leaves out one of these roundings: of bfloat16
numpy's matmul makes float32.
"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h

CASES = 48


def half(x):
    return np.asarray(x).astype(np.float16)


def single(x):
    return np.asarray(x).astype(np.float32)


def bfloat(x):
    """To the nearest, of two the even one, out of float32."""
    bits = np.atleast_1d(x).astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


ROUND = {T.FLOAT16: half, T.BFLOAT16: bfloat, T.FLOAT: single}
MODIFIERS = {"Mul": lambda s: s * 0.5, "Add": lambda s: s + 0.5, "Tanh": np.tanh}


def tensor(name, value, dtype):
    value = np.asarray(value)
    raw = {T.FLOAT16: lambda: value.astype(np.float16).tobytes(), T.FLOAT: lambda: value.astype(np.float32).tobytes(),
           T.BFLOAT16: lambda: (value.reshape(-1).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).tobytes()}[dtype]()
    return onnx.TensorProto(name=name, data_type=dtype, dims=value.shape, raw_data=raw)


def modifier(op, dtype):
    constant = [] if op == "Tanh" else [tensor("c", 0.5, dtype)]
    return h.make_graph([h.make_node(op, ["s"] + [c.name for c in constant], ["r"])], "modifier", [h.make_tensor_value_info("s", dtype, None)],
                        [h.make_tensor_value_info("r", dtype, None)], constant)


def body(computes, q, k, v, dtype, soft, scale, of_scores, of_probabilities):
    def to(x):
        return ROUND[dtype](x).astype(computes)

    def by(x):
        return ROUND[soft](x).astype(computes)

    q, k, v = (x.astype(computes) for x in (q, k, v))
    scale = np.float32(scale) if scale else np.float32(1) / np.sqrt(np.float32(q.shape[-1]))
    root, share = to(np.sqrt(scale)), q.shape[1] // k.shape[1]
    k, v = np.repeat(k, share, 1), np.repeat(v, share, 1)
    s = by(to(to(q * root) @ np.swapaxes(to(k * root), -1, -2)))
    s = by(MODIFIERS[of_scores](s)) if of_scores else s
    p = np.exp(s - s.max(-1, keepdims=True))
    p = by(p / p.sum(-1, keepdims=True))
    p = by(MODIFIERS[of_probabilities](p)) if of_probabilities else p
    return to(by(p @ by(v)))


def case(i, seed, folder):
    """False: passed over."""
    r = np.random.default_rng(seed)
    dtype = (T.FLOAT16, T.BFLOAT16)[i % 2]
    soft = (T.FLOAT, T.FLOAT, T.FLOAT16, T.BFLOAT16)[r.integers(4)]
    shared, heads = r.integers(1, 3, 2)
    batch, queries, keys, depth, values = r.integers(1, 13, 5)
    scale = float(np.float32(r.uniform(0.1, 1.5))) if r.integers(2) else None
    mods = [(None, "Mul", "Add", "Tanh")[r.integers(4)] for _ in range(2)]
    shapes = {"Q": (batch, heads * shared, queries, depth), "K": (batch, heads, keys, depth), "V": (batch, heads, keys, values)}
    given = {name: ROUND[dtype](r.normal(size=s)) for name, s in shapes.items()}
    attributes = {name: modifier(op, soft) for name, op in zip(("score_mod", "prob_mod"), mods) if op}
    attributes |= {"scale": scale} if scale else {}
    attributes |= {"softmax_precision": int(soft)} if soft != T.FLOAT or r.integers(2) else {}
    y, other = (body(computes, *given.values(), dtype, soft, scale, *mods) for computes in (np.float64, np.float32))
    if (y != other).any():
        return False
    node = h.make_node("FlexAttention", list(given), ["Y"], domain="ai.onnx.preview", **attributes)
    graph = h.make_graph([node], "flex", [h.make_tensor_value_info(n, dtype, list(map(int, s))) for n, s in shapes.items()],
                         [h.make_tensor_value_info("Y", dtype, list(y.shape))])
    data = os.path.join(folder, "case_%02d" % i, "test_data_set_0")
    os.makedirs(data)
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 24), h.make_opsetid("ai.onnx.preview", 1)], ir_version=8)
    onnx.save(model, os.path.join(folder, "case_%02d" % i, "model.onnx"))
    for k, (name, value) in enumerate([*given.items(), ("Y", y)]):
        with open(os.path.join(data, "output_0.pb" if name == "Y" else "input_%d.pb" % k), "wb") as f:
            f.write(tensor(name, value, dtype).SerializeToString())
    return True


seeds = iter(range(100 * CASES))
for i in range(CASES):
    while not case(i, next(seeds), sys.argv[1]):
        pass
