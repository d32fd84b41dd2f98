"""Golden data of the operators for which ONNX ships a function body: bodies.py DIR [SEED [CASES]]

Every operator whose body depends on attributes and types (`get_context_dependent_function`) and those whose body does not, with attributes,
shapes, types and missing inputs drawn from a seed.  Expected is what ONNX Runtime, or else onnx.reference, computes of the nodes of the body: not of the operator.
A folder for each case in the layout of ONNX's tests, for `dpexec check`; prints how many of each operator were computed by whom.  Fails
when an operator of the newest opset has a body and no case.
"""
import collections
import json
import pathlib
import random
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, defs, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
INTS = (TensorProto.INT32, TensorProto.INT64)
HALVES = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
# Relative: what one rounding to 16 bits may be off where steps in between are rounded, too.
RTOL = {TensorProto.FLOAT16: 2.0 ** -9, TensorProto.BFLOAT16: 2.0 ** -6}
# Types that the schema or the evaluators do not have, and bfloat16 where onnx.reference has other shapes or weights than ONNX Runtime of float16.
UNTYPED = {"Celu": (TensorProto.DOUBLE, *HALVES), "LinearAttention": (TensorProto.DOUBLE,), "CausalConvWithState": (TensorProto.DOUBLE,),
           "RotaryEmbedding": (TensorProto.DOUBLE,), "AffineGrid": (TensorProto.DOUBLE, *HALVES),
           "MeanVarianceNormalization": (TensorProto.DOUBLE, *HALVES), **{n: (TensorProto.BFLOAT16,) for n in ("Attention", "NegativeLogLikelihoodLoss", "Range", "SoftmaxCrossEntropyLoss")}}
ELSEWHERE = {"FlexAttention": "tests/cli/flex_attention.sh"}

OPTIONS = onnxruntime.SessionOptions()
OPTIONS.log_severity_level, OPTIONS.intra_op_num_threads = 4, 1

made = collections.Counter()
rng = random.Random()
numbers = np.random.default_rng()


def pick(*of):
    return rng.choice(of)


def array(kind, *shape, low=-2.0, high=2.0):
    """Numbers that the type holds."""
    x = np.asarray(numbers.uniform(low, high, shape))
    if kind in (TensorProto.FLOAT, TensorProto.DOUBLE, *HALVES):
        return np.asarray(np.round(x * 64) / 64).astype(helper.tensor_dtype_to_np_dtype(kind))
    return np.asarray(np.round(x)).astype(helper.tensor_dtype_to_np_dtype(kind))


def attributes(**given):
    """Those that are not None."""
    return {k: v for k, v in given.items() if v is not None}


def sizes(least, most, largest=4):
    return [rng.randint(1, largest) for _ in range(rng.randint(least, most))]


# ---- a function for each operator: -> attributes, inputs (None: left out), number of outputs ----

def linear_attention(t):
    rule = pick("linear", "gated", "delta", "gated_delta", None)
    b, steps, kv, group, dk, dv = rng.randint(1, 2), rng.randint(1, 5), rng.randint(1, 2), rng.randint(1, 2), rng.randint(1, 4), rng.randint(1, 3)
    small = dict(low=-0.75, high=0.75)
    decays = rule in ("gated", "gated_delta", None)
    updates = rule in ("delta", "gated_delta", None)
    inputs = [array(t, b, steps, kv * group * dk, **small), array(t, b, steps, kv * dk, **small), array(t, b, steps, kv * dv, **small),
              array(t, b, kv, dk, dv, **small) if pick(0, 1) else None,
              array(t, b, steps, kv * pick(1, dk), low=-1, high=0) if decays else None,
              array(t, b, steps, pick(kv, 1), low=0, high=1) if updates else None]
    return attributes(update_rule=rule, q_num_heads=kv * group, kv_num_heads=kv, scale=pick(None, 0.5), chunk_size=pick(None, 2)), inputs, 2


def causal_conv(t):
    b, c, length, k = rng.randint(1, 2), rng.randint(1, 4), rng.randint(1, 6), rng.randint(1, 4)
    return attributes(activation=pick(None, "silu", "swish", "none")), [
        array(t, b, c, length), array(t, c, 1, k), array(t, c) if pick(0, 1) else None, array(t, b, c, k - 1) if k > 1 and pick(0, 1) else None], 2


