#!/usr/bin/env python3
"""Compares runs of dpexec with data/expected.json.  Needs numpy and onnx.

    check.py --list                 # the cases
    check.py --args CASE            # arguments of `dpexec train`, one a line; --out is the caller's
    check.py CASE OUT LOG           # OUT: the run's folder; LOG: what it printed
"""
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent


def arguments(case, e):
    return [HERE / "data" / f"{case}.onnx", "--data", HERE / "data" / f"{e['net']}.npz", *e["args"], "--lr", e["lr"], "--momentum", "0.9",
            "--batch-size", "4", "--steps", len(e["losses"]), "--no-shuffle", "--dtype", "float64", "--threads", "1"]


def compare(e, out, said):
    """-> what is wrong."""
    import judge        # here: listing needs no packages

    losses = [m["loss"] for m in map(json.loads, (out / "metrics.jsonl").read_text().splitlines()) if "loss" in m]
    checkpoint = judge.state(next((out / "checkpoints").glob("step-*/state.safetensors")))
    trained = {k[:-len(".momentum")] for k in checkpoint if k.endswith(".momentum")}
    if not e["same"]:
        return [] if judge.warnings_in(said) else ["the file holds another network, and no warning says so"]
    wrong = []
    apart = max(abs(a - b) / abs(b) for a, b in zip(losses, e["losses"], strict=True))
    if not apart <= judge.CLOSE:
        wrong.append(f"losses differ by {apart:.1e}")
    if len(trained) != e["parameters"]:
        wrong.append(f"{len(trained)} tensors are trained, of {e['parameters']} parameters")
    return wrong + [f"{n} is trained, and no parameter" for n in sorted(trained & set(e["others"]))]


def main():
    expected = json.loads((HERE / "data" / "expected.json").read_text())
    if sys.argv[1:] == ["--list"]:
        return print(*expected, sep="\n")
    if sys.argv[1] == "--args":
        return print(*arguments(sys.argv[2], expected[sys.argv[2]]), sep="\n")
    wrong = compare(expected[sys.argv[1]], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]).read_text())
    print(*wrong, sep="; ")
    return sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
