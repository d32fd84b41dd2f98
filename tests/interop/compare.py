#!/usr/bin/env python3
"""Runs an exported model in other runtimes and compares.  Needs onnx, onnxruntime and numpy (tests/interop/install.sh installs them).

    compare.py DPEXEC MODEL.onnx [--input NAME=FILE.npy ...] [--batch N] [--size SYMBOL=N ...] [--tolerance X]
               [--no-reference] [--threads N]

The model is checked by onnx.checker (full), then run by `dpexec run`, ONNX Runtime and onnx.reference: the whole batch and,
where the batch is a symbolic dimension, each sample alone.  Each output of each of the others must agree with dpexec's, and
its samples alone with the same samples in the batch, to X of its norm [1e-5].  Operators that draw random numbers are
refused: nothing could be compared.

Inputs that are not given are drawn: floats from a normal distribution, integers below the smallest size that a Gather
indexes with them.  Prints one line for each comparison that fails, then what agreed; exit status 1 if any failed.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx

RANDOM = {"RandomUniform", "RandomUniformLike", "RandomNormal", "RandomNormalLike", "Bernoulli", "Multinomial"}


def opset_of(model):
    return next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)


def relative(a, b):
    if a.shape != b.shape or a.dtype != b.dtype:
        return float("inf")
    if a.dtype.kind not in "fc":
        return 0.0 if np.array_equal(a, b) else float("inf")
    a, b = a.astype(np.float64), b.astype(np.float64)
    return float(np.linalg.norm(a - b) / max(np.linalg.norm(b), 1e-30))


def inputs_of(graph):
    held = {t.name for t in graph.initializer}
    return [i for i in graph.input if i.name not in held]


def symbol_of_batch(graph):
    """The name of the first input's first dimension, None where it is a number."""
    dims = inputs_of(graph)[0].type.tensor_type.shape.dim
    return dims[0].dim_param or None if dims else None


def limit_of(graph, name):
    """Indices below this are legal: the rows of what is gathered with them."""
    sizes = {t.name: t.dims for t in graph.initializer}
    found = [sizes[n.input[0]][0] for n in graph.node if n.op_type == "Gather" and n.input[1] == name and n.input[0] in sizes]
    return min(found, default=2)


