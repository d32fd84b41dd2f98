#!/usr/bin/env python3
"""Steps of one batch by 1 to 4 processes of one thread each, however they reach each other.  Needs numpy and the launchers of MPI.

    bench/worlds.py [--build build] [--model resnet20|fashion_cnn] [--rounds 5] [--processes 1,2,3,4] [--out FILE.json]

The whole batch is the same for any number of processes, and so are the bits of what is trained (but with --reduce library).  Of a run of
SKIP + STEPS steps the median of the last STEPS counts, as rank 0 notes them; runs of all kinds alternate, and the table has the median
over rounds and the spread.  As long as there are as many cores as processes, each process is kept on a core of its own; more than that
share them and are left to the kernel.  Runs that FILE.json has already count too, and those that are made are added to it.
"""
import argparse
import json
import os
import pathlib
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
SKIP, STEPS = 6, 20
MODELS = {"resnet20": ((3, 32, 32), 64), "fashion_cnn": ((1, 28, 28), 100)}        # an image, the batch
OPEN_MPI = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n"]
LIBRARY = ["--reduce", "library"]
WAYS = {"launch": [], "TCP": [], "Open MPI": [], "MPICH": [], "Open MPI, its sums": LIBRARY, "MPICH, its sums": LIBRARY}


def commands(way, dpexec, n, step, folder):
    """What is started for one run, all at once."""
    if n == 1:
        return [[dpexec, *step]]
    if way == "launch":
        return [[dpexec, "launch", "-n", str(n), "--", *step]]
    if way == "TCP":
        with socket.socket() as s:
            s.bind(("localhost", 0))
            port = s.getsockname()[1]
        secret = folder / "secret"
        if not secret.exists():
            secret.touch(0o600)
            secret.write_bytes(secrets.token_bytes(32))
        where = ["--world", str(n), "--rendezvous", f"127.0.0.1:{port}", "--world-secret", str(secret)]
        return [[dpexec, *step, *where, "--rank", str(r)] for r in range(n)]
    return [[*(OPEN_MPI if way.startswith("Open") else ["mpirun.mpich", "-bind-to", "none", "-n"]), str(n), dpexec, *step]]


def pin(n, mark):
    """Each process of the run on a core of its own, its threads too."""
    deadline = time.monotonic() + 10
    found = []
    while len(found) < n and time.monotonic() < deadline:
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                words = pathlib.Path("/proc", pid, "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0].endswith(b"dpexec") and words[1] == b"train" and mark.encode() in words:
                found.append(int(pid))
        time.sleep(0.02)
    time.sleep(0.3)                         # all threads are there
    for core, pid in enumerate(sorted(found)):
        for thread in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(thread), {core})


def run(way, dpexec, n, model, data, folder):
    out = str(folder / "run")
    step = ["train", str(ROOT / "models" / f"{model}.onnx"), "--data", str(data), "--loss", "cross-entropy", "--batch-size",
            str(MODELS[model][1]), "--lr", "0.01", "--momentum", "0.9", "--steps", str(SKIP + STEPS), "--threads", "1", "--quiet",
            "--out", out, *(WAYS[way] if n > 1 else [])]
    subprocess.run(["rm", "-rf", out], check=True)
    started = [subprocess.Popen(c, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for c in commands(way, dpexec, n, step, folder)]
    if n <= os.cpu_count():
        pin(n, out)
    for p in started:
        said = p.communicate(timeout=120)[1]
        if p.returncode:
            sys.exit(f"{way}, {n} processes: status {p.returncode}: {said.decode()[-400:]}")
    steps = [json.loads(line)["ms"] for line in pathlib.Path(out, "metrics.jsonl").read_text().splitlines()]
    return statistics.median(steps[SKIP:])


def table(model, runs):
    sizes = sorted({r["processes"] for r in runs})
    of = {}
    for r in runs:
        of.setdefault((r["way"], r["processes"]), []).append(r["ms"])
    alone = statistics.median(of["launch", 1])
    print(f"{model}, {MODELS[model][1]} samples a step: ms (least to most), times as fast as one process; {len(of['launch', 1])} rounds")
    print("| | " + " | ".join(str(n) for n in sizes) + " |\n|---|" + "---|" * len(sizes))
    for way in WAYS:
        cells = []
        for n in sizes:
            ms = of["launch" if n == 1 else way, n]
            cells.append(f"{statistics.median(ms):.1f} ({min(ms):.1f}–{max(ms):.1f}), {alone / statistics.median(ms):.2f}")
        print(f"| {way} | " + " | ".join(cells) + " |")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    p.add_argument("--model", choices=MODELS, default="resnet20")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--processes", default="1,2,3,4")
    p.add_argument("--out", type=pathlib.Path)
    a = p.parse_args()
    sizes = [int(n) for n in a.processes.split(",")]
    all_runs = json.loads(a.out.read_text()) if a.out and a.out.exists() else []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        image, batch = MODELS[a.model]
        rng = np.random.default_rng(0)
        np.savez(folder / "d.npz", x=rng.standard_normal((4 * batch, *image)).astype(np.float32), target=rng.integers(0, 10, 4 * batch))
        for _ in range(a.rounds):
            for n in sizes:
                for way in WAYS if n > 1 else ["launch"]:
                    ms = run(way, str(a.build.resolve() / "dpexec"), n, a.model, folder / "d.npz", folder)
                    all_runs.append({"model": a.model, "way": way, "processes": n, "ms": ms, "cores": os.cpu_count()})
                    if a.out:
                        a.out.write_text(json.dumps(all_runs, indent=1) + "\n")
    table(a.model, [r for r in all_runs if r["model"] == a.model])


main()
