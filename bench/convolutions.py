#!/usr/bin/env python3
"""What dpexec's convolutions take in a training step, against oneDNN's primitives alone.

Needs torch, torchvision, onnx and numpy.

    ninja -C build dpexec bench_convolutions
    bench/convolutions.py [--build build] [--threads 2] [--only MODEL...] [--simd native|avx2] [--trial]

A primitive's time is the median of REPEAT runs in its best layout (bench/convolutions.c), without the conversions of
layouts around it.  Their sum over all convolutions of a network is what a step takes at least with oneDNN.  Beside it
stands the time of dpexec's convolution nodes by --trace, median over the steps, with the conversions and additions
that are part of the nodes."""
import argparse
import collections
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import cpu
import cpu_models

REPEAT, STEPS = 5, 4
MODELS = [m for m, case in cpu_models.CASES.items() if case.images and case.speed]
PARTS = {"forward": "forward", "input": "gradient of the input", "weight": "gradient of the weight"}


def attribute(node, name, default):
    import onnx

    return next((onnx.helper.get_attribute_value(a) for a in node.attribute if a.name == name), default)


def shapes(path, batch):
    """How often each convolution occurs: lines as bench_convolutions reads them."""
    import onnx

    net = onnx.load(str(path))
    weights = {t.name: list(t.dims) for t in net.graph.initializer}
    inputs = [i for i in net.graph.input if i.name not in weights]
    for i in inputs:
        i.type.tensor_type.shape.dim[0].dim_value = batch
    net = onnx.shape_inference.infer_shapes(net, data_prop=True)
    dims = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim]
            for v in (*net.graph.value_info, *net.graph.input, *net.graph.output)}
    found = collections.Counter()
    for node in net.graph.node:
        if node.op_type not in ("Conv", "ConvTranspose"):
            continue
        x, y = dims[node.input[0]], dims[node.output[0]]
        if node.op_type == "ConvTranspose":         # the gradient of the input of a convolution from y to x
            x, y = y, x
        kernel, pads = weights[node.input[1]][2:], attribute(node, "pads", [0] * 4)
        found[(batch, attribute(node, "group", 1), x[1], y[1], *x[2:], *y[2:], *kernel,
               *attribute(node, "strides", [1, 1]), *attribute(node, "dilations", [1, 1]), *pads,
               int(node.input[0] != inputs[0].name))] += 1
    return found


def ceiling(args, env, found):
    """Milliseconds by part: of each primitive its best layout."""
    program = pathlib.Path(args.build) / "bench_convolutions"
    text = "\n".join(" ".join(map(str, shape)) for shape in found)
    said = subprocess.run([program, str(args.threads), "1" if args.trial else str(REPEAT)], input=text, text=True,
                          capture_output=True, check=True, env=dict(env, ONEDNN_VERBOSE="1")).stdout
    runs, counts = [], list(found.values())
    for line in said.splitlines():
        if line.startswith("@"):
            runs.append((int(line.split()[1]), line.split()[2], []))
        elif ",exec,cpu,convolution," in line:
            runs[-1][2].append(float(line.rsplit(",", 1)[1]))
    best = {}
    for i, part, times in runs:
        if times:
            best[i, part] = min(statistics.median(times), best.get((i, part), float("inf")))
    return {part: sum(ms * counts[i] for (i, p), ms in best.items() if p == part) for part in PARTS}


def traced(bench, model):
    """Milliseconds by part of dpexec's nodes."""
    trace, steps = bench.folder / f"{model}.json", 1 if bench.args.trial else STEPS
    bench.call(bench.train(bench.args.dpexec, model, steps, bench.folder / f"trace-{model}", "--devices", "cpu",
                           "--threads", str(bench.args.threads), "--trace", str(trace)))
    nodes = collections.defaultdict(list)
    for e in json.loads(trace.read_text())["traceEvents"]:
        if e.get("ph") == "X" and e["cat"].startswith("Conv"):
            nodes[e["cat"], e["name"]].append(e["dur"] / 1e3)
    sums = dict.fromkeys(PARTS, 0)
    for (cat, _), times in nodes.items():
        part = "input" if "GradInput" in cat else "weight" if "GradWeight" in cat else "forward"
        sums[part] += statistics.median(times) * len(times) / steps
    return sums


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build", type=os.path.abspath)
    p.add_argument("--dpexec", help="[BUILD/dpexec]", type=os.path.abspath)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--simd", choices=("native", "avx2"), default="native")
    p.add_argument("--only", choices=MODELS, nargs="+", default=MODELS)
    p.add_argument("--trial", action="store_true", help="each primitive once, to see that all runs")
    args = p.parse_args()
    args.dpexec = args.dpexec or f"{args.build}/dpexec"
    args.ort_python = args.against = None
    print(f"| model (batch) | {' | '.join(f'{part}, ms: dpexec; oneDNN' for part in PARTS.values())} | sum | ratio |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        bench = cpu.Bench(args, pathlib.Path(folder))
        for model in args.only:
            bench.prepare(model)
            batch = cpu_models.CASES[model].batch
            found = shapes(cpu_models.path_of(model, folder), batch)
            ours, least = traced(bench, model), ceiling(args, bench.env, found)
            cells = [f"{ours[part]:.2f}; {least[part]:.2f}" for part in PARTS]
            total, limit = sum(ours.values()), sum(least.values())
            cells += [f"{total:.2f}; {limit:.2f}", f"{total / limit:.2f}"]
            print(f"| {model} ({batch}) | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