def draw(graph, sizes, given):
    rng, out = np.random.default_rng(1), {}
    for i in inputs_of(graph):
        if i.name in given:
            out[i.name] = np.load(given[i.name])
            continue
        t = i.type.tensor_type
        shape = [sizes.get(d.dim_param, 2) if d.dim_param or not d.HasField("dim_value") else d.dim_value for d in t.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(t.elem_type)
        if dtype.kind == "f":
            out[i.name] = rng.standard_normal(shape).astype(dtype)
        else:
            out[i.name] = rng.integers(0, limit_of(graph, i.name), shape).astype(dtype)
    return out


def by_dpexec(dpexec, path, feeds, outputs):
    with tempfile.TemporaryDirectory() as folder:
        args = [dpexec, "run", path, "--out", f"{folder}/out", "--quiet", "--threads", "1"]
        for k, (name, array) in enumerate(feeds.items()):
            np.save(f"{folder}/{k}.npy", array)
            args += ["--input", f"{name}={folder}/{k}.npy"]
        done = subprocess.run(args, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"dpexec run: {done.stderr.strip()}")
        return [np.load(f"{folder}/out/{name}.npy") for name in outputs]


def by_onnxruntime(path, threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda feeds: session.run(None, feeds)


def by_reference(model):
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun

    class BatchNormalization(OpRun):
        """As opset 7 to 13 have it with one output.  onnx.reference (1.22) takes every momentum, the default too, for training."""

        op_domain = ""

        def _run(self, x, scale, bias, mean, var, epsilon=None, **_):
            scale, bias, mean, var = [a.reshape(-1, *[1] * (x.ndim - 2)) for a in (scale, bias, mean, var)]
            return ((scale * (x - mean) / np.sqrt(var + epsilon) + bias).astype(x.dtype),)

    mended = [BatchNormalization] if opset_of(model) < 14 else []
    evaluator = ReferenceEvaluator(model, new_ops=mended)
    return lambda feeds: [np.asarray(y) for y in evaluator.run(None, feeds)]


class Comparison:
    def __init__(self, tolerance):
        self.tolerance, self.worst, self.count, self.failed = tolerance, 0.0, 0, []

    def add(self, what, found, expected):
        difference = relative(found, expected)
        self.count += 1
        self.worst = max(self.worst, difference)
        if not difference <= self.tolerance:
            self.failed.append(f"{what}: {found.dtype}{list(found.shape)} differs from {expected.dtype}{list(expected.shape)} by {difference:.2g}")


class Runner:
    """The model in all runtimes."""

    def __init__(self, dpexec, path, args):
        self.dpexec, self.path, self.result = dpexec, path, Comparison(args.tolerance)
        self.model = onnx.load(path)
        self.names = [o.name for o in self.model.graph.output]
        onnx.checker.check_model(path, full_check=True)
        noise = sorted({n.op_type for n in self.model.graph.node} & RANDOM)
        if noise:
            raise RuntimeError(f"{', '.join(noise)}: an inference model draws no random numbers")
        self.others = {"ONNX Runtime": by_onnxruntime(path, args.threads)}
        if not args.no_reference:
            self.others["onnx.reference"] = by_reference(self.model)

    def run(self, where, feeds):
        """dpexec's outputs; the others' are compared with them."""
        ours = by_dpexec(self.dpexec, self.path, feeds, self.names)
        for who, run in self.others.items():
            for name, found, expected in zip(self.names, run(feeds), ours):
                self.result.add(f"{name}, {who}, {where}", found, expected)
        return ours


def compare(dpexec, path, args):
    """The comparison, and how many samples were run alone."""
    runner = Runner(dpexec, path, args)
    graph = runner.model.graph
    symbol = symbol_of_batch(graph)
    feeds = draw(graph, {**dict(args.size), **({symbol: args.batch} if symbol else {})}, dict(args.input))
    whole = runner.run("whole batch", feeds)
    split = [i.name for i in inputs_of(graph) if symbol and [d.dim_param for d in i.type.tensor_type.shape.dim][:1] == [symbol]]
    samples = len(feeds[split[0]]) if split else 0
    for k in range(samples):
        alone = runner.run(f"sample {k}", {n: a[k:k + 1] if n in split else a for n, a in feeds.items()})
        for name, y, batch in zip(runner.names, alone, whole):
            if batch.ndim and len(batch) == samples:
                runner.result.add(f"{name}, dpexec, sample {k} and the batch", y, batch[k:k + 1])
    return runner.result, samples


def pair(text):
    name, _, rest = text.rpartition("=")
    return name, rest


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("dpexec")
    ap.add_argument("model")
    ap.add_argument("--input", type=pair, action="append", default=[], metavar="NAME=FILE.npy")
    ap.add_argument("--batch", type=int, default=3, help="samples, where the batch is symbolic [3]")
    ap.add_argument("--size", type=lambda s: (pair(s)[0], int(pair(s)[1])), action="append", default=[], metavar="SYMBOL=N",
                    help="of another symbolic dimension [2]")
    ap.add_argument("--tolerance", type=float, default=1e-5)
    ap.add_argument("--no-reference", action="store_true", help="leave out onnx.reference, which is slow")
    ap.add_argument("--threads", type=int, default=1)
    args = ap.parse_args()
    path = pathlib.Path(args.model)
    try:
        result, samples = compare(str(pathlib.Path(args.dpexec).resolve()), str(path), args)
    except Exception as e:      # whatever a runtime says of the file
        sys.exit(f"{path}: {type(e).__name__}: {e}")
    for line in result.failed:
        print(f"{path}: {line}")
    print(f"{path}: opset {opset_of(onnx.load(str(path), load_external_data=False))}: {result.count - len(result.failed)} of {result.count} outputs agree, {samples} samples alone, "
          f"worst {result.worst:.1e}")
    sys.exit(1 if result.failed else 0)


if __name__ == "__main__":
    main()