def rotary(t):
    b, heads, length, size = rng.randint(1, 2), rng.randint(1, 3), rng.randint(1, 4), 2 * rng.randint(1, 4)
    part = pick(None, 2 * rng.randint(1, size // 2))
    half, flat, ids = (part or size) // 2, pick(0, 1), pick(0, 1)
    x = array(t, b, length, heads * size) if flat else array(t, b, heads, length, size)
    table = (7, half) if ids else (b, length, half)
    at = numbers.integers(0, 7, (b, length)) if ids else None
    return attributes(interleaved=pick(None, 0, 1), rotary_embedding_dim=part, num_heads=heads if flat else None), [
        x, array(t, *table, low=-1, high=1), array(t, *table, low=-1, high=1), at], 1


def attention(t):
    b, kv, group, q, past, k, d, dv = [rng.randint(1, n) for n in (2, 2, 2, 4, 3, 4, 4, 3)]
    flat, mode = pick(0, 1), pick("plain", "past", "cache", "plain")
    past = past if mode == "past" else 0
    shape = (lambda heads, n, size: (b, n, heads * size)) if flat else (lambda heads, n, size: (b, heads, n, size))
    total = past + k
    lead = pick((), (1,), (kv * group,), (b, 1), (1, kv * group))
    causal = pick(None, 0, 1)
    if mode == "cache":     # the body of 1.22 counts queries from the first key then, which 1.23 calls an error
        causal = None
    kind = pick(None, t, TensorProto.BOOL)
    if kind and (causal or mode == "cache"):    # the body adds float32 to it
        kind = pick(TensorProto.FLOAT, TensorProto.BOOL)
    mask = kind and array(kind, *lead, q, rng.randint(1, total) if pick(0, 0, 1) and mode != "cache" else total)
    if kind == TensorProto.BOOL:
        mask = numbers.random(mask.shape) < 0.75
        mask[..., 0] = True
    inputs = [array(t, *shape(kv * group, q, d)), array(t, *shape(kv, k, d)), array(t, *shape(kv, k, dv)), mask,
              array(t, b, kv, past, d) if past else None, array(t, b, kv, past, dv) if past else None,
              numbers.integers(1, k + 1, b) if mode == "cache" else None]
    outputs = 4 if mode == "past" and pick(0, 1) else 3 if mode == "past" else 1
    precision = pick(None, None, TensorProto.FLOAT, TensorProto.DOUBLE) if outputs < 4 else None    # with it the body's fourth is of another type
    return attributes(is_causal=causal, scale=pick(None, 0.5), softcap=pick(None, 0.0, 1.5), softmax_precision=precision,
                      qk_matmul_output_mode=pick(0, 1, 2, 3) if outputs == 4 else None,
                      q_num_heads=kv * group if flat else None, kv_num_heads=kv if flat else None), inputs, outputs


def group_norm(t):
    groups, each, rest = rng.randint(1, 3), rng.randint(1, 3), sizes(1, 3)
    c = groups * each
    return attributes(num_groups=groups, epsilon=pick(None, 0.0078125)), [array(t, rng.randint(1, 3), c, *rest), array(t, c), array(t, c)], 1


def layer_norm(t):
    """Mean and InvStdDev of float64 are float64 with us, which is what they are computed in, and float32 in the body."""
    shape = sizes(1, 4)
    axis = rng.randrange(-len(shape), len(shape))
    return attributes(axis=pick(axis, axis), epsilon=pick(None, 0.0078125)), [
        array(t, *shape), array(t, *shape[axis:]), array(t, *shape[axis:]) if pick(0, 1) else None], 1 if t == TensorProto.DOUBLE else pick(1, 3)


def rms_norm(t):
    shape = sizes(1, 4)
    axis = rng.randrange(-len(shape), len(shape))
    return attributes(axis=axis, epsilon=pick(None, 0.0078125)), [array(t, *shape), array(t, *shape[axis:])], 1


def loss(t, logits):
    n, c, rest = rng.randint(1, 3), rng.randint(2, 5), sizes(0, 2)
    ignored = pick(None, 0, 1, -1, -100)
    labels = numbers.integers(0, c, (n, *rest)).astype(pick(np.int32, np.int64))
    if ignored is not None and labels.size > 1:
        labels.flat[0], labels.flat[1] = ignored, (ignored + 1) % c
    scores = array(t, n, c, *rest) if logits else array(t, n, c, *rest, low=-4, high=0)
    return attributes(reduction=pick(None, "none", "sum", "mean"), ignore_index=ignored), [
        scores, labels, array(t, c, low=0.25, high=2) if pick(0, 1) else None], pick(1, 2) if logits else 1


def center(t):
    shape = sizes(1, 4, 5)
    axes = pick(None, rng.sample(range(len(shape)), rng.randint(1, len(shape))))
    axes = axes and [a - len(shape) * pick(0, 1) for a in axes]
    return attributes(axes=axes), [array(pick(t, *INTS, TensorProto.BOOL), *shape),
                                   numbers.integers(1, 7, len(axes or shape))], 1     # the body mixes int32 with int64


def ranges(t):
    t = pick(t, *INTS, TensorProto.INT16)
    step = pick(1, 2, -1, -3) if t in (*INTS, TensorProto.INT16) else pick(0.5, 1, -0.25, -1.5)
    start = pick(-2, 0, 3)
    limit = start + step * rng.randint(-1, 6)
    return {}, [np.array(v).astype(helper.tensor_dtype_to_np_dtype(t)) for v in (start, limit, step)], 1


def clip(t):
    t = pick(t, *INTS, TensorProto.UINT8)
    low = 0 if t == TensorProto.UINT8 else -9
    bounds = [array(t, low=max(low, -1), high=1), array(t, low=1, high=3)]
    return {}, [array(t, *sizes(0, 3), low=low, high=9), *[v if pick(0, 1) else None for v in bounds]], 1


def softmax(t):
    shape = sizes(1, 4)
    return attributes(axis=pick(None, rng.randrange(-len(shape), len(shape)))), [array(t, *shape)], 1


def bernoulli(t):
    """Probabilities of 0 and 1, which leave nothing to chance."""
    dtype = pick(None, *FLOATS, *INTS, TensorProto.BOOL)
    return attributes(dtype=dtype, seed=pick(None, 1.5)), [np.round(array(t, *sizes(1, 3), low=0, high=1).astype(float)).astype(helper.tensor_dtype_to_np_dtype(t))], 1


def cast_like(t):
    """Numbers that both types hold: what becomes of others, the specification leaves open."""
    every = (*FLOATS, *INTS, TensorProto.BOOL, TensorProto.UINT8, TensorProto.INT16, TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2)
    to = pick(*every)
    return attributes(saturate=pick(None, 1)), [array(pick(t, *INTS, TensorProto.INT8), *sizes(0, 3), low=0 if to == TensorProto.UINT8 else -90, high=90),
                                                array(to, *sizes(0, 2), low=0, high=1)], 1


def sequence_map(_):
    t, n = TensorProto.FLOAT, rng.randint(0, 3)
    value = helper.make_tensor_value_info
    op = pick("Add", "Mul", "Sub")
    more = pick("none", "tensor", "sequence")
    names = ["u"] + ["v"] * (more != "none")
    body = helper.make_graph([helper.make_node(op, [names[0], names[-1]], ["w"]), helper.make_node("Shape", ["u"], ["s"])][:pick(1, 2)], "body",
                             [value(x, t, None) for x in names], [value("w", t, None)])
    if any(node.op_type == "Shape" for node in body.node):
        body.output.append(value("s", TensorProto.INT64, None))
    each = [array(t, *sizes(1, 1)) for _ in range(n)]
    extra = {"none": [], "tensor": [array(t, 1)], "sequence": [[array(t, 1) for _ in range(n)]]}[more]
    return {"body": body}, [each, *extra], len(body.output)


def elementwise(low=-3.0, high=3.0, rank=0, **names):
    def of(t):
        return {k: v for k, v in ((k, pick(None, *v)) for k, v in names.items()) if v is not None}, [array(t, *sizes(rank, 4), low=low, high=high)], 1
    return of


def compared(t):
    t, shape = pick(t, *INTS), sizes(1, 3)
    return {}, [array(t, *shape), array(t, *[pick(1, n) for n in shape[pick(0, 1) if len(shape) > 1 else 0:]])], 1


def prelu(t):
    shape = sizes(1, 3)
    return {}, [array(t, *shape), array(t, *[pick(1, n) for n in shape[rng.randrange(len(shape)):]])], 1


def reduce(low, *kinds):
    def of(t):
        t, shape = pick(t, *kinds), sizes(1, 4)
        axes = pick(None, np.array(rng.sample(range(-len(shape), 0), rng.randint(1, len(shape))), np.int64), np.array([], np.int64))
        return attributes(keepdims=pick(None, 0, 1), noop_with_empty_axes=pick(None, 0, 1)), [array(t, *shape, low=low), axes], 1
    return of


def window(_):
    return attributes(periodic=pick(None, 0, 1), output_datatype=pick(None, TensorProto.FLOAT, TensorProto.DOUBLE)), [np.array(rng.randint(1, 9), pick(np.int32, np.int64))], 1


def affine(t):
    space, n = pick(2, 3), rng.randint(2, 3)    # of a single sample the body squeezes too much
    return attributes(align_corners=pick(None, 0, 1)), [array(t, n, space, space + 1), np.array([n, 2, *[rng.randint(2, 4) for _ in range(space)]])], 1


def moments(t):
    shape = sizes(4, 4)
    return attributes(axes=pick(None, rng.sample(range(4), rng.randint(1, 4)))), [array(t, *shape[:-1], shape[-1] + 3)], 1


def quantized(_):
    return {}, [array(TensorProto.FLOAT, *sizes(1, 3, 6), low=pick(-3, 0, 1), high=5)], 3


CASES = {
    "LinearAttention": linear_attention, "CausalConvWithState": causal_conv, "RotaryEmbedding": rotary, "Attention": attention,
    "GroupNormalization": group_norm, "LayerNormalization": layer_norm, "RMSNormalization": rms_norm, "CenterCropPad": center, "Range": ranges,
    "Clip": clip, "Softmax": softmax, "LogSoftmax": softmax, "Bernoulli": bernoulli, "CastLike": cast_like, "SequenceMap": sequence_map,
    "SoftmaxCrossEntropyLoss": lambda t: loss(t, True), "NegativeLogLikelihoodLoss": lambda t: loss(t, False),
    "Celu": elementwise(rank=1, alpha=(0.5, 2.0)), "Gelu": elementwise(approximate=("none", "tanh")),
    "Mish": elementwise(), "Softplus": elementwise(), "Softsign": elementwise(), "HardSwish": elementwise(), "Relu": elementwise(),
    "Swish": elementwise(alpha=(0.5, 1.5)), "LeakyRelu": elementwise(alpha=(0.25,)), "Elu": elementwise(alpha=(0.5,)),
    "Selu": elementwise(alpha=(1.5,), gamma=(1.25,)), "HardSigmoid": elementwise(alpha=(0.25,), beta=(0.25,)),
    "ThresholdedRelu": elementwise(alpha=(0.5,)), "Shrink": elementwise(lambd=(1.0,), bias=(0.25,)),
    "GreaterOrEqual": compared, "LessOrEqual": compared, "PRelu": prelu,
    "ReduceL1": reduce(-2, *INTS), "ReduceL2": reduce(-2), "ReduceSumSquare": reduce(-2, *INTS), "ReduceLogSum": reduce(0.5), "ReduceLogSumExp": reduce(-2),
    "BlackmanWindow": window, "HammingWindow": window, "HannWindow": window, "AffineGrid": affine, "MeanVarianceNormalization": moments,
    "DynamicQuantizeLinear": quantized,
}


# ---- the body, evaluated ----

def type_of(x):
    if isinstance(x, list):
        return helper.make_sequence_type_proto(helper.make_tensor_type_proto(type_number(x[0]) if x else TensorProto.FLOAT, None))
    return helper.make_tensor_type_proto(type_number(x), x.shape)


def type_number(x):
    return helper.np_dtype_to_tensor_dtype(x.dtype)


def body_of(schema, node, types):
    if schema.has_context_dependent_function:
        text = schema.get_context_dependent_function(node.SerializeToString(), [t.SerializeToString() for t in types])
    else:
        return schema.function_body
    return onnx.FunctionProto.FromString(text)


def bound(nodes, attrs, absent):
    """The body's nodes with the attributes that they refer to, and without inputs that are not there."""
    for node in nodes:
        for i, name in enumerate(node.input):
            node.input[i] = "" if name in absent else name
        while node.input and not node.input[-1]:
            node.input.pop()
        for a in list(node.attribute):
            if a.ref_attr_name:
                node.attribute.remove(a)
                if a.ref_attr_name in attrs:
                    node.attribute.append(helper.make_attribute(a.name, attrs[a.ref_attr_name]))
            for g in [a.g, *a.graphs]:
                bound(g.node, attrs, absent)


def defaults(schema):
    return {k: helper.get_attribute_value(a.default_value) for k, a in schema.attributes.items() if a.default_value.name}


def expected(schema, node, inputs, types, attrs):
    """What the nodes of the body give: by ONNX Runtime, or what it does not take, by onnx.reference.  -> the evaluator, values"""
    body = body_of(schema, node, types)
    bound(body.node, defaults(schema) | attrs, {i.name for i in schema.inputs} - set(node.input))
    opset = [o for o in body.opset_import if not o.domain] or [helper.make_opsetid("", schema.since_version)]
    graph = helper.make_graph(body.node, "body", [helper.make_value_info(n, t) for n, t in zip(node.input, types) if n],
                              [helper.make_value_info(n, onnx.TypeProto()) for n in node.output])
    model = helper.make_model(graph, opset_imports=opset, ir_version=10)
    fed = {n: x for n, x in zip(node.input, inputs) if n}
    try:
        types = onnx.shape_inference.infer_shapes(model)
        session = onnxruntime.InferenceSession(types.SerializeToString(), OPTIONS, providers=["CPUExecutionProvider"])
        return "ONNX Runtime", session.run(None, fed)
    except Exception:       # an operator, a type or an opset that it has not
        return "onnx.reference", ReferenceEvaluator(model).run(None, fed)


def write(path, x):
    proto = numpy_helper.from_list(x) if isinstance(x, list) else numpy_helper.from_array(np.asarray(x))
    if isinstance(x, list) and not x:
        proto.elem_type = onnx.SequenceProto.TENSOR
    path.write_bytes(proto.SerializeToString())


def save(folder, schema, attrs, inputs, n_out):
    while inputs and inputs[-1] is None:
        inputs = inputs[:-1]
    formal, given = ([p.name for p in of] for of in (schema.inputs, schema.outputs))
    if schema.name == "SequenceMap":
        formal, given = formal[:1] + ["additional_inputs_1"], [f"out_sequence_{i}" for i in range(n_out)]
    names = [n if x is not None else "" for n, x in zip(formal, inputs)]
    node = helper.make_node(schema.name, names, given[:n_out], **attrs)
    types = [type_of(x) if x is not None else onnx.TypeProto() for x in inputs]
    by, ys = expected(schema, node, inputs, types, attrs)
    if schema.name == "Bernoulli":  # its body compares the wrong way round: 1 where the random number is the larger
        ys = [(1 - y.astype(int)).astype(y.dtype) for y in ys]
    made[schema.name, by] += 1
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    there = [(n, t, x) for n, t, x in zip(names, types, inputs) if n]
    graph = helper.make_graph([node], schema.name, [helper.make_value_info(n, t) for n, t, _ in there],
                              [helper.make_value_info(n, type_of(y)) for n, y in zip(node.output, ys)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", defs.onnx_opset_version())], ir_version=10), folder / "model.onnx")
    for i, (_, _, x) in enumerate(there):
        write(data / f"input_{i}.pb", x)
    for i, y in enumerate(ys):
        write(data / f"output_{i}.pb", y)
    kinds = {type_number(x) for x in inputs if isinstance(x, np.ndarray)}
    if kinds & set(HALVES):
        (folder / "data.json").write_text(json.dumps({"rtol": max(RTOL[k] for k in kinds & set(HALVES)), "atol": 1e-2}))
    else:
        (folder / "data.json").write_text(json.dumps({"rtol": 1e-3, "atol": 1e-5}))


def main():
    out, seed, rounds = pathlib.Path(sys.argv[1]), int((sys.argv[2:3] or ["1"])[0]), int((sys.argv[3:4] or ["20"])[0])
    newest = {s.name: s for s in defs.get_all_schemas() if s.domain in ("", "ai.onnx.preview") and not s.deprecated}
    bodies = {n for n, s in newest.items() if s.has_function or s.has_context_dependent_function}
    missing = bodies - set(CASES) - set(ELSEWHERE)
    if missing or set(CASES) - bodies:
        sys.exit(f"a body and no case: {sorted(missing)}; a case and no body: {sorted(set(CASES) - bodies)}")
    for name, make in CASES.items():
        rng.seed(f"{seed} {name}")
        globals()["numbers"] = np.random.default_rng([seed, *name.encode()])
        for i in range(rounds):
            case = make(pick(*[t for t in FLOATS if t not in UNTYPED.get(name, ())]))
            try:
                save(out / f"{name}_{i}", newest[name], *case)
            except Exception:       # a body that its own types forbid, or that neither evaluator takes
                made[name, "none"] += 1
        if made[name, "none"] > rounds // 4:
            sys.exit(f"{name}: neither evaluator takes {made[name, 'none']} of {rounds} bodies")
    print(*(f"{k}, by {by}: {v}" for (k, by), v in made.items()), sep="\n")


if __name__ == "__main__":
    main()
