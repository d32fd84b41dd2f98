"""Golden data that ONNX's own tests lack, by NumPy: made.py DIR."""
import os
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

rng = np.random.default_rng(7)


def golden(name, op, opset, inputs, outputs, **attrs):
    """A folder with the one node, its inputs and what it is known to give."""
    folder = os.path.join(sys.argv[1], name)
    data = os.path.join(folder, "test_data_set_0")
    os.makedirs(data)
    ins = [f"x{i}" for i in range(len(inputs))]
    outs = [f"y{i}" for i in range(len(outputs))]
    graph = helper.make_graph(
        [helper.make_node(op, ins, outs, **attrs)], name,
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype) if hasattr(helper, "np_dtype_to_tensor_dtype")
                                       else numpy_helper.from_array(a).data_type, a.shape) for n, a in zip(ins, inputs)],
        [helper.make_tensor_value_info(n, numpy_helper.from_array(a).data_type, a.shape) for n, a in zip(outs, outputs)])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), os.path.join(folder, "model.onnx"))
    for kind, arrays in (("input", inputs), ("output", outputs)):
        for i, a in enumerate(arrays):
            with open(os.path.join(data, f"{kind}_{i}.pb"), "wb") as f:
                f.write(numpy_helper.from_array(np.asarray(a)).SerializeToString())


def x(*shape):
    return rng.standard_normal(shape).astype(np.float32)


EINSUM = [
    ("ij->ji", (2, 3)), ("ba", (2, 3)), ("ijk->k", (2, 3, 4)), ("ii->i", (3, 3)), ("ii", (3, 3)), ("bii->bi", (2, 3, 3)),
    ("ijii->ji", (3, 2, 3, 3)), ("i,j->ji", (3,), (4,)), ("ij,jk->ik", (2, 3), (3, 4)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("bhqd,bhkd->bhqk", (2, 3, 5, 4), (2, 3, 6, 4)), ("bqhd,bkhd->bhqk", (2, 5, 3, 4), (2, 6, 3, 4)),
    ("bhqk,bkhd->bqhd", (2, 3, 5, 6), (2, 6, 3, 4)), ("btd,dhk->bthk", (2, 5, 6), (6, 3, 4)), ("bthk,hkd->btd", (2, 5, 3, 4), (3, 4, 6)),
    ("nct,oct->no", (2, 3, 4), (5, 3, 4)), ("nctv,cd->ndtv", (2, 3, 4, 5), (3, 6)), ("bi,bj,oij->bo", (2, 3), (2, 4), (5, 3, 4)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)), ("ij,k->i", (2, 3), (4,)), ("...i,ij->...j", (2, 3, 4), (4, 5)),
    ("...,...", (2, 3, 4), (3, 4)), ("...ij,...jk->...ik", (2, 3, 4, 5), (3, 5, 6)), ("b...->...", (2, 3, 4)), ("i,j,k->kij", (2,), (3,), (4,)),
    ("abc,acd,bd->ab", (2, 3, 4), (2, 4, 5), (3, 5)), ("aab,bcc->c", (3, 3, 2), (2, 4, 4)), ("abcd,cdab->", (2, 3, 4, 5), (4, 5, 2, 3)),
    ("abcde,ce->bad", (2, 3, 4, 5, 6), (4, 6)), ("ab,ab,ab->b", (3, 4), (3, 4), (3, 4)), ("ji,...j->...i", (3, 4), (2, 5, 3)),
]
for i, (equation, *shapes) in enumerate(EINSUM):
    arrays = [x(*s) for s in shapes]
    wide = [a.astype(np.float64) for a in arrays]
    golden(f"einsum_{i}", "Einsum", 12, arrays, [np.einsum(equation, *wide).astype(np.float32)], equation=equation)


def norms(a, p, kernel):
    """The p-norm of each window of `kernel` elements, side by side, of [n, c, length]."""
    a = np.abs(a.astype(np.float64)) ** p
    return (a.reshape(*a.shape[:2], -1, kernel).sum(-1) ** (1 / p)).astype(np.float32)


for opset, p in ((1, 3.0), (2, 1), (11, 4), (18, 2), (22, 3)):
    data = x(2, 3, 8)
    golden(f"lppool_{opset}", "LpPool", opset, [data], [norms(data, p, 2)], kernel_shape=[2], strides=[2], p=p)
    golden(f"globallppool_{opset}", "GlobalLpPool", opset, [data], [norms(data, p, 8)], p=p)
