"""Golden data at the edges of definitions, of one operator each: edges.py DIR.  What is expected is written out, worked out
from ONNX's text; edges.py DIR --runtime compares with ONNX Runtime instead what that can run."""
import os
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

NAN, INF = np.nan, np.inf
f, h, i = np.float32, np.float16, np.int64


def tensor(a, name=""):
    """An array, or (type, shape, bytes) of a type that NumPy lacks."""
    return numpy_helper.from_array(np.asarray(a), name) if not isinstance(a, tuple) else TensorProto(data_type=a[0], dims=a[1], raw_data=a[2], name=name)


def golden(name, op, opset, inputs, outputs, **attrs):
    names = ["" if a is None else f"x{k}" for k, a in enumerate(inputs)]
    inputs = [a for a in inputs if a is not None]
    ins = [tensor(a, name) for a, name in zip(inputs, filter(None, names))]
    outs = [tensor(a, f"y{k}") for k, a in enumerate(outputs)]
    info = lambda t: helper.make_tensor_value_info(t.name, t.data_type, list(t.dims))
    graph = helper.make_graph([helper.make_node(op, names, [t.name for t in outs], **attrs)], name, [info(t) for t in ins], [info(t) for t in outs])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    if "--runtime" in sys.argv:
        return compare(name, model, {t.name: a for t, a in zip(ins, inputs)}, outputs)
    data = os.path.join(sys.argv[1], name, "test_data_set_0")
    os.makedirs(data)
    save(model, os.path.join(sys.argv[1], name, "model.onnx"))
    for kind, tensors in (("input", ins), ("output", outs)):
        for k, t in enumerate(tensors):
            with open(f"{data}/{kind}_{k}.pb", "wb") as file:
                file.write(t.SerializeToString())


def compare(name, model, inputs, outputs):
    import onnxruntime
    onnxruntime.set_default_logger_severity(4)
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        found = session.run(None, {k: np.asarray(a) for k, a in inputs.items()})
    except Exception as e:  # what it does not do, and types that NumPy lacks
        return print(f"{name}: not by ONNX Runtime: {str(e)[:120]}")
    for y, expected in zip(found, map(np.asarray, outputs)):
        if y.dtype != expected.dtype or y.shape != expected.shape or not np.allclose(y, expected, 1e-5, 1e-6, equal_nan=True):
            sys.exit(f"{name}: {y} and {expected}")


def quantised():
    # The type of the scale is that of the division, from opset 23 on; `precision` says another.
    x, scale = np.array([2.0765765, 0.06079555, 1.6482248], f), h(0.0003867)
    zero = np.array(0, np.uint16)
    halves = np.rint((x.astype(h) / scale).astype(f)).astype(np.uint16)
    assert list(halves) == [5368, 157, 4264]
    golden("quantize_half", "QuantizeLinear", 23, [x, scale, zero], [halves])
    golden("quantize_both_half", "QuantizeLinear", 25, [x.astype(h), scale, zero], [halves])
    whole = np.rint(x.astype(h).astype(f) / f(scale)).astype(np.uint16)
    golden("quantize_float", "QuantizeLinear", 23, [x.astype(h), scale, zero], [whole], precision=1)
    golden("quantize_before_23", "QuantizeLinear", 21, [x.astype(h), scale, zero], [whole])
    # Blocks, of which the last is smaller, along the only axis and along others.
    x = np.array([2, 4, 6, 8, 10], f)
    golden("quantize_blocks", "QuantizeLinear", 21, [x, np.array([1, 2, 4], f), np.array([0, 1, 2], np.int8)], [np.array([2, 4, 4, 5, 4], np.int8)], axis=0, block_size=2)
    golden("dequantize_blocks", "DequantizeLinear", 21, [np.array([2, 4, 6, 8, 10], np.uint8), np.array([1, 0.5], f)], [np.array([2, 4, 6, 4, 5], f)], axis=-1, block_size=3)
    x = np.arange(30, dtype=f).reshape(2, 5, 3)
    scale = np.array([1, 2, 4, 8, 16, 32] * 2, f).reshape(2, 2, 3)
    golden("quantize_blocks_within", "QuantizeLinear", 21, [x, scale], [np.rint(x / np.repeat(scale, 4, 1)[:, :5]).astype(np.uint8)], axis=1, block_size=4)
    golden("quantize_one_block", "QuantizeLinear", 21, [x, scale[:, :1]], [np.rint(x / scale[:, :1]).astype(np.uint8)], axis=-2, block_size=2**62)
    golden("quantize_none", "QuantizeLinear", 21, [x[:, :0], scale[:, :0]], [np.zeros((2, 0, 3), np.uint8)], axis=1, block_size=4)
    # A range of 0 alone.
    for name, x in (("zero", np.zeros(3, f)), ("none", np.zeros((0, 2), f))):
        golden("dynamic_quantize_" + name, "DynamicQuantizeLinear", 11, [x], [np.zeros(x.shape, np.uint8), f(1), np.uint8(0)])


