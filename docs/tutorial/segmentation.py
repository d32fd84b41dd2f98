#!/usr/bin/env python3
"""Makes the files of docs/tutorial/segmentation.md: PNG files of shapes in photos/ and new/, and the class of each pixel in masks/ and
new_masks/.

    python docs/tutorial/segmentation.py FOLDER [IMAGES]       # numpy
"""
import pathlib
import struct
import sys
import zlib

import numpy as np

CLASSES = ("background", "circle", "square", "triangle")
COLOURS = ((0, 0, 0), (220, 60, 60), (60, 180, 75), (70, 100, 230))     # of the masks' palette, for people
NEW = 20


def png(pixels, palette=None):
    """The bytes of a PNG file of [height, width, 3] colours, or of [height, width] numbers of a palette."""
    height, width = pixels.shape[:2]
    lines = np.concatenate([np.zeros((height, 1), "u1"), pixels.reshape(height, -1)], axis=1)    # 0: no filter
    chunk = lambda name, data: struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    header = struct.pack(">2I5B", width, height, 8, 2 if palette is None else 3, 0, 0, 0)
    colours = b"" if palette is None else chunk(b"PLTE", np.array(palette, "u1").tobytes())
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + colours + chunk(b"IDAT", zlib.compress(lines.tobytes())) + chunk(b"IEND", b"")


def draw(rng):
    """Two to four turned shapes, whose colours vary around those of their classes, on a noisy background, and the classes of all pixels."""
    height, width = rng.integers(64, 90, 2)
    mask = np.zeros((height, width), "u1")
    image = np.ones((height, width, 1)) * rng.uniform(0, 140, 3)
    for _ in range(rng.integers(2, 5)):
        shape, radius, turn = rng.integers(1, 4), rng.uniform(9, 18), rng.uniform(0, 2 * np.pi)
        y, x = np.mgrid[:height, :width] - np.array([rng.uniform(10, height - 10), rng.uniform(10, width - 10)])[:, None, None]
        u, v = (x * np.cos(turn) - y * np.sin(turn)) / radius, (x * np.sin(turn) + y * np.cos(turn)) / radius
        inside = (u * u + v * v < 1, np.maximum(abs(u), abs(v)) < 0.8, (v > -0.6) & (v + 1.7 * abs(u) < 1))[shape - 1]
        mask[inside] = shape
        image[inside] = COLOURS[shape] + rng.normal(0, 40, 3)
    return (image + rng.normal(0, 12, image.shape)).clip(0, 255).astype("u1"), mask


def main():
    folder, rng = pathlib.Path(sys.argv[1]), np.random.default_rng(0)
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 400
    for photos, masks, n in ("photos", "masks", count), ("new", "new_masks", NEW):
        for name in photos, masks:
            (folder / name).mkdir(parents=True, exist_ok=True)
        for i in range(n):
            image, mask = draw(rng)
            (folder / photos / f"{i:03}.png").write_bytes(png(image))
            (folder / masks / f"{i:03}.png").write_bytes(png(mask, COLOURS))
    (folder / "classes.txt").write_text("\n".join(CLASSES) + "\n")


main()
