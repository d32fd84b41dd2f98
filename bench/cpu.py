#!/usr/bin/env python3
"""Training steps of dpexec and PyTorch on the CPU, alternately in one run with equal threads.  Needs torch, onnx, numpy.

    bench/cpu.py [--dpexec build/dpexec] [--threads 1] [--rounds 5] [--only MODEL]

A round runs each program once, as a process of its own: WARM + STEPS training steps of SGD with momentum on the same random
batches, from the weights in models/.  Counted are the user and system time of all threads per step after the first WARM steps
(that is what other load on the machine disturbs least), the wall time of a step, and the process's peak memory.  Medians over
the rounds and their ratios go to standard output and to bench/results/cpu-DATE.json.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
WARM = 3
# model: batch size, steps, classes, shape of a sample (floats) or number of tokens
CASES = {"mlp": (32, 1000, 10, (64,)), "fashion_cnn": (100, 30, 10, (1, 28, 28)), "resnet20": (64, 6, 10, (3, 32, 32)),
         "transformer": (16, 10, 256, 64), "unet": (8, 12, 2, (3, 64, 64))}


def make_data(model, path):
    """Batches enough for a few steps, which an epoch repeats."""
    import numpy as np

    batch, _, classes, sample = CASES[model]
    rng, n = np.random.default_rng(1), 2 * batch
    if isinstance(sample, int):
        x, target = rng.integers(0, classes, (n, sample)), rng.integers(0, classes, (n, sample))
    else:
        x = rng.standard_normal((n, *sample), dtype=np.float32)
        target = rng.integers(0, classes, (n, *sample[1:]) if model == "unet" else n)
    np.savez(path, **{input_name(model): x, "target": target})


def input_name(model):
    import onnx

    graph = onnx.load(str(ROOT / f"models/{model}.onnx")).graph
    return next(i.name for i in graph.input if i.name not in {t.name for t in graph.initializer})


def torch_steps(model, data, steps, threads):
    """Runs in a process of its own."""
    sys.path.insert(0, str(ROOT / "tests/oracle"))
    import nets
    import numpy as np
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(threads)
    arrays, batch = np.load(data), CASES[model][0]
    x, target = (torch.from_numpy(arrays[k]) for k in (input_name(model), "target"))
    net, _ = nets.load(f"models/{model}.onnx", torch.float32)
    opt = torch.optim.SGD(net.parameters(), 0.001, momentum=0.9)
    net.train()
    for i in range(steps):
        at = i % 2 * batch
        opt.zero_grad(set_to_none=True)
        F.cross_entropy(net(x[at:at + batch]), target[at:at + batch]).backward()
        opt.step()


def command(who, model, data, steps, args, out):
    if who == "torch":
        return [sys.executable, __file__, "--torch", model, "--data", str(data), "--steps", str(steps), "--threads", str(args.threads)]
    return [args.dpexec, "train", f"models/{model}.onnx", "--data", str(data), "--loss", "cross-entropy", "--batch-size",
            str(CASES[model][0]), "--momentum", "0.9", "--lr", "0.001", "--steps", str(steps), "--devices", "cpu", "--threads",
            str(args.threads), "--quiet", "--out", str(out)]


def measure(cmd, threads):
    """CPU seconds, wall seconds and peak memory in MiB of one process."""
    start = datetime.datetime.now()
    env = dict(os.environ, OMP_NUM_THREADS=str(threads))
    child = subprocess.Popen(cmd, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    error = child.stderr.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{' '.join(cmd)}: {error.decode().strip()}")
    return used.ru_utime + used.ru_stime, (datetime.datetime.now() - start).total_seconds(), used.ru_maxrss / 1024


def one_round(who, model, data, args, tmp, number):
    """Per step: what WARM + STEPS steps take more than WARM."""
    steps = CASES[model][1]
    few, many = (measure(command(who, model, data, n, args, tmp / f"{who}-{model}-{number}-{n}"), args.threads)
                 for n in (WARM, WARM + steps))
    return {"cpu_ms": 1e3 * (many[0] - few[0]) / steps, "wall_ms": 1e3 * (many[1] - few[1]) / steps, "peak_mib": many[2]}


def run_model(model, args, tmp):
    data = tmp / f"{model}.npz"
    make_data(model, data)
    rounds = {"dpexec": [], "torch": []}
    for i in range(args.rounds):
        for who in rounds:
            rounds[who].append(one_round(who, model, data, args, tmp, i))
    row = {"model": model, "batch": CASES[model][0], "rounds": rounds}
    for key in ("cpu_ms", "wall_ms", "peak_mib"):
        a, b = (statistics.median(r[key] for r in rounds[who]) for who in ("dpexec", "torch"))
        row[key] = {"dpexec": a, "torch": b, "ratio": a / b}
    return row


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--dpexec", default="build/dpexec")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--only", choices=CASES)
    for hidden in ("--torch", "--data", "--steps"):
        p.add_argument(hidden, help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.torch:
        return torch_steps(args.torch, args.data, int(args.steps), args.threads)
    with tempfile.TemporaryDirectory() as tmp:
        rows = []
        print("model (batch)        CPU ms/step dpexec  torch  ratio   wall ratio   peak MiB dpexec  torch")
        for model in [args.only] if args.only else CASES:
            r = run_model(model, args, pathlib.Path(tmp))
            rows.append(r)
            c, w, m = r["cpu_ms"], r["wall_ms"], r["peak_mib"]
            print(f"{model + ' (' + str(r['batch']) + ')':20} {c['dpexec']:18.2f} {c['torch']:6.2f} {c['ratio']:6.2f} {w['ratio']:12.2f}"
                  f" {m['dpexec']:17.0f} {m['torch']:6.0f}", flush=True)
    out = ROOT / f"bench/results/cpu-{datetime.date.today()}.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps({"machine": platform.processor() or platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg(),
                               "threads": args.threads, "rounds": args.rounds, "models": rows}, indent=1) + "\n")
    return None


if __name__ == "__main__":
    main()
