#!/usr/bin/env python3
"""Golden data of operators on strings, in the layout of ONNX's tests, into the folder given, and what must be refused into the
folder given second.

What is expected is computed by Python's str, re and numpy, or, where ONNX leaves open what they do (marked), is what ONNX Runtime
1.32 computes of the same model.
"""
import os
import re
import sys

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper

GOOD, BAD = sys.argv[1:]


def S(*v, shape=None):
    a = np.empty(len(v), object)
    a[:] = v
    return a if shape is None else a.reshape(shape)


def proto(a, name=""):
    a = np.asarray(a)
    if a.dtype != object:
        return numpy_helper.from_array(a, name)
    t = T(data_type=T.STRING, dims=a.shape, name=name)
    t.string_data.extend(x if isinstance(x, bytes) else x.encode() for x in a.ravel())
    return t


def info(a, name):
    a = np.asarray(a)
    return h.make_tensor_value_info(name, T.STRING if a.dtype == object else onnx.mapping.NP_TYPE_TO_TENSOR_TYPE[a.dtype]
                                    if hasattr(onnx, "mapping") else h.np_dtype_to_tensor_dtype(a.dtype), list(a.shape))


def write(to, name, nodes, inputs, outputs, initializers=()):
    folder = "%s/%s/test_data_set_0" % (to, name)
    os.makedirs(folder)
    graph = h.make_graph(nodes, name, [info(a, "x%d" % i) for i, a in enumerate(inputs)],
                         [info(a, "y%d" % i) for i, a in enumerate(outputs)], [proto(a, n) for n, a in initializers])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 20)])
    open(os.path.dirname(folder) + "/model.onnx", "wb").write(model.SerializeToString())
    for kind, values in (("input", inputs), ("output", outputs)):
        for i, a in enumerate(values):
            open("%s/%s_%d.pb" % (folder, kind, i), "wb").write(proto(a).SerializeToString())


def one(name, op, inputs, outputs, where=GOOD, **attributes):
    node = h.make_node(op, ["x%d" % i for i in range(len(inputs))], ["y%d" % i for i in range(len(outputs))],
                       **{k: v for k, v in attributes.items() if v != []})
    # Of which type an empty list is ONNX's helper does not know.
    node.attribute.extend(onnx.AttributeProto(name=k, type=onnx.AttributeProto.STRINGS) for k, v in attributes.items() if v == [])
    write(where, name, [node], inputs, outputs)


def split(name, x, by=None, most=-1, **attributes):
    parts = [s.split(by, most) for s in x.ravel()]
    wide = max(map(len, parts), default=0)
    y = S(*[p for of in parts for p in of + [""] * (wide - len(of))], shape=x.shape + (wide,))
    n = np.array([len(p) for p in parts], np.int64).reshape(x.shape)
    one(name, "StringSplit", [x], [y, n], **attributes)


WORDS = S("Monday", "élan", "", "ΣΊΣΥΦΟΣ", "naïve\u0000end", "日本", "\U0001f600")
one("concat", "StringConcat", [WORDS, S("x")], [S(*[w + "x" for w in WORDS])])
one("concat_rows", "StringConcat", [S("a", "b", "", shape=(3, 1)), S("", "é", shape=(1, 2))],
    [S("a", "aé", "b", "bé", "", "é", shape=(3, 2))])
one("equal", "Equal", [WORDS, S("Monday", "elan", "", "ΣΊΣΥΦΟΣ", "naïve\u0000END", "日本", "")],
    [np.array([True, False, True, True, False, True, False])])
one("equal_one", "Equal", [S("a", "", "a", "b", shape=(2, 2)), S("a", shape=())], [np.array([[True, False], [True, False]])])

for i, (pattern, texts) in enumerate((
        (r"(\W|^)[\w.\-]{0,25}@(yahoo|gmail)\.com(\W|$)", ("account@gmail.com", "account@hotmail.com", "not email")),
        (r"a|ab", ("ab", "a", "abc", "")), (r"[a-zé]+", ("élan", "Élan", "")), (r"(?i)straße|x", ("STRASSE", "strasse", "StraßE", "X")),
        (r"", ("", "a")), (r"a.c", ("abc", "a\nc", "a日c")), (r"(?s)a.c", ("a\nc", "ac")), (r"日{2,3}", ("日", "日日", "日日日日")))):
    one("match_%d" % i, "RegexFullMatch", [S(*texts)], [np.array([bool(re.fullmatch(pattern, t)) for t in texts])], pattern=pattern)
