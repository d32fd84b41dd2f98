#!/usr/bin/env python3
"""How close training on a folder of images comes to what the machine allows.

    bench/train_images.py [--build BUILD_DIR] [--images 10000] [--side 256] [--size 64] [--workers N] [--epochs 3] [--rounds 3]

Makes JPEG files as bench/images.py does, and a small convolutional network.  Trains on the files, on the files with a cache, and on an
array in memory of the same images, in turns.  An epoch's time is that of EPOCHS epochs less that of one, over the rest.  A step and the
decoding of its images take so much CPU time; all cores together could do so many a second: that is what the machine allows.
Prints medians over the rounds.  Needs NumPy, onnx and Pillow.
"""
import argparse
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper as nh
from PIL import Image

import images


def network(path, size):
    rng, nodes, tensors, x, before = np.random.default_rng(0), [], [], "image", 3
    for i, width in enumerate((16, 32, 64)):
        w = rng.standard_normal((width, before, 3, 3)) * np.sqrt(2 / (9 * before))
        tensors.append(nh.from_array(w.astype("f4"), f"w{i}"))
        nodes += [h.make_node("Conv", [x, f"w{i}"], [f"c{i}"], pads=[1] * 4, strides=[2, 2]), h.make_node("Relu", [f"c{i}"], [f"r{i}"])]
        x, before = f"r{i}", width
    tensors += [nh.from_array((rng.standard_normal((64, 10)) / 8).astype("f4"), "w"), nh.from_array(np.zeros(10, "f4"), "b")]
    nodes += [h.make_node("GlobalAveragePool", [x], ["p"]), h.make_node("Flatten", ["p"], ["f"]), h.make_node("Gemm", ["f", "w", "b"], ["y"])]
    graph = h.make_graph(nodes, "small", [h.make_tensor_value_info("image", T.FLOAT, ["N", 3, size, size])],
                         [h.make_tensor_value_info("y", T.FLOAT, ["N", 10])], tensors)
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)


def in_memory(folder, size, path):
    files = sorted(folder.glob("*/*.jpg"))
    x = np.empty((len(files), 3, size, size), "f4")
    for i, f in enumerate(files):
        x[i] = np.asarray(Image.open(f).resize((size, size), Image.BILINEAR), "f4").transpose(2, 0, 1) / 255
    np.savez(path, image=x, target=np.array([int(f.parent.name.removeprefix("class")) for f in files]))


def train(args, net, data, epochs):
    """Seconds, and seconds of CPU."""
    more = ["--workers", str(args.workers)] if args.workers and data.startswith("images:") else []
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([f"{args.build}/dpexec", "train", net, "--data", data, "--loss", "cross-entropy", "--batch-size", "64", "--epochs",
                    str(epochs), "--out", "none", "--quiet", *more], check=True, stderr=subprocess.DEVNULL)
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--build", default="build")
    for name, value in (("images", 10000), ("side", 256), ("size", 64), ("workers", 0), ("epochs", 3), ("rounds", 3)):
        ap.add_argument("--" + name, type=int, default=value)
    args = ap.parse_args()
    if args.epochs < 2:
        sys.exit("bench/train_images.py: --epochs: expected at least 2")
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary, "images")
        folder.mkdir()
        images.make(folder, args.images, args.side)
        net, array = f"{temporary}/net.onnx", f"{temporary}/memory.npz"
        network(net, args.size)
        in_memory(folder, args.size, array)
        sources = {"memory": array, "files": f"images:{folder}", "files, cache=ram": f"images:{folder},cache=ram"}
        seconds, used = {n: [] for n in sources}, {n: [] for n in sources}
        for _ in range(args.rounds):
            for name, data in sources.items():
                one, all_of = train(args, net, data, 1), train(args, net, data, args.epochs)
                seconds[name].append((all_of[0] - one[0]) / (args.epochs - 1))
                used[name].append((all_of[1] - one[1]) / (args.epochs - 1))
    cores = len(os.sched_getaffinity(0))
    rate = {n: args.images / statistics.median(s) for n, s in seconds.items()}
    # CPU time: the larger of what was used and what the time from memory allows, for idle cores are no gain of the reading.
    step = cores * statistics.median(seconds["memory"])
    decode = max(statistics.median(used["files"]) - statistics.median(used["memory"]), 0)
    allowed = args.images * cores / (step + decode)
    print(f"{args.images} JPEG files of {args.side}x{args.side} at {args.size}x{args.size}, {cores} cores, {args.workers or 'default'} workers")
    for name in sources:
        print(f"{name:18s} {rate[name]:8.0f} images/s   {1000 * statistics.median(used[name]) / args.images:6.3f} ms of CPU an image")
    print(f"allowed by CPU time {allowed:7.0f} images/s: files reach {rate['files'] / allowed:.0%} of it")
    print(f"from the second epoch with a cache: {rate['files, cache=ram'] / rate['memory']:.0%} of the speed from memory")


if __name__ == "__main__":
    main()
