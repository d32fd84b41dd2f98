"""Writes a table with missing cells, and models for it: table.py FOLDER.  Needs Debian's python3-numpy and python3-onnx.

price.csv and flats.csv: 60 rows of numbers and categories, the price a sum of both, 6 features; kinds.csv: the same with the target `kind`.
"""
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

folder = sys.argv[1]
rng = np.random.default_rng(5)
N, FEATURES = 60, 6


def model(name, nodes, inputs, outputs, **weights):
    values = lambda shapes: [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in shapes.items()]
    graph = helper.make_graph([helper.make_node(op, i.split(), o.split(), **more) for op, i, o, more in nodes], name, values(inputs),
                              values(outputs), [numpy_helper.from_array(np.asarray(w, "f4"), k) for k, w in weights.items()])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), f"{folder}/{name}.onnx")


def main():
    age, size = rng.integers(18, 80, N).astype(object), rng.normal(60, 20, N).round(1).astype(object)
    city = rng.choice(["Oslo", "Bergen", 'Å, "quoted"'], N).astype(object)
    price = [round(float(a * 2 + s + 30 * len(c)), 1) for a, s, c in zip(age, size, city)]
    for column in age, size, city:
        column[rng.random(N) < 0.15] = "NA"
    quote = lambda t: '"' + str(t).replace('"', '""') + '"' if any(c in str(t) for c in ',"') else str(t)
    kind = ["cheap" if p < 250 else "dear" if p < 350 else "luxury" for p in price]

    def table(name, *columns):
        with open(f"{folder}/{name}.csv", "w", encoding="utf-8") as f:
            f.writelines(",".join(quote(c) for c in row) + "\r\n" for row in columns)

    rows = list(zip(age, size, city))
    table("price", ("age", "size", "city", "price"), *((*r, p) for r, p in zip(rows, price)))
    table("kinds", ("age", "size", "city", "kind"), *((*r, k) for r, k in zip(rows, kind)))
    table("flats", ("more", "city", "size", "age"), (1, "Oslo", 50, 30), ("", "Paris", "NA", 40))
    table("bad", ("age", "size", "city", "price"), (30, 50, "Oslo", 100), (31, "abc", "Oslo", 110), (32, 50, "Oslo", 120), (33, 51, "Oslo", ""))
    linear = [("MatMul", "x w", "h", {}), ("Add", "h b", "y", {})]
    model("line", linear, {"x": ["N", FEATURES]}, {"y": ["N", 1]}, w=rng.normal(0, 0.1, (FEATURES, 1)), b=np.zeros(1))
    model("scores", linear, {"x": ["N", FEATURES]}, {"y": ["N", 3]}, w=rng.normal(0, 0.1, (FEATURES, 3)), b=np.zeros(3))
    model("narrow", linear, {"x": ["N", 5]}, {"y": ["N", 1]}, w=rng.normal(0, 0.1, (5, 1)), b=np.zeros(1))
    model("three", linear, {"x": ["N", 3]}, {"y": ["N", 1]}, w=rng.normal(0, 0.1, (3, 1)), b=np.zeros(1))
    model("same", [("Identity", "x", "y", {})], {"x": ["N", FEATURES]}, {"y": ["N", FEATURES]})
    model("named", [("Concat", "city rest", "x", {"axis": 1}), *linear], {"city": ["N", 4], "rest": ["N", 2]}, {"y": ["N", 1]},
          w=rng.normal(0, 0.1, (FEATURES, 1)), b=np.zeros(1))


main()
