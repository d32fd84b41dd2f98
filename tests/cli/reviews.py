"""Writes models that take token ids, and the losses that NumPy computes for the texts of tests/cli/reviews: reviews.py FOLDER.

losses.txt has a line for each: MODEL TOKENIZER LOSS OPTION...; padded.txt the ids of gpt2, cut and padded to 16 by 7.  Needs Debian's
python3-numpy and python3-onnx.
"""
import csv
import pathlib
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

folder = pathlib.Path(sys.argv[1])
given = pathlib.Path(__file__).parent / "reviews"
rng = np.random.default_rng(3)
FLOAT, INT64, INT32 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32
WIDTH, VOCABULARY = 4, 506


def model(name, nodes, inputs, output, **weights):
    weights = {k: np.asarray(w, np.int64 if np.asarray(w).dtype == np.int64 else np.float32) for k, w in weights.items()}
    graph = helper.make_graph([helper.make_node(op, i.split(), o.split(), **more) for op, i, o, more in nodes], name,
                              [helper.make_tensor_value_info(n, t, shape) for n, (t, shape) in inputs.items()],
                              [helper.make_tensor_value_info("y", FLOAT, output)],
                              [numpy_helper.from_array(w, k) for k, w in weights.items()])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), folder / f"{name}.onnx")


def main():
    rows = list(csv.DictReader(open(given / "reviews.csv", newline="", encoding="utf-8")))
    classes, target = np.unique([r["label"] for r in rows], return_inverse=True)
    stars = np.array([float(r["stars"]) for r in rows])[:, None]
    stars = (stars - stars.mean()) / stars.std()
    ids = {k: [list(map(int, line.split())) for line in (given / f"{k}.ids.txt").read_text().splitlines()] for k in ("gpt2", "llama3")}
    ids["bytes"] = [list(r["review"].encode()) for r in rows]
    table, w, v = rng.normal(size=(VOCABULARY, WIDTH)), rng.normal(size=(WIDTH, 2)), rng.normal(size=(WIDTH + 1, 2))

    # The mean of the tokens' vectors, and with `rest` a number behind it.
    mean = [("Gather", "table input_ids", "e", {}), ("Cast", "attention_mask", "m", {"to": FLOAT}), ("Unsqueeze", "m last", "mask", {}),
            ("Mul", "e mask", "kept", {}), ("ReduceSum", "kept middle", "sum", {"keepdims": 0}),
            ("ReduceSum", "m middle", "n", {"keepdims": 1}), ("Max", "n one", "count", {}), ("Div", "sum count", "x", {})]
    fixed = {"table": table, "last": np.array([2]), "middle": np.array([1]), "one": np.ones(1)}
    for name, length in ("fixed", 16), ("open", "T"):
        model(name, [*mean, ("MatMul", "x w", "y", {})], {"input_ids": (INT64, ["N", length]), "attention_mask": (INT64, ["N", length])},
              ["N", 2], w=w, **fixed)
    model("rest", [*mean, ("Concat", "x rest", "z", {"axis": 1}), ("MatMul", "z v", "y", {})],
          {"rest": (FLOAT, ["N", 1]), "attention_mask": (FLOAT, ["N", "T"]), "input_ids": (INT32, ["N", "T"])}, ["N", 2], v=v, **fixed)
    # Without a mask, padding counts as any token.
    model("plain", [("Gather", "table input_ids", "e", {}), ("ReduceMean", "e", "x", {"axes": [1], "keepdims": 0}), ("MatMul", "x w", "y", {})],
          {"input_ids": (INT64, ["N", "T"])}, ["N", 2], w=w, table=table)
    model("same", [("Cast", "input_ids", "y", {"to": FLOAT})], {"input_ids": (INT64, ["N", 16])}, ["N", 16])
    model("few", [("Gather", "table input_ids", "e", {}), ("ReduceMean", "e", "x", {"axes": [1], "keepdims": 0}), ("MatMul", "x w", "y", {})],
          {"input_ids": (INT64, ["N", "T"])}, ["N", 2], w=w, table=table[:300])

    def loss(x, w):
        y = x @ w
        return float(np.mean(np.log(np.exp(y).sum(1)) - y[np.arange(len(y)), target]))

    def bags(kind, most=None):
        return np.array([table[i[:most]].sum(0) / max(len(i[:most]), 1) for i in ids[kind]])

    def padded(kind, n, padding):
        return np.array([(i + [padding] * n)[:n] for i in ids[kind]])

    with open(folder / "losses.txt", "w") as f:
        for kind in ids:
            how = "" if kind == "bytes" else f",tokenizer=TOKENIZER"
            print("fixed", kind, loss(bags(kind, 16), w), f"{how},drop=stars", file=f)
            print("open", kind, loss(bags(kind), w), f"{how},drop=stars", file=f)
            print("open", kind, loss(bags(kind, 8), w), f"{how},drop=stars,block=8", file=f)
            print("rest", kind, loss(np.concatenate([bags(kind), stars], 1), v), how, file=f)
            print("plain", kind, loss(table[padded(kind, 9, 0)].mean(1), w), f"{how},drop=stars,block=9", file=f)
            print("plain", kind, loss(table[padded(kind, 64, 7)].mean(1), w), f"{how},drop=stars,block=64,padding=7", file=f)
    np.savetxt(folder / "padded.txt", padded("gpt2", 16, 7), "%d")


main()
