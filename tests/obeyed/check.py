#!/usr/bin/env python3
"""Trains the cases beside this file on one and on three replicas and compares them with what their expected.json holds.

    check.py BUILD_DIR [CASE...]        ends with "N passed, N failed"

A case is a folder CASE with a model, its data and expected.json:

    model, data     files of the folder; "data" may be a list of several --data
    flags           more arguments of `dpexec train`; a file of the folder is found there
    losses          of each step, from PyTorch in float64 (make.py beside the case, or "source", says how); may be absent beside "says"
    trained         optional: names of all tensors that are trained
    says            optional: texts that the run prints, each as one line's part
    unsaid          optional: texts that no line of the run may have
    silent          optional: true when no warning may be printed
    refused         instead of losses: a text of the one-line error; the exit status is not 0
    evaluation      optional: {"data", "flags", "loss"}: `dpexec eval` of the trained model.onnx
    again           optional: {"data", "flags", "losses"}: `dpexec train` of the trained model.onnx
    tensors         optional: {name: numbers}: initializers of the trained model.onnx, flat
    checked         optional: true when onnx.checker must take the trained model.onnx
    outputs         optional: {"inputs": {NAME: FILE.npy}, "flags", "file"}: `dpexec run` of "model" itself; "file" is an .npz of its outputs
    replicas        optional: numbers of replicas [1, 3]
    dtype           optional: of the training [float64]

Needs numpy and onnx.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
CLOSE = 1e-6         # files hold epsilons, folded weights and trained models in float32


def far(found, expected):
    """Largest difference relative to the larger of the expected magnitude and 1; inf for unlike counts."""
    found, expected = np.asarray(found, np.float64).ravel(), np.asarray(expected, np.float64).ravel()
    if found.shape != expected.shape:
        return np.inf
    return float(np.max(np.abs(found - expected) / np.maximum(np.abs(expected), 1), initial=0)) if np.isfinite(found).all() else np.inf


class Case:
    def __init__(self, build, folder, work):
        self.build, self.folder, self.work = build, folder, work
        self.expected = json.loads((folder / "expected.json").read_text())
        self.dtype = ["--dtype", self.expected.get("dtype", "float64")]

    def arguments(self, flags):
        return [str(self.folder / f) if (self.folder / f).is_file() else f for f in flags]

    def data(self, of):
        files = of["data"] if isinstance(of["data"], list) else [of["data"]]
        return [a for f in files for a in ("--data", str(self.folder / f))]

    def tool(self, *args):
        run = subprocess.run([str(self.build / "dpexec"), *map(str, args)], capture_output=True, text=True, timeout=300)
        return run.returncode, run.stdout + run.stderr

    def train(self, replicas):
        """-> what is wrong."""
        e, out = self.expected, self.work / f"{self.folder.name}.{replicas}"
        status, said = self.tool("train", self.folder / e["model"], *self.data(e), "--no-shuffle", "--plain-defaults", "--threads", 1, "--replicas", replicas,
                                 *self.dtype, "--out", out, *self.arguments(e["flags"]))
        wrong = [f"does not say {text!r}" for text in e.get("says", []) if not any(text in line for line in said.splitlines())]
        wrong += [f"says {text!r}" for text in e.get("unsaid", []) if text in said]
        if e.get("silent") and "warning" in said:
            wrong.append("warns: " + next(line for line in said.splitlines() if "warning" in line))
        if "refused" in e:
            ok = status not in (0, 99) and status < 128 and e["refused"] in said
            return wrong if ok else [*wrong, f"exit {status}, expected a refusal with {e['refused']!r}: {said[-300:]}"]
        if status:
            return [f"exit {status}: {said[-300:]}"]
        losses = [m["loss"] for m in map(json.loads, (out / "metrics.jsonl").read_text().splitlines()) if "loss" in m]
        if "losses" in e and not far(losses, e["losses"]) <= CLOSE:
            wrong.append(f"losses {losses}, expected {e['losses']}")
        if "evaluation" in e:
            wrong += self.evaluate(out)
        if "tensors" in e:
            wrong += self.tensors(out)
        if "again" in e:
            wrong += self.again(out, replicas)
        if e.get("checked"):
            onnx.checker.check_model(onnx.load(out / "model.onnx"))
        return wrong

    def again(self, out, replicas):
        e, then = self.expected["again"], out.with_name(out.name + ".again")
        status, said = self.tool("train", out / "model.onnx", *self.data(e), "--no-shuffle", "--plain-defaults", "--threads", 1, "--replicas", replicas, *self.dtype,
                                 "--out", then, *self.arguments(e["flags"]))
        if status:
            return [f"again: exit {status}: {said[-300:]}"]
        losses = [m["loss"] for m in map(json.loads, (then / "metrics.jsonl").read_text().splitlines()) if "loss" in m]
        return [] if far(losses, e["losses"]) <= CLOSE else [f"losses of what model.onnx trains {losses}, expected {e['losses']}"]

    def evaluate(self, out):
        e = self.expected["evaluation"]
        status, said = self.tool("eval", out / "model.onnx", *self.data(e), *self.dtype, "--threads", 1, *self.arguments(e["flags"]))
        if status:
            return [f"evaluation: exit {status}: {said[-300:]}"]
        loss = json.loads(said[said.index("{"):said.rindex("}") + 1])["eval_loss"]
        return [] if far(loss, e["loss"]) <= CLOSE else [f"evaluation {loss}, expected {e['loss']}"]

    def tensors(self, out):
        found = {i.name: numpy_helper.to_array(i) for i in onnx.load(out / "model.onnx").graph.initializer}
        return [f"tensor {name}: {found.get(name)}, expected {numbers}" for name, numbers in self.expected["tensors"].items()
                if name not in found or not far(found[name], numbers) <= CLOSE]

    def trained(self):
        run = subprocess.run([str(self.build / "graph-transform"), str(self.folder / self.expected["model"]), "--parameters", "--json"],
                             capture_output=True, text=True, timeout=300)
        found = sorted(p["name"] for p in json.loads(run.stdout)["parameters"] if p["trained"]) if not run.returncode else run.stderr
        return [] if found == sorted(self.expected["trained"]) else [f"trained: {found}"]

    def outputs(self):
        e, out = self.expected["outputs"], self.work / f"{self.folder.name}.run"
        inputs = [a for name, file in e["inputs"].items() for a in ("--input", f"{name}={self.folder / file}")]
        status, said = self.tool("run", self.folder / self.expected["model"], *inputs, *self.arguments(e.get("flags", [])), "--out", out)
        if status:
            return [f"run: exit {status}: {said[-300:]}"]
        expected = np.load(self.folder / e["file"])
        return [f"output {name} differs" for name in expected.files
                if not (out / f"{name}.npy").is_file() or not far(np.load(out / f"{name}.npy"), expected[name]) <= CLOSE]


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    folders = [HERE / name for name in sys.argv[2:]] or sorted(p.parent for p in HERE.glob("*/expected.json"))
    passed = failed = 0
    with tempfile.TemporaryDirectory() as work:
        for folder in folders:
            case = Case(build, folder, pathlib.Path(work))
            checks = [(f"{r} replicas", lambda r=r: case.train(r)) for r in case.expected.get("replicas", [1, 3])] \
                if {"losses", "refused", "says"} & case.expected.keys() else []
            checks += [(key, getattr(case, key)) for key in ("trained", "outputs") if key in case.expected]
            for what, check in checks:
                wrong = check()
                passed += not wrong
                failed += bool(wrong)
                if wrong:
                    print(f"FAILED: {folder.name}, {what}: " + "; ".join(wrong))
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