# What a matcher that goes back takes 2^60 steps for.
one("match_long", "RegexFullMatch", [S("a" * 60 + "b", "a" * 60)], [np.array([False, True])], pattern="(a+)+")

split("split", S("a,b,c", "", "x,,y,", shape=(3, 1)), ",", delimiter=",")
split("split_long", S("a--b---c", "--"), "--", delimiter="--")
split("split_most", S("a b c", "a  b"), None, 1, maxsplit=1)
split("split_none", S("a b", " c"), None, 0, maxsplit=0)
split("split_spaces", S("\u2003a\u00a0b\tc \x0bd\u3000", "", " \n", "日本 語"))
split("split_empty", np.empty((0, 2), object))
one("split_alone", "StringSplit", [S("a b")], [S("a", "b", shape=(1, 2))])
# As ONNX's text says and ONNX Runtime does; Python keeps what stands behind: 'b '.
one("split_rest", "StringSplit", [S(" a b ", "a b c ")], [S("a", "b", "a", "b c", shape=(2, 2)), np.array([2, 2], np.int64)], maxsplit=1)


def normalize(name, x, y, **attributes):
    one("normalize_" + name, "StringNormalizer", [x], [y], **attributes)


normalize("upper", S("straße", "École", "ŷ"), S("STRAßE", "ÉCOLE", "Ŷ"), case_change_action="UPPER", is_case_sensitive=1)
normalize("lower", S("ÉCOLE", "ΣΑ", "Ж"), S("école", "σα", "ж"), case_change_action="LOWER")
normalize("stop", S("monday", "Monday", "tuesday", "MONDAY"), S("tuesday"), stopwords=["monDay", "x"])
normalize("stop_exactly", S("monday", "Monday", "", "MONDAY"), S("monday", "MONDAY"), stopwords=["", "Monday"], is_case_sensitive=1)
normalize("stop_accent", S("ÉTÉ", "ete", shape=(1, 2)), S("ETE", shape=(1, 1)), stopwords=["été"], case_change_action="UPPER")
normalize("all", S("a", "A"), S(""), stopwords=["a"])
normalize("all_row", S("a", "A", shape=(1, 2)), S("", shape=(1, 1)), stopwords=["a"])

one("to_float", "Cast", [S("3.14", "-1e-5", "INF", "-inf", "NaN", "16777217")], [np.float32([3.14, -1e-5, np.inf, -np.inf, np.nan, 16777216])], to=T.FLOAT)
one("to_int", "Cast", [S("9223372036854775807", "-9223372036854775808", "100.5", "1e3")], [np.int64([2**63 - 1, -2**63, 100, 1000])], to=T.INT64)
one("to_uint", "Cast", [S("18446744073709551615", "0")], [np.uint64([2**64 - 1, 0])], to=T.UINT64)
one("to_half", "Cast", [S("0.1", "65504")], [np.float16([0.1, 65504])], to=T.FLOAT16)
one("from_float", "Cast", [np.float32([0.1, 314.15926, 1, np.nan, np.inf, -np.inf, 0.039187793])],
    [S("0.1", "314.15927", "1", "NaN", "INF", "-INF", "0.039187793")], to=T.STRING)
one("from_int", "Cast", [np.array([-5, 2**62], np.int64)], [S("-5", str(2**62))], to=T.STRING)
one("from_bool", "Cast", [np.array([True, False])], [S("1", "0")], to=T.STRING)

