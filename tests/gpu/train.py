#!/usr/bin/env python3
"""Trains on a CUDA device and on the CPU and compares.  Needs nothing but Python.

    tests/gpu/train.py DPEXEC [--jobs 4] [--quick] [--trial]

The cases are those of the PyTorch oracle (tests/oracle/cases.json) that train a model of models/ by SGD or AdamW, and
exported_resnet, which has dropout.  Each must have, step by step,
  - the losses of the CPU within 1e-3 of them (of 0.1 at least), float32, TF32 off, with one replica and with three on the device;
    with dropout that is so only if the masks are the same;
  - where PyTorch's losses are known, those too;
  - captured as one graph, as every step but the first is, and issued call by call (--no-capture) the same bits: losses and trained
    model;
  - with --reproducible the losses of the CPU, and the same bits again, call by call, of three replicas;
  - in bfloat16 the same bits captured and while a trace is taken, call by call, and in the first step, which begins alike, the loss of
    the CPU in bfloat16 within 4 epsilons (2^-6): all roundings of a step together move a loss by less (tests/exec/precision.c).
--quick: all of that of the models in FULL, and of the others what one replica shows in float32 and in bfloat16.
--trial: small cases and few steps, for a simulated device.  Ends with "N passed, N failed".
"""
import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SETTINGS = ("sgd", "adamw")
DROPOUT = {"name": "exported_resnet-dropout", "steps": 20, "args": [
    "models/exported_resnet.onnx", "--data", "tests/oracle/data/images32.npz", "--loss", "cross-entropy", "--batch-size", "8",
    "--optimizer", "sgd", "--lr", "0.01", "--momentum", "0.9", "--no-shuffle", "--seed", "3"]}
FULL = ("mlp-sgd", "resnet20-sgd", "transformer-adamw")
TRIAL = {"mlp-sgd": 4, "mlp-adamw": 2, "fashion_cnn-sgd": 1}


def cases():
    found = [DROPOUT]
    for c in json.loads((ROOT / "tests/oracle/cases.json").read_text())["cases"]:
        if c["name"].rpartition("-")[2] in SETTINGS and c["model"].startswith("models/"):
            args = list(c["args"])
            at = args.index("--steps")
            steps = int(args[at + 1])
            found.append({"name": c["name"], "args": args[:at] + args[at + 2:], "steps": steps, "losses": c["losses"]})
    return found


class Run:
    """One run of dpexec: its losses and its trained model's bytes, or why it failed; and what it said."""

    def __init__(self, dpexec, case, *more):
        self.error, self.losses, self.model, self.said = None, [], b"", ""
        with tempfile.TemporaryDirectory() as tmp:
            command = [*([dpexec] if isinstance(dpexec, str) else dpexec), "train", *case["args"], "--steps", str(case["steps"]), "--quiet", "--out", f"{tmp}/run", *more]
            command = [a.replace("TRACE", f"{tmp}/trace.json") for a in command]
            done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            self.said = done.stderr
            if done.returncode:
                self.error = f"exit {done.returncode}: {done.stderr.strip()[-400:]}"
                return
            self.read(pathlib.Path(tmp) / "run")

    def read(self, folder):
        lines = (folder / "metrics.jsonl").read_text().splitlines()
        self.losses = [r["loss"] for r in map(json.loads, lines) if "loss" in r]
        self.model = (folder / "model.onnx").read_bytes()


def close(found, expected, most=1e-3):
    """What is wrong, or None: losses further than `most` from those expected, relative to them or to 0.1."""
    if found.error:
        return found.error
    if len(found.losses) != len(expected):
        return f"{len(found.losses)} losses, expected {len(expected)}"
    for k, (f, e) in enumerate(zip(found.losses, expected)):
        if not abs(f - e) <= most * max(abs(e), 0.1):
            return f"loss of step {k + 1} is {f:.8g}, expected {e:.8g}"
    return None


def captured(run):
    """Why it was not, or None: then steps are slower, but not wrong."""
    return run.error or next((line for line in run.said.splitlines() if "cannot be captured" in line), None)


def same(found, expected):
    if found.error or expected.error:
        return found.error or expected.error
    if found.losses != expected.losses:
        k = next(k for k, (f, e) in enumerate(zip(found.losses, expected.losses)) if f != e)
        return f"loss of step {k + 1} is {found.losses[k]!r}, captured {expected.losses[k]!r}"
    return None if found.model == expected.model else "the trained models differ"


def check(dpexec, case, threads, trial, quick):
    """[(what, what is wrong or None)] of one case."""
    gpu, uncaptured = ("--devices", "cuda:0"), "--no-capture"
    cpu = Run(dpexec, case, "--devices", "cpu", "--threads", str(threads))
    plain = Run(dpexec, case, *gpu)
    results = [("losses of the CPU", cpu.error or close(plain, cpu.losses))]
    if "losses" in case:
        results.append(("losses of PyTorch", close(plain, case["losses"][:case["steps"]])))
    results.append(("captured", captured(plain)))
    results.append(("uncaptured", same(Run(dpexec, case, *gpu, uncaptured), plain)))
    if case["name"].startswith("mlp"):
        results.append(("node by node", same(Run(dpexec, case, *gpu, "--check-nodes"), plain)))
    if trial and not case["name"].startswith("mlp"):
        return results
    if not quick or case["name"] in FULL:
        results.append(("three replicas", cpu.error or close(Run(dpexec, case, *gpu, "--replicas", "3"), cpu.losses)))
        again = (*gpu, "--reproducible", "--replicas", "3")
        reproducible = Run(dpexec, case, *again)
        results.append(("reproducible", cpu.error or close(reproducible, cpu.losses)))
        results.append(("reproducible, again", same(Run(dpexec, case, *again, uncaptured), reproducible)))
    low = (*gpu, "--precision", "bfloat16")
    low_plain = Run(dpexec, case, *low)
    low_cpu = Run(dpexec, dict(case, steps=1), "--devices", "cpu", "--threads", str(threads), "--precision", "bfloat16")
    results.append(("bfloat16, the CPU's first loss", low_cpu.error or close(Run(dpexec, dict(case, steps=1), *low), low_cpu.losses, 2**-6)))
    results.append(("bfloat16, captured", captured(low_plain)))
    results.append(("bfloat16, uncaptured and timed", same(Run(dpexec, case, *low, "--trace", "TRACE"), low_plain)))
    return results


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("dpexec")
    p.add_argument("--jobs", type=int, default=4)
    p.add_argument("--quick", action="store_true")
    p.add_argument("--threads", type=int, default=1, help="of the CPU device")
    p.add_argument("--trial", action="store_true")
    args = p.parse_args()
    dpexec = str(pathlib.Path(args.dpexec).resolve())
    todo = [c for c in cases() if not args.trial or c["name"] in TRIAL]
    if args.trial:
        todo = [dict(c, steps=TRIAL[c["name"]]) for c in todo]
    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for case, results in zip(todo, pool.map(lambda c: check(dpexec, c, args.threads, args.trial, args.quick), todo)):
            for what, wrong in results:
                passed, failed = passed + (not wrong), failed + bool(wrong)
                if wrong:
                    print(f"FAILED: {case['name']}, {what}: {wrong}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return failed > 0 or passed == 0


if __name__ == "__main__":
    sys.exit(main())
