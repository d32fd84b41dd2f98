#!/usr/bin/env python3
"""Two replicas on two cores against two independent runs of half the batch, interleaved.  Needs numpy and onnx.

    bench/two_cores.py [--dpexec build/dpexec] [--model resnet20] [--batch 64] [--rounds 9] [--steps 40] [--cores 0,1]

A round runs one process with `--devices cpu*2 --threads 1` that is kept to both cores, batch-norm over both replicas, and then two
processes at once, each with one device and half the batch on half of the data, each kept to one core.  All use one thread for a device.
A rate is samples per second of the steps after the first WARM, by the times in metrics.jsonl: starting is not in it.  CPU time per sample
is what a run of WARM + STEPS steps takes more than one of WARM.  Prints each round, the median of the ratio of the rates, and its spread.

Who meets waits for the slower one.  What that alone costs on this machine is told by the independent runs, which are traced once more each
round: if each step ended at once for both, or if they met for nothing after the statistics of each batch-norm, forward and backward, as
replicas do, each stretch between two meetings would take as long as the longer of the two did.  Printed as "waits": the rate of such runs
against the independent ones, which no way of exchanging numbers exceeds but by meeting less often.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import cpu_models

WARM = 5


def write_data(model, samples, path):
    import numpy as np

    arrays = cpu_models.random_samples(model, samples)
    for name, part in (("whole", slice(None)), ("half0", slice(0, samples // 2)), ("half1", slice(samples // 2, None))):
        np.savez(path / f"{name}.npz", **{key: a[part] for key, a in arrays.items()})


def start(args, tmp, data, batch, devices, cores, steps, *more):
    out = tmp / f"run-{data}"
    shutil.rmtree(out, ignore_errors=True)
    command = ["taskset", "-c", cores, args.dpexec, "train", str(cpu_models.ROOT / f"models/{args.model}.onnx"), "--data", str(tmp / f"{data}.npz"),
               "--loss", "cross-entropy", "--batch-size", str(batch), "--momentum", "0.9", "--lr", "0.001", "--steps", str(steps),
               "--devices", devices, "--threads", "1", "--quiet", "--out", str(out), *more]
    return out, subprocess.Popen(command, env=dict(os.environ, OMP_NUM_THREADS="1"), stdout=subprocess.DEVNULL)


def finish(started):
    """Samples per second, and CPU seconds of the whole process."""
    out, child = started
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{' '.join(child.args)}: exit status {child.returncode}")
    steps = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    steady = [s for s in steps if s.get("step", 0) > WARM]
    rate = 1e3 * sum(s["samples"] for s in steady) / sum(s["ms"] for s in steady) if steady else 0
    return rate, used.ru_utime + used.ru_stime


def measure(args, tmp, together, steps):
    if together:
        runs = [start(args, tmp, "whole", args.batch, "cpu*2", ",".join(args.cores), steps)]
    else:
        runs = [start(args, tmp, f"half{i}", args.batch // 2, "cpu", core, steps) for i, core in enumerate(args.cores)]
    rates, seconds = zip(*(finish(r) for r in runs))
    return sum(rates), sum(seconds)


def stretches(path):
    """Of each step after the first WARM: microseconds from its first call to the end of each statistic, and to the end."""
    with open(path) as f:
        calls = sorted((e for e in json.load(f)["traceEvents"] if e.get("ph") == "X"), key=lambda e: e["ts"])
    first = next(e["name"] for e in calls if e["cat"] != "Add")     # the count of steps comes first
    steps = []
    for e in calls:
        if e["name"] == first and e["cat"] != "Update" and (not steps or e["cat"] == steps[0][0]["cat"]):
            steps.append([])
        if steps:
            steps[-1].append(e)
    for step in steps[WARM:]:
        ends = [e["ts"] + e["dur"] for e in step]
        cuts = [step[0]["ts"], *(end for end, e in zip(ends, step) if e["cat"].startswith("BatchNorm") and e["cat"].endswith("Stats")), ends[-1]]
        yield [b - a for a, b in zip(cuts, cuts[1:])]


def waits(args, tmp):
    """The rate of runs that wait for each other, against those that do not: once a step, and after each statistic."""
    traces = [tmp / f"trace{i}.json" for i in range(2)]
    runs = [start(args, tmp, f"half{i}", args.batch // 2, "cpu", core, WARM + args.steps, "--trace", str(traces[i]))
            for i, core in enumerate(args.cores)]
    for r in runs:
        finish(r)
    pairs = list(zip(*(stretches(t) for t in traces)))
    mean = sum(sum(a) + sum(b) for a, b in pairs) / 2
    return mean / sum(max(sum(a), sum(b)) for a, b in pairs), mean / sum(max(x, y) for a, b in pairs for x, y in zip(a, b))


def one_round(args, tmp):
    round_ = {"waits": waits(args, tmp)}
    for name, together in (("replicas", True), ("independent", False)):
        _, little = measure(args, tmp, together, WARM)
        rate, much = measure(args, tmp, together, WARM + args.steps)
        round_[name] = {"rate": rate, "cpu_ms": 1e3 * (much - little) / (args.steps * args.batch)}
    round_["ratio"] = round_["replicas"]["rate"] / round_["independent"]["rate"]
    return round_


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--dpexec", default="build/dpexec")
    p.add_argument("--model", choices=cpu_models.OWN, default="resnet20")
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--steps", type=int, default=40)
    p.add_argument("--cores", type=lambda text: text.split(","), default=["0", "1"])
    args = p.parse_args()
    if len(args.cores) != 2 or args.batch % 2:
        p.error("expected two cores and an even batch")
    rounds = []
    with tempfile.TemporaryDirectory() as tmp:
        write_data(args.model, 2 * args.batch, pathlib.Path(tmp))
        for _ in range(args.rounds):
            r = one_round(args, pathlib.Path(tmp))
            rounds.append(r)
            a, b = r["replicas"], r["independent"]
            print(f"replicas {a['rate']:8.1f}/s {a['cpu_ms']:.3f} ms CPU a sample   independent {b['rate']:8.1f}/s {b['cpu_ms']:.3f} ms"
                  f"   ratio {r['ratio']:.3f}   waits {r['waits'][0]:.3f} {r['waits'][1]:.3f}", flush=True)
    ratios = [r["ratio"] for r in rounds]
    cpu_of = {name: statistics.median(r[name]["cpu_ms"] for r in rounds) for name in ("replicas", "independent")}
    print(f"median ratio {statistics.median(ratios):.3f}, from {min(ratios):.3f} to {max(ratios):.3f}; CPU ms a sample"
          f" {cpu_of['replicas']:.3f} against {cpu_of['independent']:.3f}, batch {args.batch}; waits alone, once a step"
          f" {statistics.median(r['waits'][0] for r in rounds):.3f}, at each statistic {statistics.median(r['waits'][1] for r in rounds):.3f}")


if __name__ == "__main__":
    main()
