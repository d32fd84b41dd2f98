#!/usr/bin/env python3
"""Simulated steps beside measured ones: 1 to 4 processes of this machine, each with one thread.  Needs numpy.

    bench/simulate.py [--build build] [--rounds 9] [--steps 25] [--models resnet20,transformer,unet] [--out FILE.json]

The machine is described by `dpexec launch -n 2 -- devices --links`, one process by a trace of a step of its own; nothing is fitted.  3
and 4 processes are described as what they are, sharing the machine's 2 cores ("node": {"cores": 2}).  Each round measures all numbers of
processes, one after another, so that what disturbs the machine disturbs all; processes may run on two cores alone (one on the first).
A run's time is the median of its steps without the first five.  Compared are ratios to one process, medians of the rounds' ratios;
the script fails when one is off by more than 15 %.  mlp and fashion_cnn have steps of a few milliseconds and less, of which the operating
system decides more than the model does, by where it puts two processes.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIMIT = 0.15
PROCESSES = (1, 2, 3, 4)
WARM = 5
CLASSES = ["--loss", "cross-entropy", "--optimizer", "sgd", "--momentum", "0.9", "--lr", "0.001"]
MODELS = {      # input, one sample of it, target, options; samples of a process
    "resnet20": ("image", (3, 32, 32), (), CLASSES, 16),
    "transformer": ("tokens", (64,), (64,), CLASSES, 16),
    "unet": ("image", (3, 64, 64), (64, 64), CLASSES, 4),
    "mlp": ("x", (64,), (), CLASSES, 256),
    "fashion_cnn": ("image", (1, 28, 28), (), CLASSES, 32),
}


def write_data(path, model, samples):
    name, shape, target, _, _ = MODELS[model]
    rng = np.random.default_rng(1)
    x = rng.integers(0, 256, (samples, *shape)) if name == "tokens" else rng.normal(size=(samples, *shape)).astype(np.float32)
    np.savez(path, **{name: x, "target": rng.integers(0, 2 if model == "unet" else 10, (samples, *target))})
    return path


def run(command, cores):
    env = dict(os.environ, OMP_NUM_THREADS="1")
    return subprocess.run([str(c) for c in command], check=True, env=env, stdout=subprocess.PIPE,
                          preexec_fn=lambda: os.sched_setaffinity(0, cores)).stdout


class Machine:
    def __init__(self, build, folder, steps):
        self.build, self.folder, self.steps = build, pathlib.Path(folder), steps
        self.cores = sorted(os.sched_getaffinity(0))[:2]

    def dpexec(self, processes, *args):
        launch = ["launch", "-n", processes, "--"] if processes > 1 else []
        return run([self.build / "dpexec", *launch, *args], self.cores[:1] if processes == 1 else self.cores)

    def step(self, model, processes, *more):
        """Seconds of a step."""
        batch = MODELS[model][4] * processes
        data = self.folder / f"{model}.npz"
        if not data.exists():
            write_data(data, model, MODELS[model][4] * max(PROCESSES) * (WARM + 1))
        out = self.folder / "run"
        subprocess.run(["rm", "-rf", out], check=True)
        self.dpexec(processes, "train", ROOT / "models" / f"{model}.onnx", "--data", data, *MODELS[model][3], "--batch-size", batch,
                    "--steps", self.steps, "--drop-last", "--threads", 1, "--quiet", "--out", out, *more)
        lines = [json.loads(line) for line in open(out / "metrics.jsonl")]
        return statistics.median(line["ms"] for line in lines[WARM:]) / 1000

    def cluster(self):
        """What this machine is, measured by two processes with a core each, said of up to four."""
        path = self.folder / "cluster.json"
        self.dpexec(2, "devices", "--links", "--threads", 1, "-o", path)
        described = json.loads(path.read_text())
        described.update(devices_per_node=max(PROCESSES), counts=list(PROCESSES))
        path.write_text(json.dumps(described))
        return path

    def simulate(self, model, cluster):
        trace = self.folder / "trace.json"
        self.step(model, 1, "--trace", trace)
        found = run([self.build / "graph-transform", ROOT / "models" / f"{model}.onnx", *MODELS[model][3], "--batch-size",
                     MODELS[model][4], "--threads", 1, "--shard", "none", "--simulate", cluster, "--rates", trace, "--json"], self.cores)
        return {row["devices"]: row for row in json.loads(found)["rows"]}


def compare(machine, model, cluster, rounds):
    simulated = machine.simulate(model, cluster)
    took = [{n: machine.step(model, n) for n in PROCESSES} for _ in range(rounds)]
    rows = []
    print(f"\n{model}, {MODELS[model][4]} samples a process: {1000 * statistics.median(t[1] for t in took):.2f} ms a step of one, "
          f"simulated {1000 * simulated[1]['seconds']:.2f}\n{'processes':>10}{'measured':>10}{'spread':>16}{'simulated':>11}{'off by':>9}")
    for n in PROCESSES[1:]:
        ratios = sorted(t[n] / t[1] for t in took)
        measured, ratio = statistics.median(ratios), simulated[n]["seconds"] / simulated[1]["seconds"]
        rows.append({"model": model, "processes": n, "measured": measured, "least": ratios[0], "most": ratios[-1], "simulated": ratio,
                     "wire_seconds": simulated[n]["wire_seconds"], "milliseconds": [1000 * t[n] for t in took]})
        print(f"{n:10}{measured:10.3f}{ratios[0]:8.3f}-{ratios[-1]:.3f}{ratio:11.3f}{100 * (ratio / measured - 1):8.1f} %", flush=True)
    return rows


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--steps", type=int, default=25)
    p.add_argument("--models", default="resnet20,transformer,unet")
    p.add_argument("--out", type=pathlib.Path)
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(args.build.resolve(), folder, args.steps)
        cluster = machine.cluster()
        print(cluster.read_text())
        rows = [row for model in args.models.split(",") for row in compare(machine, model, cluster, args.rounds)]
    if args.out:
        args.out.write_text(json.dumps({"rows": rows}, indent=1))
    wrong = [r for r in rows if abs(r["simulated"] / r["measured"] - 1) > LIMIT]
    print(f"\n{len(wrong)} of {len(rows)} rows are off by more than {100 * LIMIT:.0f} %")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
