#!/usr/bin/env python3
"""How planning a training step grows with the model: seconds by pass, seconds and memory of the whole.  Needs numpy.

    bench/scale.py [--build build] [--nodes 3000,10000,30000,100000] [--models mlp,conv,gates] [--devices cpu:0,cpu:1] [--out FILE.json]

Three chains are written, of as many nodes as asked for: an MLP (Gemm, Relu), residual blocks (Conv, BatchNormalization, Relu, Add) and
gates (Gemm, Sigmoid), each as narrow as it can be, so that the nodes cost more than the weights.  No product takes a Sigmoid in, and so
on accelerators each of the last is a chain of its own: biases' sums wait for their products, and streams have something to share out.  A step on two replicas is planned, the plan of memory included, but
not run (`dpexec train --dry-run`): counted are user and system time of the process and the most memory it had, its libraries (about
35 MiB) included.  `graph-transform --report` says how the time is spread over the passes.  Passes that stay below 1 % and a tenth of a
second everywhere are left out of the table.

Behind each time stands the exponent e of n^e by which it grew from the column before.  LIMITS are what is wanted; the script fails when
one is missed, or when the whole or a pass that takes more than MATTERS seconds grows faster than n log n.  With accelerators (`--devices
cuda:0@tests/devices/h100.json,cuda:1@tests/devices/h100.json`; none need be there) the passes that fuse have something to do.
"""
import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench"))
import onnx_file                                                        # noqa: E402

LIMITS = {30000: 8.0, 100000: 30.0}     # seconds of the processor
KIB_A_NODE = 8.0                        # of models of 30,000 nodes and more, on CPUs: accelerators have streams, texts of kernels and plans
MATTERS = 0.2                           # seconds: growth of what is quicker is noise
TOLERANCE = 1.35                        # of a pass's time over n log n: caches
STEP = ["--loss", "cross-entropy", "--batch-size", "8"]


# ---- the models ----

def head(net, x, width):
    net.op("Gemm", x, net.normal("head.weight", (10, width), 0.1), net.normal("head.bias", (10,), 0.1), name="logits", transB=1)
    net.output("logits", ["batch", 10])
    return net


