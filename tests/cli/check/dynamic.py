"""Golden data of what depends on data: control flow, sequences, optionals, shapes.  What is expected is written out in Python.

dynamic.py DIR makes the folders; dynamic.py DIR --runtime compares with ONNX Runtime instead what that can run."""
import os
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

N, F, I, B = helper.make_node, TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
rng = np.random.default_rng(3)


def tensor(name, dtype=F, shape=None):
    return helper.make_tensor_value_info(name, dtype, shape)


def sequence(name, dtype=F):
    return helper.make_tensor_sequence_value_info(name, dtype, None)


def const(name, value, dtype=np.int64):
    return N("Constant", [], [name], value=numpy_helper.from_array(np.array(value, dtype)))


def body(nodes, inputs, outputs):
    return helper.make_graph(nodes, "body", inputs, outputs)


def message(value):
    """A TensorProto, or a SequenceProto field by field: name 1, elem_type 2 (1: tensors), tensor_values 3."""
    if not isinstance(value, list):
        return numpy_helper.from_array(np.asarray(value)).SerializeToString()

    def varint(n):
        return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)
    parts = [numpy_helper.from_array(np.asarray(v)).SerializeToString() for v in value]
    return b"\x10\x01" + b"".join(b"\x1a" + varint(len(p)) + p for p in parts)


def same(found, expected):
    if isinstance(expected, list):
        return len(found) == len(expected) and all(same(f, e) for f, e in zip(found, expected))
    return found.dtype == expected.dtype and found.shape == expected.shape and np.allclose(found, expected, 1e-5, 1e-6)