def reduced():
    x = np.array([[1, 2, 3], [40, 50, 60]], np.int32)
    axes = np.array([1], i)
    golden("log_sum_of_integers", "ReduceLogSum", 18, [x, axes], [np.array([[1], [5]], np.int32)])      # log 6 = 1.79, log 150 = 5.01
    golden("log_sum_exp_of_integers", "ReduceLogSumExp", 18, [x.astype(i), axes], [np.array([3, 60], i)], keepdims=0)   # 3.41, 60.00005
    most = np.array([2**31 - 1, 2**31 - 1, 2**31 - 4], np.int32)
    golden("mean_of_large_integers", "ReduceMean", 18, [most], [np.array(2**31 - 2, np.int32)], keepdims=0)
    golden("mean_of_integers_by_axes_given", "ReduceMean", 18, [x, axes], [np.array([[2], [50]], np.int32)])
    special = np.array([[INF, 1], [-INF, -INF], [-INF, 2], [NAN, INF], [1000, 1000]], f)
    golden("log_sum_exp_of_infinities", "ReduceLogSumExp", 18, [special, axes], [np.array([[INF], [-INF], [2], [NAN], [1000.6931]], f)])
    golden("log_sum_of_infinities", "ReduceLogSum", 18, [np.abs(special), axes], [np.array([[INF], [INF], [INF], [NAN], [7.6009026]], f)])
    none = np.zeros((2, 0), f)
    golden("log_sum_of_none", "ReduceLogSum", 18, [none, axes], [np.full((2, 1), -INF, f)])
    golden("log_sum_exp_of_none", "ReduceLogSumExp", 18, [none, axes], [np.full((2, 1), -INF, f)])
    golden("log_sum_of_each", "ReduceLogSum", 18, [np.array([1, 2, 4], f), np.zeros(0, i)], [np.log(np.array([1, 2, 4], f))], noop_with_empty_axes=1)


def others():
    # Integers of 4 and 2 bits into others: the lowest bits.
    four = (22, [4], bytes([0x1F, 0x87]))                    # -1, 1, 7, -8
    golden("cast_int4_uint8", "Cast", 21, [four], [np.array([255, 1, 7, 248], np.uint8)], to=2)
    golden("cast_int4_uint64", "Cast", 21, [four], [np.array([-1, 1, 7, -8]).astype(np.uint64)], to=13)
    golden("cast_int2_uint16", "Cast", 25, [(26, [3], bytes([0x1B]))], [np.array([65535, 65534, 1], np.uint16)], to=4)      # -1, -2, 1
    data, update = np.array([0, 1, 2, 3], f), np.array([1, NAN, 5, 2], f)
    for how, y in (("max", [1, NAN, 5, 3]), ("min", [0, NAN, 2, 2])):
        golden(f"scatter_{how}_nan", "ScatterElements", 18, [data, np.arange(4), update], [np.array(y, f)], reduction=how)
        golden(f"scatter_nd_{how}_nan", "ScatterND", 18, [data, np.arange(4)[:, None], update], [np.array(y, f)], reduction=how)
    sizes = np.array([1, 2], i)        # weights 3, 3, 1 and 1, 3, 3 of 7: 12/7 and 32/7
    given = [np.array([[1, 2, 3, 7]], np.uint8), None, None, sizes]
    golden("resize_rounds", "Resize", 18, given, [np.array([[2, 5]], np.uint8)], mode="linear", antialias=1)
    golden("hardmax_of_none", "Hardmax", 13, [np.zeros((5, 0, 3), f)], [np.zeros((5, 0, 3), f)], axis=0)
    golden("hardmax_of_none_11", "Hardmax", 11, [np.zeros((5, 0, 3), f)], [np.zeros((5, 0, 3), f)], axis=1)
    golden("thresholded_relu_nan", "ThresholdedRelu", 22, [np.array([NAN, INF, -INF, 1, 2], f)], [np.array([0, INF, 0, 0, 2], f)])


quantised()
reduced()
others()
