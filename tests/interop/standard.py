"""Steps of models whose gradients take many of ONNX's operators, in ONNX Runtime, against dpexec train.

    standard.py DPEXEC GRAPH_TRANSFORM FOLDER

Of each model one file is written for all sizes of batches, and at each size five steps in a row are compared: losses, and the parameters
behind them.  Prints a line for each model, `FAILED: ...` for those that fail; exit status 1 if any did.
"""
import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import onnx.parser
import onnxruntime
from onnx import numpy_helper

STEPS, SAMPLES, SIZES, TOLERANCE = 5, 35, (7, 1, 3), 1e-4

# A box of each image: what it is of counts the samples.
BOXED = '''
    sizes = Shape(x)
    n = Gather(sizes, zero)
    count = Range(zero, n, one)
    of = Cast<to=1>(count)
    rows = Unsqueeze(of, last)
    rois = Concat<axis=1>(rows, boxes)
    h = Conv<pads=[1,1,1,1]>(x, w)
    features = Relu(h)'''
CONSTANTS = "int64 zero = {0}, int64 one = {1}, int64[1] last = {1}"
HEADS = {    # opset, what is pooled
    "max_roi_pool": (13, "pooled = MaxRoiPool<pooled_shape=[3,2], spatial_scale=0.5>(features, rois)"),
    "roi_align_10": (10, 'pooled = RoiAlign<mode="max", output_height=3, output_width=2, sampling_ratio=2>(features, boxes, count)'),
    "roi_align_16": (16, 'pooled = RoiAlign<mode="max", output_height=3, output_width=2>(features, boxes, count)'),
    "roi_align_edges": (16, 'pooled = RoiAlign<mode="max", output_height=3, output_width=2, coordinate_transformation_mode="output_half_pixel", '
                            'spatial_scale=1.5>(features, boxes, count)'),
}
MATRICES = {"det_4": 4, "det_9": 9}
# Numbers of a decay and of a beta at a position, of two heads with keys of two numbers.
LINEAR = {"linear": (0, 0), "gated": (2, 0), "delta": (0, 1), "gated_delta": (4, 2)}


def boxed(opset, pooled):
    text = BOXED if opset >= 13 else BOXED.replace("Unsqueeze(of, last)", "Unsqueeze<axes=[1]>(of)")
    return f'''g (float[N,2,8,8] x, float[N,4] boxes) => (float[N,3] y) <{CONSTANTS}>
        {{ {text}
        {pooled}
        flat = Flatten(pooled)
        y = Gemm(flat, v, b) }}'''


def matrices(n):
    return f'''g (float[N,3,{n},{n}] x) => (float[N,3] y) {{ h = MatMul(x, w)
        d = Det(h)
        y = Add(d, b) }}'''


def linear(rule):
    decay, beta = ("d" if LINEAR[rule][0] else ""), ("e" if LINEAR[rule][1] else "")
    inputs = ", ".join(["q", "k", "v", "", decay, beta]).rstrip(", ")
    gates = ("s = MatMul(x, wd) p = Softplus(s) d = Neg(p) " if decay else "") + ("r = MatMul(x, we) e = Sigmoid(r)" if beta else "")
    return f'''g (float[N,6,8] x) => (float[N,3] y) {{
        q = MatMul(x, wq)
        h = MatMul(x, wk)
        k = Tanh(h)
        v = MatMul(x, wv)
        {gates}
        l, state = LinearAttention<q_num_heads=4, kv_num_heads=2, update_rule="{rule}">({inputs})
        f = Flatten(l)
        g = Flatten(state)
        c = Concat<axis=1>(f, g)
        y = Gemm(c, w, b) }}'''


