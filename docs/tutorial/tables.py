#!/usr/bin/env python3
"""Makes the files of docs/tutorial/tables.md: flats.csv and new.csv, made-up flats with missing cells, and the network flats.onnx.

    python docs/tutorial/tables.py FOLDER           # numpy and onnx
"""
import csv
import pathlib
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

FLATS, NEW = 1600, 400
FEATURES, HIDDEN = 11, 32         # 3 numbers; 4 cities; 3 kinds of heating, and that it is missing
PRICES = {"Bergen": 4.1, "Oslo": 6.0, "Stavanger": 3.6, "Tromsø": 3.9}


def flats(rng):
    n = FLATS + NEW
    age, size, floor = rng.integers(0, 90, n), rng.normal(70, 25, n).clip(15, 200).round(1), rng.integers(0, 9, n)
    city, heating = rng.choice(list(PRICES), n, p=[0.3, 0.4, 0.2, 0.1]), rng.choice(["electric", "district", "wood"], n)
    price = size / 100 * ([PRICES[c] for c in city] + 1.2 * np.exp(-age / 25)) + 0.05 * floor + 0.2 * (heating == "district")
    price = (price + rng.normal(0, 0.15, n)).round(3)
    lost = rng.random((n, 3)) < 0.08
    return [["" if l[0] else a, s, "" if l[1] else f, c, "" if l[2] else h, p]
            for a, s, f, c, h, p, l in zip(age, size, floor, city, heating, price, lost)]


def network(rng):
    def uniform(name, fan_in, *shape):
        return numpy_helper.from_array(rng.uniform(-fan_in**-0.5, fan_in**-0.5, shape).astype("f4"), name)

    weights = [uniform("w1", FEATURES, FEATURES, HIDDEN), uniform("b1", FEATURES, HIDDEN), uniform("w2", HIDDEN, HIDDEN, 1), uniform("b2", HIDDEN, 1)]
    nodes = [helper.make_node("Gemm", ["x", "w1", "b1"], ["h"]), helper.make_node("Relu", ["h"], ["r"]), helper.make_node("Gemm", ["r", "w2", "b2"], ["y"])]
    graph = helper.make_graph(nodes, "flats", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", FEATURES])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 1])], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main():
    folder = pathlib.Path(sys.argv[1])
    rows = flats(np.random.default_rng(0))
    for name, part in ("flats", rows[:FLATS]), ("new", rows[FLATS:]):
        with open(folder / f"{name}.csv", "w", newline="", encoding="utf-8") as f:
            csv.writer(f).writerows([["age", "size", "floor", "city", "heating", "price"], *part])
    save(network(np.random.default_rng(1)), folder / "flats.onnx")


main()