def layers(name, activation, nodes):
    net = onnx_file.Net(name)
    x = net.input("input", onnx_file.FLOAT, ["batch", 16])
    for i in range((nodes - 1) // 2):
        weight, bias = net.normal(f"layer{i}.weight", (16, 16), 0.1), net.normal(f"layer{i}.bias", (16,), 0.1)
        x = net.op(activation, net.op("Gemm", x, weight, bias, transB=1))
    return head(net, x, 16)


def mlp(nodes):
    return layers("mlp", "Relu", nodes)


def conv(nodes):
    net = onnx_file.Net("conv")
    x = net.input("input", onnx_file.FLOAT, ["batch", 8, 4, 4])
    for i in range((nodes - 2) // 4):
        name = f"block{i}."
        weight = net.normal(name + "conv.weight", (8, 8, 3, 3), 0.1)
        y = net.op("Conv", x, weight, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        parts = [("weight", 1), ("bias", 0), ("running_mean", 0), ("running_var", 1)]
        y = net.op("BatchNormalization", y, *[net.param(f"{name}bn.{part}", np.full(8, v)) for part, v in parts])
        x = net.op("Add", net.op("Relu", y), x)
    return head(net, net.op("Flatten", x), 128)


def gates(nodes):
    return layers("gates", "Sigmoid", nodes)


MODELS = {"mlp": mlp, "conv": conv, "gates": gates}


# ---- measuring ----

def measured(command):
    """Seconds of the processor and the most KiB of memory of a command."""
    pid = os.fork()
    if not pid:
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        os.execv(command[0], command)
    _, status, usage = os.wait4(pid, 0)
    if status:
        sys.exit(f"{' '.join(command)}: status {status}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss


def measure(build, path, devices):
    how = [str(path), *STEP, "--devices", devices]
    report = json.loads(subprocess.run([str(build / "graph-transform"), *how, "--report", "--json"], check=True, stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL).stdout)
    seconds, kib = measured([str(build / "dpexec"), "train", *how, "--dry-run"])
    passes = {}
    for s in report["stages"]:
        passes[s["pass"]] = passes.get(s["pass"], 0) + s["microseconds"] * 1e-6
    return {"seconds": seconds, "kib": kib, "passes": passes, "nodes": report["stages"][-1]["nodes"],
            "graph_mib": report["stages"][-1]["graph_bytes"] / 2**20, "scratch_mib": max(s["scratch_bytes"] for s in report["stages"]) / 2**20}


# ---- the table ----

def growth(before, now, n_before, n):
    return math.log(now / before) / math.log(n / n_before) if before > 0.02 and now > 0 else None


def cells(values, sizes):
    row = []
    for i, v in enumerate(values):
        e = growth(values[i - 1], v, sizes[i - 1], sizes[i]) if i else None
        row.append(f"{v:8.2f} {'      ' if e is None else f'n^{e:4.2f}'}")
    return row


def table(model, results, sizes):
    rows = [(name, [results[n]["passes"].get(name, 0) for n in sizes]) for name in results[sizes[-1]]["passes"]]
    shown = [r for r in rows if any(v > 0.1 or v > 0.01 * results[n]["seconds"] for v, n in zip(r[1], sizes))]
    rest = [results[n]["seconds"] - sum(v[i] for _, v in shown) for i, n in enumerate(sizes)]
    print(f"\n{model + ', nodes of the file':34}" + "".join(f"{n:>16}" for n in sizes))
    for name, values in [*shown, ("reading, preparing, printing", rest), ("the whole", [results[n]["seconds"] for n in sizes])]:
        print(f"  {name:30}  " + " ".join(cells(values, sizes)))
    for what, key in (("nodes planned", "nodes"), ("MiB of the graph", "graph_mib"), ("MiB of a pass's scratch", "scratch_mib")):
        print(f"  {what:30}  " + " ".join(f"{results[n][key]:8.0f}       " for n in sizes))
    print(f"  {'KiB a node, of the process':30}  " + " ".join(f"{results[n]['kib'] / n:8.2f}       " for n in sizes))


def missed(model, results, sizes, accelerators):
    for i, n in enumerate(sizes):
        r = results[n]
        if n in LIMITS and r["seconds"] > LIMITS[n]:
            yield f"{model} of {n} nodes: {r['seconds']:.1f} s, wanted {LIMITS[n]:.0f}"
        if n >= 30000 and not accelerators and r["kib"] / n > KIB_A_NODE:
            yield f"{model} of {n} nodes: {r['kib'] / n:.1f} KiB a node, wanted {KIB_A_NODE:.0f}"
        for name, seconds in [("the whole", r["seconds"]), *r["passes"].items()] if i else ():
            m = sizes[i - 1]
            before = results[m]["passes"].get(name, 0) if name in r["passes"] else results[m]["seconds"]
            if before > 0.02 and seconds > MATTERS and seconds / before > TOLERANCE * n * math.log(n) / (m * math.log(m)):
                yield f"{model}: {name} grows from {before:.2f} s to {seconds:.2f} s between {m} and {n} nodes"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    p.add_argument("--nodes", default="3000,10000,30000,100000")
    p.add_argument("--models", default=",".join(MODELS))
    p.add_argument("--devices", default="cpu:0,cpu:1")
    p.add_argument("--out", type=pathlib.Path, help="the numbers, as JSON")
    args = p.parse_args()
    sizes, problems, everything = [int(n) for n in args.nodes.split(",")], [], {}
    with tempfile.TemporaryDirectory() as folder:
        for model in args.models.split(","):
            results = {}
            for n in sizes:
                results[n] = measure(args.build, MODELS[model](n).save(pathlib.Path(folder) / "model.onnx"), args.devices)
            table(model, results, sizes)
            everything[model] = results
            problems += missed(model, results, sizes, "cuda" in args.devices)
    if args.out:
        args.out.write_text(json.dumps(everything, indent=1) + "\n")
    print("\n" + "\n".join(["missed:", *problems] if problems else ["within all limits"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
