#!/usr/bin/env python3
"""Writes texts.onnx: x and y, strings, one behind the other, and whether they are the same.

    python3 tests/api/texts.py
"""
import pathlib

import onnx
from onnx import TensorProto as T, helper as h

info = h.make_tensor_value_info
graph = h.make_graph([h.make_node("StringConcat", ["x", "y"], ["both"]), h.make_node("Equal", ["x", "y"], ["same"])], "texts",
                     [info("x", T.STRING, [None]), info("y", T.STRING, [None])],
                     [info("both", T.STRING, [None]), info("same", T.BOOL, [None])])
onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 20)], ir_version=8), pathlib.Path(__file__).with_suffix(".onnx"))
