#!/usr/bin/env python3
"""Makes the files of docs/tutorial/images.md: PNG files of four shapes, in shapes/ and new/, and the network shapes.onnx.

    python docs/tutorial/images.py FOLDER           # numpy and onnx
"""
import pathlib
import struct
import sys
import zlib

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

SHAPES = ("circle", "cross", "square", "triangle")
EACH, NEW = 200, 25                # images of a shape in shapes/ and in new/
SIZE, WIDTHS = 32, (12, 24, 48)


def png(pixels):
    """The bytes of a PNG file of [height, width, 3] pixels."""
    height, width, _ = pixels.shape
    lines = np.concatenate([np.zeros((height, 1), "u1"), pixels.reshape(height, -1)], axis=1)    # 0: no filter
    chunk = lambda name, data: struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    header = struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines.tobytes())) + chunk(b"IEND", b"")


def draw(shape, rng):
    """A turned shape of any light colour and size, anywhere on a noisy, dark background."""
    height, width = rng.integers(36, 60, 2)
    radius, turn = rng.uniform(8, 14), rng.uniform(0, 2 * np.pi)
    y, x = np.mgrid[:height, :width] - rng.uniform(15, [[[height - 15]], [[width - 15]]])
    u, v = (x * np.cos(turn) - y * np.sin(turn)) / radius, (x * np.sin(turn) + y * np.cos(turn)) / radius
    inside = {"circle": u * u + v * v < 1,
              "cross": (np.minimum(abs(u), abs(v)) < 0.25) & (np.maximum(abs(u), abs(v)) < 1),
              "square": np.maximum(abs(u), abs(v)) < 0.8,
              "triangle": (v > -0.6) & (v + 1.7 * abs(u) < 1)}[shape]
    return (np.where(inside[..., None], rng.uniform(140, 255, 3), rng.uniform(0, 110, 3)) + rng.normal(0, 12, (height, width, 3))).clip(0, 255).astype("u1")


def network(rng):
    weights, nodes, channels, x = [], [], 3, "image"

    def tensor(name, value):
        weights.append(numpy_helper.from_array(value.astype("f4"), name))
        return name

    def node(op, *inputs, out=None, **attributes):
        nodes.append(helper.make_node(op, inputs, [out or f"{op}_{len(nodes)}"], **attributes))
        return nodes[-1].output[0]

    for i, width in enumerate(WIDTHS):
        x = node("Conv", x, tensor(f"conv{i}.weight", rng.normal(0, (2 / (9 * channels)) ** 0.5, (width, channels, 3, 3))), pads=[1] * 4)
        x = node("BatchNormalization", x, *(tensor(f"norm{i}.{name}", value * np.ones(width))
                                            for name, value in (("weight", 1), ("bias", 0), ("mean", 0), ("var", 1))))
        x = node("MaxPool", node("Relu", x), kernel_shape=[2, 2], strides=[2, 2])
        channels = width
    x = node("Flatten", node("GlobalAveragePool", x))
    bound, classes = channels ** -0.5, len(SHAPES)
    node("Gemm", x, tensor("head.weight", rng.uniform(-bound, bound, (channels, classes))), tensor("head.bias", np.zeros(classes)), out="scores")
    graph = helper.make_graph(nodes, "shapes", [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 3, SIZE, SIZE])],
                              [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", classes])], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main():
    folder, rng = pathlib.Path(sys.argv[1]), np.random.default_rng(0)
    for name, count in ("shapes", EACH), ("new", NEW):
        for shape in SHAPES:
            (folder / name / shape).mkdir(parents=True, exist_ok=True)
            for i in range(count):
                (folder / name / shape / f"{i:03}.png").write_bytes(png(draw(shape, rng)))
    save(network(np.random.default_rng(1)), folder / "shapes.onnx")


main()