def golden(name, nodes, inputs, outputs, given, expected, opset=17):
    model = helper.make_model(helper.make_graph(nodes, name, inputs, outputs), opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    expected = [e if isinstance(e, list) else np.asarray(e) for e in expected]
    if "--runtime" in sys.argv:
        import onnxruntime
        onnxruntime.set_default_logger_severity(3)
        try:
            session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
            found = session.run(None, {i.name: v if isinstance(v, list) else np.asarray(v) for i, v in zip(inputs, given)})
        except Exception as e:  # what it does not do
            print(f"{name}: not by ONNX Runtime: {str(e)[:150]}")
            return
        if not all(same(f, e) for f, e in zip(found, expected)):
            sys.exit(f"{name}: {found} and {expected}")
        return
    data = os.path.join(sys.argv[1], name, "test_data_set_0")
    os.makedirs(data)
    save(model, os.path.join(sys.argv[1], name, "model.onnx"))
    for kind, values in (("input", given), ("output", expected)):
        for i, v in enumerate(values):
            with open(os.path.join(data, f"{kind}_{i}.pb"), "wb") as f:
                f.write(message(v))


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


# ---- If ----
# y = sum(x) > 0 ? x w : x[0], whose shapes differ; a nested one captures through both.
x = floats(3, 4)
for name, given in (("if_taken", np.abs(x)), ("if_other", -np.abs(x))):
    for big in (True, False):
        scaled = given if big else given / 1000
        inner = N("If", ["large"], ["z"], then_branch=body([N("Add", ["p", "p"], ["a"])], [], [tensor("a")]),
                  else_branch=body([N("Sub", ["p", "x"], ["b"])], [], [tensor("b")]))
        golden(f"{name}_{big}", [
            N("ReduceSum", ["x"], ["s"], keepdims=0), const("zero", 0, np.float32), const("one", 1, np.float32), N("Greater", ["s", "zero"], ["c"]),
            N("Greater", ["s", "one"], ["large"]),
            N("If", ["c"], ["y"], then_branch=body([const("two", 2, np.float32), N("Mul", ["x", "two"], ["p"]), inner], [], [tensor("z")]),
              else_branch=body([const("i", 0), N("Gather", ["x", "i"], ["g"])], [], [tensor("g")]))],
            [tensor("x", F, [3, 4])], [tensor("y")], [scaled],
            [scaled[0] if scaled.sum() < 0 else scaled * 4 if scaled.sum() > 1 else scaled])

# ---- Loop ----
# Doubles x until its sum reaches a limit that is given, at most m times; each trip keeps x and its number.
def doubled(x, limit, m):
    kept = []
    while len(kept) < m and x.sum() < limit:
        x = x * 2
        kept.append(x)
    return x, np.array(kept, np.float32).reshape(-1, *x.shape), np.arange(len(kept))


loop = body([N("Add", ["v", "v"], ["w"]), N("ReduceSum", ["w"], ["s"], keepdims=0), N("Less", ["s", "limit"], ["go"]),
             N("Identity", ["w"], ["kept"]), N("Identity", ["i"], ["number"])],
            [tensor("i", I, []), tensor("c", B, []), tensor("v", F, [2, 3])],
            [tensor("go", B, []), tensor("w", F, [2, 3]), tensor("kept", F, [2, 3]), tensor("number", I, [])])
start = np.abs(floats(2, 3))
for opset in (11, 13, 17, 21):
    for limit, m in ((100, 50), (100, 3), (0, 50), (100, 0)):
        golden(f"loop_{opset}_{limit}_{m}", [
            N("ReduceSum", ["x"], ["t"], keepdims=0), N("Less", ["t", "limit"], ["first"]),
            N("Loop", ["m", "first", "x"], ["y", "all", "numbers"], body=loop)],
            [tensor("x", F, [2, 3]), tensor("limit", F, []), tensor("m", I, [])], [tensor("y"), tensor("all"), tensor("numbers", I)],
            [start, np.float32(limit), np.int64(m)], doubled(start, limit, m), opset)

# Without a trip count, and without a condition; nested, the inner one as long as the outer's trip; y = sum i sum j<i x.
inner = N("Loop", ["i", "", "v"], ["u"], body=body(
    [N("Identity", ["c2"], ["go2"]), N("Add", ["v2", "x"], ["w2"])],
    [tensor("j", I, []), tensor("c2", B, []), tensor("v2", F, [4])], [tensor("go2", B, []), tensor("w2", F, [4])]))
x = floats(4)
golden("loop_nested", [N("Loop", ["m", "", "x"], ["y"], body=body(
    [inner, N("Identity", ["c"], ["go"])], [tensor("i", I, []), tensor("c", B, []), tensor("v", F, [4])],
    [tensor("go", B, []), tensor("u", F, [4])]))],
    [tensor("x", F, [4]), tensor("m", I, [])], [tensor("y")], [x, np.int64(5)], [x * 11])
golden("loop_while", [const("true", True, bool), N("Loop", ["", "true", "n"], ["y"], body=body(
    [const("one", 1), const("zero", 0), N("Sub", ["k", "one"], ["next"]), N("Greater", ["next", "zero"], ["go"])],
    [tensor("i", I, []), tensor("c", B, []), tensor("k", I, [])], [tensor("go", B, []), tensor("next", I, [])]))],
    [tensor("n", I, [])], [tensor("y", I)], [np.int64(700)], [np.int64(0)])
# A sequence grows by x's first k rows, of which the k-th trip takes as many.
x = floats(5, 2)
golden("loop_sequence", [
    N("SequenceEmpty", [], ["empty"], dtype=F), N("Loop", ["m", "", "empty"], ["y"], body=body(
        [const("one", [1]), const("zero", [0]), N("Reshape", ["i", "one"], ["k"]), N("Slice", ["x", "zero", "k"], ["rows"]),
         N("SequenceInsert", ["s", "rows"], ["t"]), N("Identity", ["c"], ["go"])],
        [tensor("i", I, []), tensor("c", B, []), sequence("s")], [tensor("go", B, []), sequence("t")])),
    N("ConcatFromSequence", ["y"], ["z"], axis=0), N("SequenceLength", ["y"], ["n"])],
    [tensor("x", F, [5, 2]), tensor("m", I, [])], [sequence("y"), tensor("z"), tensor("n", I)], [x, np.int64(4)],
    [[x[:0], x[:1], x[:2], x[:3]], np.concatenate([x[:0], x[:1], x[:2], x[:3]]), np.int64(4)])

# ---- Scan ----
# A running sum of a times b along other axes and in other directions, of as many steps as data say.
a, b = floats(6, 3), floats(3, 6)
for opset in (9, 11, 16, 21):
    for back in (0, 1):
        n = 4
        state, kept = np.zeros(3, np.float32), []
        for t in range(n):
            state = state + a[:n][n - 1 - t if back else t] * b[:, :n][:, t]
            kept.append(state)
        golden(f"scan_{opset}_{back}", [
            N("Slice", ["a", "zero", "n", "zero"], ["p"]) if opset > 9 else N("Slice", ["a"], ["p"], starts=[0], ends=[n]),
            N("Slice", ["b", "zero", "n", "one"], ["q"]) if opset > 9 else N("Slice", ["b"], ["q"], axes=[1], starts=[0], ends=[n]),
            N("Scan", ["start", "p", "q"], ["last", "all"], num_scan_inputs=2, scan_input_axes=[0, 1], scan_input_directions=[back, 0],
              scan_output_axes=[1], scan_output_directions=[1 - back], body=body(
                  [N("Mul", ["u", "v"], ["uv"]), N("Add", ["state", "uv"], ["next"]), N("Identity", ["next"], ["kept"])],
                  [tensor("state", F, [3]), tensor("u", F, [3]), tensor("v", F, [3])], [tensor("next", F, [3]), tensor("kept", F, [3])]))],
            [tensor("start", F, [3]), tensor("a", F, ["t", 3]), tensor("b", F, [3, "t"]), tensor("zero", I, [1]), tensor("n", I, [1]),
             tensor("one", I, [1])], [tensor("last"), tensor("all")],
            [np.zeros(3, np.float32), a, b, np.array([0]), np.array([n]), np.array([1])],
            [state, np.stack(kept if back else kept[::-1], 1)], opset)

# The form of opset 8, for each sample of a batch along axis 1; behind a sample's length its outputs are not told.
a, start = floats(2, 4, 3), floats(2, 3)
for back in (0, 1):
    order = a[:, ::-1] if back else a
    kept = start[:, None] + np.cumsum(order, 1, dtype=np.float32)
    golden(f"scan_8_{back}", [N("Scan", ["", "start", "a"], ["last", "all"], num_scan_inputs=1, directions=[back], body=body(
        [N("Add", ["state", "u"], ["next"]), N("Identity", ["next"], ["kept"])],
        [tensor("state", F, [3]), tensor("u", F, [3])], [tensor("next", F, [3]), tensor("kept", F, [3])]))],
        [tensor("start", F, [2, 3]), tensor("a", F, [2, 4, 3])], [tensor("last", F, [2, 3]), tensor("all", F, [2, 4, 3])],
        [start, a], [kept[:, -1], kept], 8)
lengths = np.array([2, 4])
kept = start[:, None] + np.cumsum(a, 1, dtype=np.float32)
last = np.stack([kept[0, 1], kept[1, 3]])
kept[0, 2:] = 0
golden("scan_8_lengths", [N("Scan", ["lengths", "start", "a"], ["last", "all"], num_scan_inputs=1, body=body(
    [N("Add", ["state", "u"], ["next"]), N("Identity", ["next"], ["kept"])],
    [tensor("state", F, [3]), tensor("u", F, [3])], [tensor("next", F, [3]), tensor("kept", F, [3])]))],
    [tensor("lengths", I, [2]), tensor("start", F, [2, 3]), tensor("a", F, [2, 4, 3])], [tensor("last", F, [2, 3]), tensor("all", F, [2, 4, 3])],
    [lengths, start, a], [last, kept], 8)

# ---- sequences and optionals ----
parts = [floats(n, 2) for n in (2, 0, 3)]
golden("sequence_map", [
    N("SequenceMap", ["s", "w"], ["t", "rows"], body=body(
        [N("Mul", ["u", "v"], ["p"]), N("Add", ["p", "b"], ["q"]), N("Shape", ["u"], ["r"])],
        [tensor("u", F, [None, 2]), tensor("v", F, [2])], [tensor("q"), tensor("r", I)])), N("SequenceLength", ["rows"], ["n"])],
    [sequence("s"), tensor("w", F, [2]), tensor("b", F, [2])], [sequence("t"), sequence("rows", I), tensor("n", I)],
    [parts, np.array([2, 3], np.float32), np.array([1, 5], np.float32)],
    [[p * np.array([2, 3], np.float32) + np.array([1, 5], np.float32) for p in parts], [np.array(p.shape) for p in parts], np.int64(3)])
edited = [parts[0], parts[2], x[:3]]
golden("sequence_edit", [
    N("SequenceErase", ["s", "at"], ["t"]), N("SequenceInsert", ["t", "x"], ["u"]), N("SequenceAt", ["u", "at"], ["y"]),
    N("SequenceConstruct", ["y", "x"], ["v"]), N("ConcatFromSequence", ["v"], ["z"], axis=-1, new_axis=1)],
    [sequence("s"), tensor("x", F, [3, 2]), tensor("at", I, [])], [sequence("u"), tensor("y"), tensor("z")],
    [parts, x[:3], np.int64(-2)], [edited, edited[-2], np.stack([edited[-2], x[:3]], -1)])
sizes = np.array([1, 3, 0, 2])
x = floats(6, 4)
golden("split_by_data", [N("SplitToSequence", ["x", "sizes"], ["s"], axis=0), N("SequenceAt", ["s", "at"], ["y"])],
       [tensor("x", F, [6, 4]), tensor("sizes", I, [4]), tensor("at", I, [])], [sequence("s"), tensor("y")], [x, sizes, np.int64(1)],
       [[x[:1], x[1:4], x[4:4], x[4:]], x[1:4]])
golden("split_evenly_by_data", [N("SplitToSequence", ["x", "n"], ["s"], axis=1)], [tensor("x", F, [6, 4]), tensor("n", I, [])],
       [sequence("s")], [x, np.int64(3)], [[x[:, :3], x[:, 3:]]])
some = helper.make_optional_type_proto(helper.make_tensor_type_proto(F, None))
for holds in (True, False):
    pick = N("If", ["c"], ["o"], then_branch=body([N("Optional", ["x"], ["a"])], [], [helper.make_value_info("a", some)]),
             else_branch=body([N("Optional", [], ["b"], type=helper.make_tensor_type_proto(F, None))], [], [helper.make_value_info("b", some)]))
    golden(f"optional_{holds}", [
        pick, N("OptionalHasElement", ["o"], ["has"]),
        N("If", ["has"], ["y"], then_branch=body([N("OptionalGetElement", ["o"], ["e"])], [], [tensor("e")]),
          else_branch=body([N("Neg", ["x"], ["m"])], [], [tensor("m")]))],
        [tensor("x", F, [6, 4]), tensor("c", B, [])], [tensor("has", B), tensor("y")], [x, np.array(holds)],
        [np.array(holds), x if holds else -x], 18)

# ---- shapes ----
# n = the largest number of a list that is given, [1]; what is made has a shape that follows from it.
numbers = np.array([1, 3, 2] * 30)
counted = [N("ReduceMax", ["numbers"], ["m"], keepdims=0), const("v1", [1]), const("v0", [0]), N("Reshape", ["m", "v1"], ["n"])]
x = floats(2, 3)


def shaped(name, nodes, expected, opset=17, dtype=F):
    golden(f"shape_{name}", counted + nodes, [tensor("x", F, [2, 3]), tensor("numbers", I, [90])], [tensor("y", dtype)], [x, numbers],
           [expected], opset)


shaped("reshape", [const("rest", [-1]), N("Concat", ["n", "rest"], ["s"], axis=0), N("Reshape", ["x", "s"], ["y"])], x.reshape(3, 2))
shaped("expand", [N("Unsqueeze", ["x", "v0"], ["u"]), N("Concat", ["n", "v1", "v1"], ["s"], axis=0), N("Expand", ["u", "s"], ["y"])],
       np.broadcast_to(x, (3, 2, 3)).copy())
shaped("range", [const("zero", 0), const("one", 1), N("Range", ["zero", "m", "one"], ["y"])], np.arange(3), dtype=I)
shaped("tile", [N("Concat", ["v1", "n"], ["s"], axis=0), N("Tile", ["x", "s"], ["y"])], np.tile(x, (1, 3)))
shaped("slice", [N("Sub", ["n", "v1"], ["k"]), N("Slice", ["x", "v1", "n", "v1"], ["y"])], x[:, 1:3])
shaped("pad", [N("Concat", ["v0", "n", "v1", "v0"], ["s"], axis=0), N("Pad", ["x", "s"], ["y"])], np.pad(x, ((0, 1), (3, 0))))
shaped("constant", [N("Concat", ["n", "v1"], ["s"], axis=0), N("ConstantOfShape", ["s"], ["y"])], np.zeros((3, 1), np.float32))
shaped("onehot", [const("at", [0, 2]), const("v", [0, 1], np.float32), N("OneHot", ["at", "m", "v"], ["y"])], np.eye(3, dtype=np.float32)[[0, 2]])
shaped("topk", [N("Sub", ["n", "v1"], ["k"]), N("TopK", ["x", "k"], ["y", "i"])], -np.sort(-x, 1)[:, :2])
shaped("resize", [N("Mul", ["n", "n"], ["k"]), N("Concat", ["v1", "k"], ["a"], axis=0), const("two", [2]), N("Concat", ["two", "k"], ["s"], axis=0),
                  N("Resize", ["x", "", "", "s"], ["y"], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")],
       np.repeat(x, 3, 1))
shaped("split", [N("Sub", ["n", "v1"], ["k"]), N("Concat", ["k", "v1"], ["s"], axis=0), N("Split", ["x", "s"], ["y", "z"], axis=1)], x[:, :2])
shaped("unsqueeze", [N("Sub", ["n", "v1"], ["k"]), N("Unsqueeze", ["x", "k"], ["y"])], x[:, :, None])
shaped("reduce", [N("Sub", ["n", "v1"], ["k"]), N("Sub", ["k", "v1"], ["a"]), N("ReduceSum", ["x", "a"], ["y"])], x.sum(1, keepdims=True), 18)
shaped("nonzero", [const("zero", 0, np.float32), N("Greater", ["x", "zero"], ["g"]), N("NonZero", ["g"], ["y"])], np.array(np.nonzero(x > 0)), dtype=I)
shaped("compress", [const("zero", 0, np.float32), N("Greater", ["x", "zero"], ["g"]), const("all", [-1]), N("Reshape", ["g", "all"], ["f"]),
                    N("Compress", ["x", "f"], ["y"])], x[x > 0])

# ---- outputs as long as data say ----
def chosen(boxes, scores, most, overlap, least, centers):
    """Greedy, box by box, in double: no share is near the threshold."""
    def corners(b):
        if centers:
            return b[0] - b[2] / 2, b[1] - b[3] / 2, b[0] + b[2] / 2, b[1] + b[3] / 2
        return min(b[0], b[2]), min(b[1], b[3]), max(b[0], b[2]), max(b[1], b[3])

    def share(a, b):
        a, b = corners(a), corners(b)
        both = max(0, min(a[2], b[2]) - max(a[0], b[0])) * max(0, min(a[3], b[3]) - max(a[1], b[1]))
        return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)
    out = []
    for n in range(scores.shape[0]):
        for c in range(scores.shape[1]):
            kept = []
            for i in sorted(range(scores.shape[2]), key=lambda i: (-scores[n, c, i], i)):
                if scores[n, c, i] > least and len(kept) < most and all(share(boxes[n, i], boxes[n, k]) <= overlap for k in kept):
                    kept.append(i)
            out += [(n, c, i) for i in kept]
    return np.array(out, np.int64).reshape(-1, 3)


for opset in (10, 11, 17):
    for centers in (0, 1):
        for most, overlap, least in ((5, 0.3, 0.2), (100, 0.7, 0.5), (0, 0.5, 0), (100, 0, 0.9)):
            boxes = rng.uniform(0, 1, (2, 80, 4)).astype(np.float32) * ([1, 1, 0.3, 0.3] if centers else 1)
            boxes = boxes.astype(np.float32)
            scores = rng.uniform(0, 1, (2, 3, 80)).astype(np.float32).round(2)  # of which some are equal
            golden(f"boxes_{opset}_{centers}_{most}_{overlap}", [N("NonMaxSuppression", ["b", "s", "m", "o", "l"], ["y"], center_point_box=centers)],
                   [tensor("b", F, [2, 80, 4]), tensor("s", F, [2, 3, 80]), tensor("m", I, []), tensor("o", F, []), tensor("l", F, [])], [tensor("y", I)],
                   [boxes, scores, np.int64(most), np.float32(overlap), np.float32(least)],
                   [chosen(boxes.astype(float), scores.astype(float), most, float(np.float32(overlap)), float(np.float32(least)), centers)], opset)
for name, x, axis in (("flat", rng.integers(-9, 9, (20, 5)), None), ("rows", rng.integers(0, 2, (70, 4)), 0), ("columns", rng.integers(0, 2, (3, 70)), -1),
                      ("floats", rng.integers(-3, 3, (30, 4)).astype(np.float32) / 2, 0), ("one", np.array([5]), None), ("none", np.zeros(0, np.int64), None)):
    y, first, group, count = np.unique(x, True, True, True, axis)
    for ordered in (1, 0):
        if not ordered:
            order = np.argsort(first)
            y, first, count = np.take(y, order, 0 if axis is None else axis), first[order], count[order]
            group = np.argsort(order)[group]
        kind = F if x.dtype == np.float32 else I
        golden(f"unique_{name}_{ordered}", [N("Unique", ["x"], ["y", "i", "g", "c"], sorted=ordered, **({} if axis is None else {"axis": axis}))],
               [tensor("x", kind, list(x.shape))], [tensor("y", kind), tensor("i", I), tensor("g", I), tensor("c", I)], [x],
               [y, first, group.reshape(-1), count])
for mode in ("TF", "IDF", "TFIDF"):
    for least, most, skips in ((1, 1, 0), (1, 3, 0), (2, 3, 2), (1, 3, 4), (3, 3, 1)):
        x = rng.integers(0, 4, (5, 9))
        pool = [[1], [3], [0, 1], [1, 1], [2, 3], [0, 1, 2], [3, 3, 0], [1, 0, 1]]
        columns, weights = rng.permutation(len(pool)), floats(len(pool))
        scale = np.ones(len(pool), np.float32) if mode == "TF" else weights[np.argsort(columns)]
        y = np.zeros((5, len(pool)), np.float32)
        for row, gram in ((row, gram) for row in range(5) for gram in pool if least <= len(gram) <= most):
            for step in range(1, skips + 2 if len(gram) > 1 else 2):
                for at in range(9 - step * (len(gram) - 1)):
                    y[row, columns[pool.index(gram)]] += list(x[row, at:at + step * len(gram):step][:len(gram)]) == gram
        y = np.minimum(y, 1) if mode == "IDF" else y
        for kind, dtype in ((I, np.int64), (TensorProto.INT32, np.int32)):
            golden(f"grams_{mode}_{least}_{most}_{skips}_{kind}", [N(
                "TfIdfVectorizer", ["x"], ["y"], mode=mode, min_gram_length=least, max_gram_length=most, max_skip_count=skips, ngram_counts=[0, 2, 8],
                ngram_indexes=[int(c) for c in columns], pool_int64s=[i for gram in pool for i in gram], weights=[float(w) for w in weights])],
                [tensor("x", kind, [5, 9])], [tensor("y")], [x.astype(dtype)], [y * scale])
