"""BUILD MODEL.onnx DATA.npz BATCH [OPTIONS of a run]: five steps of the file that --standard writes, run by ONNX Runtime, against dpexec train.

Losses, relative to the larger of 1 and their size, and states, by norm, must agree to 1e-4."""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

STEPS, TOLERANCE = 5, 1e-4


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)


def train_there(path, arrays, batch):
    onnxruntime.set_default_logger_severity(3)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names, state, losses = [o.name for o in session.get_outputs()], {}, []
    fed = [i.name for i in session.get_inputs() if i.name in arrays]
    for k in range(STEPS):
        out = dict(zip(names, session.run(names, {**{i: arrays[i][k * batch:(k + 1) * batch] for i in fed}, **state})))
        losses.append(float(out["loss"]))
        state = {name.removesuffix(".next"): v for name, v in out.items() if name.endswith(".next")}
    return losses, state


def main(build, model, data, batch, *options):
    batch = int(batch)
    with tempfile.TemporaryDirectory() as folder:
        step, shown = f"{folder}/step.onnx", f"{folder}/data.npz"
        arrays = {k: np.concatenate([v] * (STEPS * batch // len(v) + 1))[:STEPS * batch] for k, v in np.load(data).items()}
        np.savez(shown, **arrays)
        run(f"{build}/graph-transform", model, "--batch-size", str(batch), *options, "--standard", "-o", step)
        run(f"{build}/dpexec", "train", model, "--data", shown, "--batch-size", str(batch), "--steps", str(STEPS), "--no-shuffle",
            "--threads", "1", "--out", f"{folder}/run", *options)
        onnx.checker.check_model(onnx.load(step), full_check=True)
        losses, state = train_there(step, arrays, batch)
        ours = [m["loss"] for m in map(json.loads, open(f"{folder}/run/metrics.jsonl")) if "loss" in m]
        trained = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(f"{folder}/run/model.onnx").graph.initializer}
    assert len(ours) == STEPS and set(trained) & set(state)
    loss = max(abs(a - b) / max(1, abs(a)) for a, b in zip(ours, losses))
    worst = max((np.linalg.norm(w - state[n]) / max(np.linalg.norm(w), 1e-3), n) for n, w in trained.items() if n in state)
    print(f"{os.path.basename(model)} {' '.join(options)}: losses {loss:.1e}, states {worst[0]:.1e} ({worst[1]}) of {len(state)}")
    return not (loss < TOLERANCE and worst[0] < TOLERANCE)


sys.exit(main(*sys.argv[1:]))