# What moves elements moves strings.
X = S(*"abcdefghijkl", shape=(3, 4))
I = lambda *v: np.array(v, np.int64)
for op, inputs, y, attributes in (
        ("Identity", [X], X, {}), ("Transpose", [X], X.T, {}), ("Reshape", [X, I(2, 6)], X.reshape(2, 6), {}),
        ("Gather", [X, I(2, 0)], X[:, [2, 0]], {"axis": 1}), ("Slice", [X, I(1), I(3), I(1)], X[:, 1:3], {}),
        ("GatherElements", [X, np.int64([[0, 1, 2, 0]])], S("a", "f", "k", "d", shape=(1, 4)), {}),
        ("GatherND", [X, np.int64([[0, 1], [2, 3]])], S("b", "l"), {}), ("Concat", [X, X], np.concatenate([X, X], 1), {"axis": 1}),
        ("Where", [np.eye(3, 4) > 0, X, S("-")], np.where(np.eye(3, 4) > 0, X, "-"), {}),
        ("Expand", [X[:1], I(2, 4)], np.repeat(X[:1], 2, 0), {}), ("Tile", [X, I(1, 2)], np.tile(X, (1, 2)), {}),
        ("Squeeze", [X[:1], I(0)], X[0], {}), ("Unsqueeze", [X, I(0)], X[None], {}), ("Flatten", [X], X, {}),
        ("Pad", [X, I(0, 1, 0, 1), S("*", shape=())], np.pad(X, ((0, 0), (1, 1)), constant_values="*"), {}),
        ("Pad", [X, I(0, 1, 0, 1)], np.pad(X, ((0, 0), (1, 1)), constant_values=""), {}),
        ("Compress", [X, np.array([True, False, True])], X[[0, 2]], {"axis": 0}), ("Trilu", [X], np.where(np.triu(np.ones((3, 4))) > 0, X, ""), {}),
        ("ScatterND", [X, np.int64([[1]]), S(*"wxyz", shape=(1, 4))], np.concatenate([X[:1], S(*"wxyz", shape=(1, 4)), X[2:]]), {}),
        ("ReverseSequence", [X, I(4, 1, 2)], S(*"dcbaefghjikl", shape=(3, 4)), {"batch_axis": 0, "time_axis": 1}),
        ("OneHot", [I(1, 0), I(2), S("no", "yes")], S("no", "yes", "yes", "no", shape=(2, 2)), {}),
        ("Shape", [X], I(3, 4), {}), ("Size", [X], np.int64(12), {}), ("NonZero", [S("", "a", "", "b")], I(1, 3)[None], {})):
    name = "move_%s_%d" % (op, len(inputs))
    one(name, op, inputs, [y], **attributes)
one("unique", "Unique", [S("b", "é", "B", "b", "", "é")], [S("", "B", "b", "é"), I(4, 2, 0, 1), I(2, 3, 1, 2, 0, 3), I(1, 1, 2, 2)])

POOL = dict(min_gram_length=1, max_gram_length=2, max_skip_count=0, ngram_counts=[0, 3], ngram_indexes=[0, 1, 2, 3, 4], mode="TF",
            pool_strings=["the", "cat", "", "the", "cat", "cat", "sat"])
one("tfidf", "TfIdfVectorizer", [S("the", "cat", "the", "cat", "", "sat", shape=(2, 3))],
    [np.float32([[2, 1, 0, 1, 0], [0, 1, 1, 0, 0]])], **POOL)

# Constants, sequences, branches and loops.
const = lambda name, **value: h.make_node("Constant", [], [name], **value)
write(GOOD, "constants", [const("a", value_string="né"), const("b", value_strings=["1", "2"]), const("c", value=proto(S("!", ""))),
                          h.make_node("StringConcat", ["a", "b"], ["ab"]), h.make_node("StringConcat", ["ab", "c"], ["abc"]),
                          h.make_node("StringConcat", ["abc", "x0"], ["abcx"]), h.make_node("StringConcat", ["abcx", "w"], ["y0"])],
      [S("-")], [S("né1!-w", "né2-w")], [("w", S("w"))])
write(GOOD, "sequence", [h.make_node("SplitToSequence", ["x0"], ["s"], axis=0), h.make_node("SequenceAt", ["s", "one"], ["e"]),
                         h.make_node("SequenceInsert", ["s", "e"], ["t"]), h.make_node("ConcatFromSequence", ["t"], ["y0"], axis=0)],
      [S("a", "b")], [S("a", "b", "b")], [("one", np.int64(1))])
branch = lambda name, text: h.make_graph([const(name, value_string=text)], name, [], [h.make_tensor_value_info(name, T.STRING, [])])
write(GOOD, "branch", [const("yes", value_string="yes"), h.make_node("Equal", ["x0", "yes"], ["is"]),
                       h.make_node("If", ["is"], ["y0"], then_branch=branch("t", "taken"), else_branch=branch("e", "not"))],
      [S("yes", shape=())], [S("taken", shape=())])
