#!/usr/bin/env python3
"""Makes models that say the same in the words of an opset, OUT/spellings_N.onnx, and with a batch of 4 written into them,
OUT/spellings_fixed_N.onnx; and OUT/noise.onnx, which draws random numbers
for no dropout.  Needs onnx and numpy.

    spellings.py OUT OPSET...

Each of the former uses the operators whose spelling has changed since opset 7, as far as the opset has them: axes, splits, slices, pads,
bounds, ratios and k as attributes or as inputs.  A model starts with a Gemm, so that there is something to train.
"""
import argparse
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Maker:
    def __init__(self, opset, batch=None):
        """batch: the size that is written into the model; None: it is open."""
        self.batch, self.opset, self.nodes, self.held, self.rng = batch, opset, [], [], np.random.default_rng(opset)

    def const(self, array):
        name = f"c{len(self.held)}"
        self.held.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def ints(self, *v):
        return self.const(np.array(v, np.int64))

    def weight(self, *shape):
        return self.const(self.rng.normal(0, 0.3, shape).astype(np.float32))

    def add(self, op, *inputs, outputs=1, **attrs):
        names = [f"{op}{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, name=names[0], **attrs))
        return names if outputs > 1 else names[0]

    def listed(self, op, x, since, key, values, outputs=1, **attrs):
        """The list `key` is an input from opset `since` on, before that an attribute."""
        if self.opset >= since:
            return self.add(op, x, self.ints(*values), outputs=outputs, **attrs)
        return self.add(op, x, outputs=outputs, **attrs, **{key: values})


def pixels(m, x):
    """[N, 4, 4, 4] through all that works on images."""
    statistics = [m.const(np.array(v, np.float32)) for v in ([1, 2, 1, 1], [0, 0, 1, 0], [0, 0.1, 0, 0], [1, 1, 2, 1])]
    if m.opset >= 14:
        x = m.add("BatchNormalization", x, *statistics, outputs=3, training_mode=1)[0]
    else:
        x = m.add("BatchNormalization", x, *statistics)
    x = m.add("Pad", x, m.ints(0, 0, 1, 1, 0, 0, 1, 1), m.const(np.float32(0.5))) if m.opset >= 11 else \
        m.add("Pad", x, pads=[0, 0, 1, 1, 0, 0, 1, 1], value=0.5)
    x = m.add("MaxPool", x, kernel_shape=[2, 2])
    x = m.add("AveragePool", x, kernel_shape=[2, 2], count_include_pad=1)
    if m.opset >= 10:
        x = m.add("Slice", x, m.ints(0, 0), m.ints(4, 4), m.ints(2, 3))
    else:
        x = m.add("Slice", x, starts=[0, 0], ends=[4, 4], axes=[2, 3])
    x = m.add("SpaceToDepth", m.add("DepthToSpace", x, blocksize=2), blocksize=2)
    a, b = m.listed("Split", x, 13, "split", [1, 3], outputs=2, axis=1)
    if m.opset >= 18:
        c = m.add("Split", b, outputs=3, axis=1, num_outputs=3)
    else:
        c = m.add("Split", b, outputs=3, axis=1)
    return m.add("Concat", a, *c, axis=1)


def rows(m, x):
    """[N, 4, 16] through reductions, bounds and the rest."""
    low, high = m.const(np.float32(-2)), m.const(np.float32(1.5))
    x = m.add("Clip", x, low, high) if m.opset >= 11 else m.add("Clip", x, min=-2.0, max=1.5)
    x = m.add("Dropout", x, m.const(np.float32(0.3)), m.const(np.bool_(True))) if m.opset >= 12 else \
        m.add("Dropout", x, outputs=2, ratio=0.3)[0]
    y = m.listed("ReduceMean", x, 18, "axes", [2], keepdims=1)
    y = m.add("Add", y, m.listed("ReduceSum", x, 13, "axes", [2], keepdims=1))
    y = m.add("Add", y, m.listed("ReduceMax", x, 18, "axes", [2]))
    y = m.add("Add", x, y)
    if m.batch and m.opset >= 8:
        y = m.add("Add", y, m.add("Expand", m.weight(4, 16), m.ints(m.batch, 4, 16)))
    y = m.listed("Unsqueeze", m.listed("Squeeze", m.listed("Unsqueeze", y, 13, "axes", [1]), 13, "axes", [1]), 13, "axes", [3])
    y = m.add("Softmax", m.listed("Squeeze", y, 13, "axes", [3]), axis=2)
    best = m.add("TopK", y, m.ints(3), outputs=2) if m.opset >= 10 else m.add("TopK", y, outputs=2, k=3)
    y = m.add("Add", y, m.listed("ReduceSum", best[0], 13, "axes", [2]))
    place = m.add("Cast", m.add("ArgMax", x, axis=2), to=TensorProto.FLOAT)
    return m.add("Add", y, m.add("Mul", place, m.const(np.float32(0.01))))


def finish(m, y, name):
    m.nodes.append(helper.make_node("Identity", [y], ["y"]))
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [m.batch or "batch", k]) for n, k in (("x", 8), ("y", 3))]
    graph = helper.make_graph(m.nodes, name, info[:1], info[1:], m.held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", m.opset)], ir_version=7 if m.opset < 15 else 8)


def noise():
    m = Maker(17)
    x = m.add("Gemm", "x", m.weight(8, 5), m.weight(5))
    x = m.add("Add", x, m.add("RandomNormalLike", x, scale=0.1))
    return finish(m, m.add("Gemm", x, m.weight(5, 3), m.weight(3)), "noise")


def make(opset, batch=None):
    m = Maker(opset, batch)
    x = m.add("Gemm", "x", m.weight(8, 64), m.weight(64))
    x = pixels(m, m.add("Reshape", x, m.ints(batch or 0, 4, 4, 4)))
    x = rows(m, m.add("Reshape", x, m.ints(batch or 0, 4, -1)))
    x = m.add("LogSoftmax", m.add("Gemm", m.add("Flatten", x), m.weight(64, 3), m.weight(3)), axis=1)
    return finish(m, x, "spellings")


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("out", type=pathlib.Path)
    ap.add_argument("opset", type=int, nargs="+")
    args = ap.parse_args()
    for name, model in [("noise", noise())] + [
            (f"spellings{word}_{opset}", make(opset, batch)) for opset in args.opset for word, batch in (("", None), ("_fixed", 4))]:
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, str(args.out / f"{name}.onnx"))


if __name__ == "__main__":
    main()
