#!/usr/bin/env python3
"""Compares one run of dpexec with the oracle.  Needs numpy and onnx.

    compare.py CASE OUTDIR [float64]

Prints the largest relative difference of the losses and of the final weights; exit status 1 beyond the tolerance.
With `float64` the run was made with --dtype float64, and the tighter tolerance holds.
"""
import json
import pathlib
import sys

import numpy as np
import onnx
from onnx import numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
WHOLE = 4096    # see README.md: larger tensors may be stored as every sample-th element


def relative(a, b):
    return float(np.linalg.norm(a - b) / max(np.linalg.norm(b), 1e-300))


def loss_differences(case, out):
    steps = [m for m in map(json.loads, (out / "metrics.jsonl").read_text().splitlines()) if "loss" in m]
    if len(steps) != len(case["losses"]):
        sys.exit(f"{case['name']}: {len(steps)} steps in metrics.jsonl, expected {len(case['losses'])}")
    return {f"step {i}": abs(m["loss"] - b) / abs(b) for i, (m, b) in enumerate(zip(steps, case["losses"]), 1)}


def weight_differences(case, out):
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
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    cases = {c["name"]: c for c in json.loads((ROOT / "tests/oracle/cases.json").read_text())["cases"]}
    case, out = cases[sys.argv[1]], pathlib.Path(sys.argv[2])
    tolerance, bad = case["tolerance"][(sys.argv[3:] or ["float32"])[0]], False
    for kind, found in [("losses", loss_differences(case, out)), ("weights", weight_differences(case, out))]:
        worst = max(found, key=lambda k: found[k] if found[k] == found[k] else np.inf)
        ok = found[worst] <= tolerance[kind]
        bad |= not ok
        print(f"{case['name']}: {kind} differ by {found[worst]:.2e} ({worst}), allowed {tolerance[kind]:.0e}: "
              f"{'ok' if ok else 'TOO MUCH'}")
    sys.exit(bad)


if __name__ == "__main__":
    main()
