#!/usr/bin/env python3
"""Golden data of types of 8 bits and fewer, in the layout of ONNX's tests, into the folder given.

What a float becomes is found by looking at all bits of the type: the nearest value, of two the one with even bits.  Values of bits
come from the formats' definitions: sign, exponent and mantissa.  Written as protobuf alone, for packages that do not know the types.
"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper

E4M3FN, E4M3FNUZ, E5M2, E5M2FNUZ, UINT4, INT4, E2M1, E8M0, UINT2, INT2 = range(17, 27)
BITS = {UINT4: 4, INT4: 4, E2M1: 4, UINT2: 2, INT2: 2}
# bits of the exponent and of the mantissa, bias
FORMAT = {E4M3FN: (4, 3, 7), E4M3FNUZ: (4, 3, 8), E5M2: (5, 2, 15), E5M2FNUZ: (5, 2, 16), E2M1: (2, 1, 1)}


def value(kind, code):
    if kind == E8M0:
        return np.nan if code == 255 else 2.0 ** (code - 127)
    if kind in (UINT4, UINT2):
        return float(code)
    if kind in (INT4, INT2):
        half = 1 << (BITS[kind] - 1)
        return float(code - 2 * half if code >= half else code)
    e, m, bias = FORMAT[kind]
    sign, rest = code >> (e + m), code & ((1 << (e + m)) - 1)
    if kind in (E4M3FNUZ, E5M2FNUZ) and code == 0x80:
        return np.nan
    if kind == E4M3FN and rest == 0x7F:
        return np.nan
    if kind == E5M2 and rest >= 0x7C:
        return np.nan if rest > 0x7C else -np.inf if sign else np.inf
    exponent, mantissa = rest >> m, rest & ((1 << m) - 1)
    v = (mantissa / 2**m) * 2.0 ** (1 - bias) if exponent == 0 else (1 + mantissa / 2**m) * 2.0 ** (exponent - bias)
    return -v if sign else v


def codes(kind):
    return 1 << BITS.get(kind, 8)


def from_float(kind, x, saturate):
    """The bits that each of x becomes."""
    e, m, _ = FORMAT[kind]
    positive = np.array([value(kind, c) for c in range(1 << (e + m))])
    finite = np.isfinite(positive)
    table = positive[finite]                       # ascending, by bits
    most = len(table) - 1
    a = np.abs(x.astype(np.float64))
    above = np.clip(np.searchsorted(table, a), 1, most)
    below = above - 1
    up, down = table[above] - a, a - table[below]
    best = np.where((up < down) | ((up == down) & (above % 2 == 0)), above, below)
    step = table[most] - table[most - 1]
    too_large = (a > table[most] + step / 2) | ((a == table[most] + step / 2) & (most % 2 == 1))
    sign = np.signbit(x).astype(int) << (e + m)
    nan = {E4M3FN: 0x7F, E5M2: 0x7E}.get(kind)
    once = kind in (E4M3FNUZ, E5M2FNUZ)
    limit = most if saturate or kind == E2M1 else 0x7C if kind == E5M2 else nan
    out = np.where(too_large, 0x80 if limit is None else limit | sign, best | sign)
    out = np.where((out == 0x80) & ~too_large, 0, out) if once else out
    not_one = 0x80 if once else (1 << (e + m)) if kind == E2M1 else nan | sign
    return np.where(np.isnan(x), not_one, out).astype(np.uint8)


def tensor(kind, code, shape=None, name="", typed=False):
    """Of bits, packed."""
    code = np.asarray(code, np.uint8).ravel()
    t = T(data_type=kind, name=name, dims=list(code.shape if shape is None else shape))
    bits = BITS.get(kind, 8)
    packed = np.zeros((len(code) * bits + 7) // 8, np.uint8)
    for i, c in enumerate(code):
        packed[i * bits // 8] |= (int(c) & ((1 << bits) - 1)) << (i * bits % 8)
    if typed:
        t.int32_data.extend(int(b) for b in packed)
    else:
        t.raw_data = packed.tobytes()
    return t


def write(folder, name, nodes, inputs, outputs, initializers=()):
    """inputs and outputs: {name: TensorProto}."""
    path = os.path.join(folder, name)
    os.makedirs(path + "/test_data_set_0")
    info = lambda values: [h.make_tensor_value_info(k, v.data_type, list(v.dims)) for k, v in values.items()]
    graph = h.make_graph(nodes, name, info(inputs), info(outputs), initializers)
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 25)], ir_version=8), path + "/model.onnx")
    for what, values in (("input", inputs), ("output", outputs)):
        for i, v in enumerate(values.values()):
            with open("%s/test_data_set_0/%s_%d.pb" % (path, what, i), "wb") as f:
                f.write(v.SerializeToString())


def casts(folder):
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    halves = np.where(np.isnan(halves), np.float16(np.nan), halves)
    given = numpy_helper.from_array(halves)
    for kind in FORMAT:
        for saturate in (1, 0):
            write(folder, "half_to_%d_%d" % (kind, saturate),
                  [h.make_node("Cast", ["x"], ["y"], to=kind, saturate=saturate), h.make_node("BitCast", ["y"], ["z"], to=T.UINT8)]
                  if kind != E2M1 else [h.make_node("Cast", ["x"], ["z"], to=kind)], {"x": given},
                  {"z": tensor(kind if kind == E2M1 else T.UINT8, from_float(kind, halves, saturate))})
    for kind in range(17, 27):
        all_codes = np.arange(codes(kind))
        values = np.array([value(kind, c) for c in all_codes])
        for typed in (False, True):
            write(folder, "from_%d_%d" % (kind, typed), [h.make_node("Cast", ["x"], ["y"], to=T.DOUBLE)],
                  {"x": tensor(kind, all_codes, typed=typed)}, {"y": numpy_helper.from_array(values)})
    x = np.array([0, 2.0**-126, 3 * 2.0**-127, 1, 1.25, 1.5, 1.75, 2, 100, 2.0**127, 1.6 * 2.0**127, np.inf, np.nan], np.float32)
    for mode, saturate, expected in (("up", 1, [0, 1, 2, 127, 128, 128, 128, 128, 134, 254, 254, 254, 255]),
                                     ("down", 1, [0, 1, 1, 127, 127, 127, 127, 128, 133, 254, 254, 254, 255]),
                                     ("nearest", 0, [255, 1, 2, 127, 127, 128, 128, 128, 134, 254, 255, 255, 255])):
        write(folder, "power_%s" % mode,
              [h.make_node("Cast", ["x"], ["y"], to=E8M0, saturate=saturate, round_mode=mode),
               h.make_node("BitCast", ["y"], ["z"], to=T.UINT8)], {"x": numpy_helper.from_array(x)}, {"z": tensor(T.UINT8, expected)})
    wide = np.array([-300, -9, -8, -3, -1, 0, 1, 2, 3, 7, 8, 15, 16, 255, 2**40 + 5], np.int64)
    for kind in BITS:
        if kind != E2M1:
            write(folder, "wrap_%d" % kind, [h.make_node("Cast", ["x"], ["y"], to=kind)], {"x": numpy_helper.from_array(wide)},
                  {"y": tensor(kind, wide & (codes(kind) - 1))})


def moves(folder):
    """What only moves elements takes every type; odd counts, so that a byte is not full."""
    rng = np.random.default_rng(1)
    shape = lambda *v: h.make_tensor("s", T.INT64, [len(v)], v)
    for kind in range(17, 27):
        a = rng.integers(0, codes(kind) - 1, (3, 5)).astype(np.uint8)      # without NaN of one sign
        b = rng.integers(0, codes(kind) - 1, (3, 5)).astype(np.uint8)
        a[a == 0x7F], b[b == 0x7F], a[a == 0x80], b[b == 0x80] = 1, 1, 2, 2
        pick = rng.integers(0, 2, (3, 5)).astype(bool)
        rows = np.array([2, 0], np.int64)
        w = tensor(kind, b, (3, 5), "w")
        for name, node, out, more in (
                ("Identity", h.make_node("Identity", ["x"], ["y"]), a, []),
                ("Reshape", h.make_node("Reshape", ["x", "s"], ["y"]), a.reshape(5, 3), [shape(5, 3)]),
                ("Transpose", h.make_node("Transpose", ["x"], ["y"]), a.T, []),
                ("Concat", h.make_node("Concat", ["x", "w"], ["y"], axis=1), np.concatenate([a, b], 1), [w]),
                ("Gather", h.make_node("Gather", ["x", "s"], ["y"]), a[rows], [shape(*rows)]),
                ("Where", h.make_node("Where", ["c", "x", "w"], ["y"]), np.where(pick, a, b),
                 [w, numpy_helper.from_array(pick, "c")]),
                ("Expand", h.make_node("Expand", ["x", "s"], ["y"]), np.broadcast_to(a, (2, 3, 5)), [shape(2, 3, 5)]),
                ("Tile", h.make_node("Tile", ["x", "s"], ["y"]), np.tile(a, (1, 3)), [shape(1, 3)]),
                ("Pad", h.make_node("Pad", ["x", "s"], ["y"], mode="edge"), np.pad(a, ((0, 0), (1, 0)), "edge"), [shape(0, 1, 0, 0)]),
                ("ScatterND", h.make_node("ScatterND", ["x", "i", "u"], ["y"]), np.vstack([a[:1], b[:1], a[2:]]),
                 [numpy_helper.from_array(np.array([[1]], np.int64), "i"), tensor(kind, b[:1], (1, 5), "u")]),
                ("Split", h.make_node("Split", ["x"], ["y", "z"], axis=1, num_outputs=2), a[:, :3], [])):
            y = np.ascontiguousarray(out)
            write(folder, "%s_%d" % (name, kind), [node], {"x": tensor(kind, a, a.shape)}, {"y": tensor(kind, y, y.shape)}, more)


if __name__ == "__main__":
    casts(sys.argv[1])
    moves(sys.argv[1])
