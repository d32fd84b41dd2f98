#!/usr/bin/env python3
"""Compares one run of dpexec with the oracle.  Needs numpy and onnx.

    compare.py CASE OUTDIR [float64]
    compare.py --list               # the names of the cases
    compare.py --args CASE          # dpexec's arguments but --out, one a line
    compare.py --eval-args CASE     # those of `dpexec eval MODEL.onnx`, nothing for a case without evaluation

Prints the largest relative difference of the losses and of the final weights; exit status 1 beyond the tolerance.
With `float64` the run was made with --dtype float64, and the tighter tolerance holds.  OUTDIR/eval.json, if there, is what
`dpexec eval` printed of the trained model.
"""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
WHOLE = 4096    # see README.md: larger tensors may be stored as every sample-th element
TRAINING_ONLY = ["--optimizer", "--lr", "--lr-schedule", "--momentum", "--weight-decay", "--beta1", "--beta2", "--eps", "--steps",
                 "--warmup-steps", "--accumulate", "--clip-norm", "--nesterov", "--no-shuffle"]
FLAGS = ["--nesterov", "--no-shuffle"]


def relative(a, b):
    import numpy as np      # here and below: listing cases needs no packages

    return float(np.linalg.norm(a - b) / max(np.linalg.norm(b), 1e-300))


def loss_differences(case, out):
    steps = [m for m in map(json.loads, (out / "metrics.jsonl").read_text().splitlines()) if "loss" in m]
    if len(steps) != len(case["losses"]):
        sys.exit(f"{case['name']}: {len(steps)} steps in metrics.jsonl, expected {len(case['losses'])}")
    return {f"step {i}": abs(m["loss"] - b) / abs(b) for i, (m, b) in enumerate(zip(steps, case["losses"]), 1)}


def rate_differences(case, out):
    steps = [m for m in map(json.loads, (out / "metrics.jsonl").read_text().splitlines()) if "loss" in m]
    return {f"step {i}": abs(m["lr"] - b) / max(abs(b), 1e-12) for i, (m, b) in enumerate(zip(steps, case["lr"]), 1)}


def eval_differences(case, out):
    found = json.loads((out / "eval.json").read_text())
    loss = abs(found["eval_loss"] - case["eval_loss"]) / abs(case["eval_loss"])
    return {"eval_loss": loss, "eval_accuracy": abs(found.get("eval_accuracy", -1) - case["eval_accuracy"])}


def eval_args(case):
    """The case's arguments less those that evaluation does without; none when the case expects no evaluation."""
    if "eval_loss" not in case:
        return []
    args, kept = iter(case["args"][1:]), ["--metric", "accuracy"]
    for a in args:
        if a in TRAINING_ONLY:
            if a not in FLAGS:
                next(args)
        else:
            kept.append(a)
    return kept


def weight_differences(case, out):
    import numpy as np
    import onnx
    from onnx import numpy_helper

    trained = {t.name: numpy_helper.to_array(t) for t in onnx.load(str(out / "model.onnx")).graph.initializer}
    result = {}
    for name, b in np.load(ROOT / case["weights"]).items():
        if name in case["except"]:
            continue
        if name not in trained:
            sys.exit(f"{case['name']}: {name} is not in model.onnx")
        a = trained[name].astype(np.float64)
        a = a if a.size <= WHOLE or case["sample"] == 1 else a.ravel()[::case["sample"]]
        result[name] = relative(a, b.astype(np.float64))
    return result


def main():
    cases = {c["name"]: c for c in json.loads((ROOT / "tests/oracle/cases.json").read_text())["cases"]}
    if sys.argv[1:] == ["--list"]:
        return print(*cases, sep="\n")
    if len(sys.argv) == 3 and sys.argv[1] in ("--args", "--eval-args"):
        case = cases[sys.argv[2]]
        for a in case["args"] if sys.argv[1] == "--args" else eval_args(case):
            print(a)
        return None
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    case, out = cases[sys.argv[1]], pathlib.Path(sys.argv[2])
    tolerance, bad = case["tolerance"][(sys.argv[3:] or ["float32"])[0]], False
    checks = [("losses", tolerance["losses"], loss_differences(case, out)), ("weights", tolerance["weights"], weight_differences(case, out)),
              ("rates", 1e-6, rate_differences(case, out))]
    if (out / "eval.json").exists():
        checks.append(("evaluation", 1e-3, eval_differences(case, out)))
    for kind, allowed, found in checks:
        worst = max(found, key=lambda k: found[k] if found[k] == found[k] else float("inf"))
        ok = found[worst] <= allowed
        bad |= not ok
        print(f"{case['name']}: {kind} differ by {found[worst]:.2e} ({worst}), allowed {allowed:.0e}: {'ok' if ok else 'TOO MUCH'}")
    return sys.exit(bad)


if __name__ == "__main__":
    main()
