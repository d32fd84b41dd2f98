"""Models whose inputs --input-value gives, in ONNX Runtime: given.py DPEXEC FOLDER

The outputs of `dpexec run --input-value` must be those of the model that is fed these numbers, and what training writes must run
without them. Prints a line for each model.
"""
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime

CASES = Path(__file__).resolve().parent.parent / "obeyed"
KINDS = {"tensor(int64)": np.int64, "tensor(float)": np.float32, "tensor(bool)": np.bool_}


def number(text):
    return {"true": 1, "false": 0}.get(text, text)


def fed(session, values):
    """-> arrays of the declared types and shapes."""
    given, out = dict(v.split("=") for v in values), {}
    for i in [*session.get_inputs(), *session.get_overridable_initializers()]:
        if i.name in given:
            numbers = np.array([float(number(n)) for n in given[i.name].split(",")]).astype(KINDS[i.type])
            out[i.name] = numbers.reshape([]) if not i.shape else numbers
    return out


def outputs(dpexec, model, x, folder, flags):
    np.save(folder / "x.npy", x)
    subprocess.run([dpexec, "run", model, "--input", f"x={folder}/x.npy", *flags, "--quiet", "--out", folder / "out"], check=True, capture_output=True)
    return np.load(folder / "out" / "y.npy")


def main():
    dpexec, work = sys.argv[1], Path(sys.argv[2])
    onnxruntime.set_default_logger_severity(3)      # a default of an input is no fault
    work.mkdir()
    for case in sorted(CASES.glob("input_value_*/expected.json")):
        expected, model, folder = json.loads(case.read_text()), str(case.parent / "model.onnx"), work / case.parent.name
        folder.mkdir()
        flags, x = expected["flags"], np.load(case.parent / "data.npz")["x"]
        given = flags[flags.index("--input-value"):]
        session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        before = outputs(dpexec, model, x, folder, given), session.run(None, {"x": x, **fed(session, given[1::2])})[0]
        subprocess.run([dpexec, "train", model, "--data", case.parent / "data.npz", *flags, "--quiet", "--out", folder / "run"], check=True, capture_output=True)
        written = str(folder / "run" / "model.onnx")
        session = onnxruntime.InferenceSession(written, providers=["CPUExecutionProvider"])
        after = outputs(dpexec, written, x, folder, []), session.run(None, {"x": x})[0]
        agree = all(a.shape == b.shape and np.allclose(a, b, 1e-5, 1e-5) for a, b in (before, after)) and not np.allclose(before[0], after[0], 1e-3)
        print(f"{case.parent.name} outputs agree, {[i.name for i in session.get_inputs()]}" if agree else f"FAILED: {case.parent.name}")


if __name__ == "__main__":
    main()
