#!/usr/bin/env python3
"""What a step costs where replicas are padded to the step's longest sequence, and to their own (--pad-to).

    pip install numpy onnx
    bench/pad_to.py [--build build] [--width 64] [--layers 2] [--samples 512] [--batch 16]

An encoder with a key padding mask is trained on token sequences whose lengths are log-normal (median 25, at most 256), and for each number of
replicas and devices are printed: the share of the positions computed that are padding; the processor's time of a step once its program is there
(batches in the file's order, so that each comes again in the next epoch), and how long that takes by the clock; what a step costs more when its
program has to be made; and the processor's time of all steps of a shuffled run by their number, in which 32 programs are kept.
"""
import argparse
import json
import os
import resource
import subprocess
import tempfile

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

WORDS, CLASSES, HEADS, LONGEST, EPOCHS = 1000, 5, 4, 256, 4
node = h.make_node


class Encoder:
    def __init__(self, width, layers):
        self.rng, self.body, self.numbers = np.random.default_rng(0), [], {}
        self.give(never=np.float32(-np.inf), scale=np.float32((width // HEADS) ** -0.5), one=np.int64(1), zero=np.int64(0), last=np.array([1]),
                  behind=np.array([2]), keys=np.array([1, 2]), apart=np.array([0, 0, HEADS, -1]), together=np.array([0, 0, width]))
        self.give(**{"embed.weight": self.weights(WORDS, width), "position.weight": self.weights(LONGEST, width)})
        self.add("Shape", ["x"], "shape")
        self.add("Gather", ["shape", "one"], "time")
        self.add("Range", ["zero", "time", "one"], "place")
        self.add("Cast", ["attention_mask"], "is", to=T.BOOL)
        self.add("Unsqueeze", ["is", "keys"], "seen")
        y = self.add("Add", [self.add("Gather", ["embed.weight", "x"], "e"), self.add("Gather", ["position.weight", "place"], "p")], "y")
        for i in range(layers):
            y = self.layer("l%d" % i, y, width)
        self.add("Cast", [self.add("Unsqueeze", ["is", "behind"], "is3")], "kept", to=T.FLOAT)
        total = self.add("ReduceSum", [self.add("Mul", [y, "kept"], "yk"), "last"], "sum", keepdims=0)
        mean = self.add("Div", [total, self.add("ReduceSum", ["kept", "last"], "n", keepdims=0)], "mean")
        self.linear(mean, "head", width, CLASSES, "scores")

    def weights(self, *shape):
        return (self.rng.standard_normal(shape) / shape[0] ** 0.5).astype(np.float32)

    def give(self, **numbers):
        self.numbers.update(numbers)

    def add(self, op, inputs, out, **attrs):
        self.body.append(node(op, inputs, [out], **attrs))
        return out

    def linear(self, x, name, wide, to, out):
        self.give(**{name + ".weight": self.weights(wide, to), name + ".bias": np.zeros(to, np.float32)})
        return self.add("Add", [self.add("MatMul", [x, name + ".weight"], name + ".product"), name + ".bias"], out)

    def norm(self, x, name, width):
        self.give(**{name + ".weight": np.ones(width, np.float32), name + ".bias": np.zeros(width, np.float32)})
        return self.add("LayerNormalization", [x, name + ".weight", name + ".bias"], name, axis=-1)

    def layer(self, name, x, width):
        q, k, v = (self.add("Transpose", [self.add("Reshape", [self.linear(x, name + part, width, width, name + part + ".all"), "apart"],
                                                   name + part + ".heads")], name + part, perm=[0, 2, 3, 1] if part == ".k" else [0, 2, 1, 3])
                   for part in (".q", ".k", ".v"))
        s = self.add("Mul", [self.add("MatMul", [q, k], name + ".qk"), "scale"], name + ".s")
        a = self.add("Softmax", [self.add("Where", ["seen", s, "never"], name + ".seen")], name + ".a", axis=-1)
        o = self.add("Transpose", [self.add("MatMul", [a, v], name + ".av")], name + ".avt", perm=[0, 2, 1, 3])
        o = self.linear(self.add("Reshape", [o, "together"], name + ".o"), name + ".out", width, width, name + ".mixed")
        x = self.norm(self.add("Add", [x, o], name + ".x1"), name + ".norm1", width)
        f = self.add("Relu", [self.linear(x, name + ".up", width, 4 * width, name + ".wide")], name + ".relu")
        return self.norm(self.add("Add", [x, self.linear(f, name + ".down", 4 * width, width, name + ".narrow")], name + ".x2"), name + ".norm2", width)

    def save(self, path):
        shape = ["batch", "time"]
        graph = h.make_graph(self.body, "encoder", [h.make_tensor_value_info(n, T.INT64, shape) for n in ("x", "attention_mask")],
                             [h.make_tensor_value_info("scores", T.FLOAT, ["batch", CLASSES])],
                             [nh.from_array(np.asarray(v), n) for n, v in self.numbers.items()])
        model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, path)


def save_data(path, samples):
    rng = np.random.default_rng(1)
    lengths = np.clip(np.exp(rng.normal(3.2, 0.9, samples)).astype(int), 2, LONGEST)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    np.savez(path, **{"x": rng.integers(0, WORDS, ends[-1]).astype(np.int32), "x.offsets": ends, "target": rng.integers(0, CLASSES, samples)})


def run(folder, args, flags):
    """Seconds of the processor, and what metrics.jsonl has."""
    out = tempfile.mkdtemp(dir=folder)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([args.build + "/dpexec", "train", folder + "/model.onnx", "--data", folder + "/data.npz", "--loss", "cross-entropy", "--lr", "0.01",
                    "--batch-size", str(args.batch), "--drop-last", "--threads", "1", "--quiet", "--out", out, *flags], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime, [json.loads(line) for line in open(out + "/metrics.jsonl")]


def measure(folder, args, flags):
    batches = args.samples // args.batch
    warm = ["--no-shuffle", "--programs", "1000", *flags]
    once, _ = run(folder, args, warm + ["--epochs", "1"])
    often, steps = run(folder, args, warm + ["--epochs", str(EPOCHS)])
    step = (often - once) / (EPOCHS - 1) / batches
    wall = np.median([s["ms"] for s in steps[batches:]])
    padding = steps[-1]["padding"]
    shuffled, _ = run(folder, args, flags + ["--epochs", str(EPOCHS)])
    return (100 * (1 - padding["positions"] / padding["computed"]), 1e3 * step, wall, 1e3 * (once / batches - step), 1e3 * shuffled / EPOCHS / batches)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--build", default="build")
    for name, default in (("width", 64), ("layers", 2), ("samples", 512), ("batch", 16)):
        p.add_argument("--" + name, type=int, default=default)
    args = p.parse_args()
    args.build = os.path.abspath(args.build)
    with tempfile.TemporaryDirectory() as folder:
        Encoder(args.width, args.layers).save(folder + "/model.onnx")
        save_data(folder + "/data.npz", args.samples)
        print("replicas devices multiple pad-to   padding   step ms   by the clock   a program ms   shuffled ms")
        for replicas, devices in ((2, 1), (4, 1), (2, 2), (4, 2)):
            for multiple in (1, 32):
                for to in ("step", "replica"):
                    flags = ["--replicas", str(replicas), "--devices", "cpu*%d" % devices, "--pad-multiple", str(multiple), "--pad-to", to]
                    print("%8d %7d %8d %-8s %6.0f %% %9.1f %14.1f %14.1f %13.1f" % (replicas, devices, multiple, to, *measure(folder, args, flags)),
                          flush=True)


main()
