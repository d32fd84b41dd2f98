#!/usr/bin/env python3
"""Draws data that a model can be trained on for a few steps: every input, and classes for its first output.

    data.py MODEL.onnx OUT.npz [--samples N]

The target has the shape of the output without axis 1, whose size is the number of classes.
"""
import argparse

import numpy as np
import onnx

import compare


def sizes_of(info, samples):
    """Symbolic dimensions are the batch: no model here has another."""
    return [d.dim_value if d.HasField("dim_value") else samples for d in info.type.tensor_type.shape.dim]


def draw(graph, samples):
    symbol = compare.symbol_of_batch(graph)
    arrays = compare.draw(graph, {symbol: samples} if symbol else {}, {})
    y = sizes_of(graph.output[0], samples)
    arrays["target"] = np.random.default_rng(2).integers(0, y[1], y[:1] + y[2:])
    return arrays


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("model")
    ap.add_argument("out")
    ap.add_argument("--samples", type=int, default=4)
    args = ap.parse_args()
    np.savez(args.out, **draw(onnx.load(args.model).graph, args.samples))


if __name__ == "__main__":
    main()