body = h.make_graph([h.make_node("StringConcat", ["v", "v"], ["w"]), h.make_node("Identity", ["c"], ["go"])], "body",
                    [h.make_tensor_value_info("i", T.INT64, []), h.make_tensor_value_info("c", T.BOOL, []), h.make_tensor_value_info("v", T.STRING, None)],
                    [h.make_tensor_value_info("go", T.BOOL, []), h.make_tensor_value_info("w", T.STRING, None)])
write(GOOD, "loop", [h.make_node("Loop", ["x1", "", "x0"], ["y0"], body=body)], [S("ab"), np.int64(3)], [S("ab" * 8)])
# From words to numbers: what has a product runs as a program.
W = np.arange(15, dtype=np.float32).reshape(5, 3)
write(GOOD, "classifier", [h.make_node("StringNormalizer", ["x0"], ["n"], case_change_action="LOWER"),
                           h.make_node("TfIdfVectorizer", ["n"], ["f"], **POOL), h.make_node("MatMul", ["f", "W"], ["y0"]),
                           h.make_node("Cast", ["y0"], ["y1"], to=T.STRING)],
      [S("The", "CAT", shape=(1, 2))], [np.float32([[1, 1, 0, 1, 0]]) @ W, S("12", "15", "18", shape=(1, 3))], [("W", W)])

# ---- refused: the folder's name is what the line says ----

one("expected a number", "Cast", [S("1", "Hello")], [np.float32([1, 0])], BAD, to=T.FLOAT)
for sign in "+-":                        # no digits, on which int() fails as well
    one(f"is '{sign}', expected a number", "Cast", [S("-1", sign)], [np.int64([-1, 0])], BAD, to=T.INT64)
one("pattern", "RegexFullMatch", [S("a")], [np.array([True])], BAD, pattern="(a")
one("pattern ", "RegexFullMatch", [S("a")], [np.array([True])], BAD, pattern=r"(a)\1")
one("cases of locale", "StringNormalizer", [S("a")], [S("A")], BAD, case_change_action="UPPER", locale="tr_TR.UTF-8")
one("expected [C] or [1,C]", "StringNormalizer", [S("a", "b", shape=(2, 1))], [S("a")], BAD)
one("is no UTF-8", "Identity", [S(b"a\xff")], [S("a")], BAD)
one("byte of 0", "StringSplit", [S("a")], [S("a", shape=(1, 1)), I(1)], BAD, delimiter="a\0b")
one("the pool is of integers", "TfIdfVectorizer", [S("a")], [np.float32([1])], BAD, **{**POOL, "pool_strings": [], "pool_int64s": [1, 2, 3, 4, 5, 6, 7]})
one("reduction", "ScatterND", [S("a"), np.int64([[0]]), S("b")], [S("ab")], BAD, reduction="add")
x = np.float32([1, 2])
one("input 2 is string", "Pad", [x, np.int64([1, 1]), S("1", shape=())], [np.float32([1, 1, 2, 1])], BAD)
one("'pads' must be a vector", "Pad", [x, S("1", "1")], [np.float32([0, 1, 2, 0])], BAD)
one("input 1 is string", "TopK", [x, S("1")], [np.float32([2]), np.int64([1])], BAD)
one("type string", "TopK", [S("a", "b"), np.int64([1])], [S("b"), np.int64([1])], BAD)
one("type string ", "OneHot", [S("1"), np.int64(2), x], [np.float32([[1, 2]])], BAD)
one("depth is string", "OneHot", [np.int64([1]), S("2", shape=()), x], [np.float32([[1, 2]])], BAD)
one("depth is string ", "OneHot", [np.int64([1]), S("2", shape=()), S("off", "on")], [S("off", "on", shape=(1, 2))], BAD)
one("input 3 is string", "MelWeightMatrix", [np.int64(3), np.int64(8), np.int64(8), S("1", shape=()), np.float32(4)], [np.zeros((5, 3), np.float32)], BAD)
endless = h.make_graph([h.make_node("StringConcat", ["v", "v"], ["w"]), h.make_node("Identity", ["c"], ["go"])], "body", body.input, body.output)
write(BAD, "--plan-memory", [h.make_node("Loop", ["x1", "", "x0"], ["y0"], body=endless)], [S("ab"), np.int64(60)], [S("")])
