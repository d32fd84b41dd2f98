#!/usr/bin/env python3
"""Compares the reading of image folders with PyTorch's DataLoader, in one run, without training.

    bench/images.py [--build BUILD_DIR] [--images 2000] [--side 256] [--size 64] [--workers 2] [--epochs 3]

Makes JPEG files of smooth shapes and noise, as photographs compress, and reads them in turns with bench_images (ninja bench_images) and
with torchvision's ImageFolder, Resize, CenterCrop, ToTensor and Normalize.  Prints images a second, the best epoch of each, and CPU time.
Needs torchvision.
"""
import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np
from PIL import Image


def make(folder, n, side):
    rng = np.random.default_rng(0)
    for i in range(n):
        small = rng.integers(0, 256, (side // 16, side // 16, 3)).astype(np.uint8)
        a = np.asarray(Image.fromarray(small).resize((side, side), Image.BICUBIC), float) + rng.normal(0, 6, (side, side, 1))
        path = folder / f"class{i % 10}" / f"{i:06d}.jpg"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(np.clip(a, 0, 255).astype(np.uint8)).save(path, quality=90)


def cpu():
    return sum(sum(resource.getrusage(w)[:2]) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def ours(args, folder, more=""):
    start = cpu()
    out = subprocess.run([f"{args.build}/bench_images", f"images:{folder}{more}", str(args.size), str(args.workers), str(args.epochs)],
                         capture_output=True, text=True)
    if out.returncode:
        sys.exit(out.stderr)
    return json.loads(out.stdout)["seconds"], cpu() - start


def theirs(args, folder):
    import torch
    from torchvision import datasets, transforms as T
    torch.set_num_threads(1)
    data = datasets.ImageFolder(folder, T.Compose([T.Resize(args.size), T.CenterCrop(args.size), T.ToTensor(),
                                                   T.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]))
    loader = torch.utils.data.DataLoader(data, 64, shuffle=True, num_workers=args.workers, persistent_workers=True)
    seconds, begun = [], cpu()
    for _ in range(args.epochs):
        start = time.perf_counter()
        for _ in loader:
            pass
        seconds.append(time.perf_counter() - start)
    del loader
    return seconds, cpu() - begun


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--build", default="build")
    for name, value in (("images", 2000), ("side", 256), ("size", 64), ("workers", 2), ("epochs", 3)):
        ap.add_argument("--" + name, type=int, default=value)
    args = ap.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make(pathlib.Path(folder), args.images, args.side)
        print(f"{args.images} JPEG files of {args.side}x{args.side} at {args.size}x{args.size}, {args.workers} workers, {os.cpu_count()} cores")
        rows = {"PyTorch": theirs(args, folder), "dpexec": ours(args, folder), "dpexec decode=fast": ours(args, folder, ",decode=fast"),
                "dpexec cache=ram": ours(args, folder, ",cache=ram")}
    base = args.images / min(rows["PyTorch"][0])
    for name, (seconds, used) in rows.items():
        rate = args.images / min(seconds)
        print(f"{name:20s} {rate:9.0f} images/s  {rate / base:6.2f} x   {1000 * used / args.images / args.epochs:6.2f} ms of CPU an image")


if __name__ == "__main__":
    main()