def draw(rng, name):
    """-> the model with weights, the data."""
    if name in MATRICES:
        n = MATRICES[name]
        x = rng.standard_normal((SAMPLES, 3, n, n)).astype(np.float32)
        x[::3, 0, -1] = 2 * x[::3, 0, 0]        # of rank n - 1
        x[1::3, 1, -1] = x[1::3, 1, 0] = 0      # n - 2
        x[2::3, 2] = 0
        opset, text, data = 17, matrices(n), {"x": x}
        weights = {"w": (n ** -0.5, n, n), "b": (1, 3)}
    elif name in LINEAR:
        opset, text, data = 27, linear(name), {"x": rng.standard_normal((SAMPLES, 6, 8)).astype(np.float32)}
        decay, beta = LINEAR[name]
        weights = {"wq": (0.3, 8, 8), "wk": (0.3, 8, 4), "wv": (0.3, 8, 6), "w": (0.1, 84, 3), "b": (1, 3)}
        weights |= ({"wd": (0.3, 8, decay)} if decay else {}) | ({"we": (0.3, 8, beta)} if beta else {})
    else:
        opset, text = HEADS[name][0], boxed(*HEADS[name])
        weights = {"w": (0.3, 4, 2, 3, 3), "v": (0.3, 24, 3), "b": (1, 3)}
        corner, size = rng.uniform(-2, 6, (SAMPLES, 2)), rng.uniform(0, 9, (SAMPLES, 2))
        x = np.round(rng.standard_normal((SAMPLES, 2, 8, 8)))     # with ties
        data = {"x": x.astype(np.float32), "boxes": np.concatenate([corner, corner + size], 1).astype(np.float32)}
    model = onnx.helper.make_model(onnx.parser.parse_graph(text), opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=13 if opset > 21 else 8)
    for weight, (scale, *shape) in weights.items():
        model.graph.initializer.append(numpy_helper.from_array((scale * rng.standard_normal(shape)).astype(np.float32), weight))
    return model, {**data, "target": rng.integers(0, 3, SAMPLES)}


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())


def check(dpexec, graph_transform, folder, name):
    model, data = draw(np.random.default_rng(5), name)
    path, step = folder / f"{name}.onnx", folder / f"{name}.step.onnx"
    onnx.save(model, path)
    options = ["--loss", "cross-entropy", "--optimizer", "sgd", "--momentum", "0.9", "--lr", "0.02"]
    run(graph_transform, path, *options, "--standard", "-o", step)
    file, worst = onnx.load(step), 0.0
    onnx.checker.check_model(file, full_check=True)
    assert [o.domain for o in file.opset_import] == [""] and not any(n.domain for n in file.graph.node)
    session = onnxruntime.InferenceSession(step, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    for size in SIZES:
        shown = {k: a[:STEPS * size] for k, a in data.items()}
        np.savez(folder / "data.npz", **shown)
        out = folder / f"{name}-{size}"
        shutil.rmtree(out, ignore_errors=True)
        run(dpexec, "train", path, "--data", folder / "data.npz", *options, "--batch-size", str(size), "--steps", str(STEPS), "--no-shuffle",
            "--threads", "1", "--out", out)
        ours = [m["loss"] for m in map(json.loads, open(out / "metrics.jsonl")) if "loss" in m]
        state, theirs = {}, []
        for k in range(STEPS):
            found = dict(zip(names, session.run(names, {**{n: a[k * size:(k + 1) * size] for n, a in shown.items()}, **state})))
            theirs.append(float(found.pop("loss")))
            state = {n.removesuffix(".next"): a for n, a in found.items()}
        after = {t.name: numpy_helper.to_array(t) for t in onnx.load(out / "model.onnx").graph.initializer}
        before = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        moved = [n for n in before if n in state]
        assert len(ours) == STEPS and moved and all(np.abs(after[n] - before[n]).max() > 1e-4 for n in moved), moved
        worst = max([worst, *(abs(a - b) / max(1, abs(b)) for a, b in zip(theirs, ours, strict=True)),
                     *(float(np.linalg.norm(state[n] - after[n]) / np.linalg.norm(after[n] - before[n])) for n in moved)])
    if not worst < TOLERANCE:
        raise RuntimeError(f"apart by {worst:.1e}")
    return f"{len(file.graph.node)} nodes, steps agree, worst {worst:.1e}"


def main(dpexec, graph_transform, folder):
    failed, folder = 0, pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    onnxruntime.set_default_logger_severity(3)
    for name in [*HEADS, *MATRICES, *LINEAR]:
        try:
            print(f"{name}: {check(dpexec, graph_transform, folder, name)}", flush=True)
        except Exception as e:      # whatever a runtime says of the file
            failed += 1
            print(f"FAILED: {name}: {type(e).__name__}: {' '.join(str(e).split())[:600]}", flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
