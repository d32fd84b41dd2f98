"""make FILE.onnx | check FILE.onnx DPEXEC: a model of LinearAttention, and what it computes and its gradients at sizes of batches, against
the rule in numpy, position after position, and its derivatives along a direction by a complex step in float64."""
import pathlib
import subprocess
import sys

import numpy as np
import onnx.parser

MODEL = '''g (float[N,6,12] q, float[N,6,6] k, float[N,6,4] v, float[N,2,3,2] s, float[N,6,6] g, float[N,6,2] b)
    => (float[N,6,8] y, float[N,2,3,2] t) {
    y, t = LinearAttention<q_num_heads=4, kv_num_heads=2, scale=0.5, update_rule="gated_delta">(q, k, v, s, g, b)
}'''

what, file = sys.argv[1:3]
if what == "make":
    onnx.save(onnx.helper.make_model(onnx.parser.parse_graph(MODEL), opset_imports=[onnx.helper.make_opsetid("", 27)]), file)
    sys.exit()


def attention(q, k, v, s, g, b):
    n, steps = q.shape[:2]
    q, k, v, g, b = q.reshape(n, steps, 2, 2, 3), k.reshape(n, steps, 2, 3), v.reshape(n, steps, 2, 2), g.reshape(n, steps, 2, 3), b[..., None]
    y = []
    for t in range(steps):
        s = np.exp(g[:, t])[..., None] * s
        s = s + np.einsum("nhk,nhv->nhkv", k[:, t], b[:, t] * (v[:, t] - np.einsum("nhkv,nhk->nhv", s, k[:, t])))
        y.append(0.5 * np.einsum("nhjk,nhkv->nhjv", q[:, t], s).reshape(n, -1))
    return np.stack(y, 1), s


folder, dpexec, names = pathlib.Path(file).parent, sys.argv[3], "qkvsgb"
model = onnx.load(file)
if model.ir_version <= onnx.IR_VERSION:     # that this package knows
    onnx.checker.check_model(model, full_check=True)
inner = [n for loop in model.graph.node if loop.op_type == "Scan" for a in loop.attribute if a.name == "body" for n in a.g.node]
assert inner and not any(n.domain or n.op_type == "LinearAttention" for n in [*model.graph.node, *inner])
for size in (3, 1, 43):
    random = np.random.default_rng(size)
    shapes = [(size, 6, 12), (size, 6, 6), (size, 6, 4), (size, 2, 3, 2), (size, 6, 6), (size, 6, 2), (size, 6, 8)]
    given = dict(zip([*names, "seed"], (random.standard_normal(shape).astype(np.float32) for shape in shapes)))
    flags = []
    for name, array in given.items():
        np.save(folder / f"{name}.npy", array)
        flags += ["--input", f"{name}={folder / name}.npy"]
    subprocess.run([dpexec, "run", file, *flags, "--out", folder / "attention", "--threads", "1", "--quiet"], check=True)
    found = {n: np.load(folder / "attention" / f"{n}.npy").astype(np.float64) for n in ["y", "t", *(f"{n}.grad" for n in names)]}
    for name, value in zip("yt", attention(*(given[n].astype(np.float64) for n in names))):
        assert found[name].shape == value.shape and np.abs(found[name] - value).max() < 1e-5 * np.abs(value).max(), (size, name)
    for name in names:
        assert found[f"{name}.grad"].shape == given[name].shape, name
        for _ in range(8):
            along = random.standard_normal(given[name].shape)
            moved = [given[n].astype(np.float64) + (1e-30j * along if n == name else 0) for n in names]
            slope = np.sum(given["seed"] * attention(*moved)[0].imag) / 1e-30
            far = abs(np.sum(found[f"{name}.grad"] * along) - slope)
            assert far < 1e-5 * np.linalg.norm(found[f"{name}.grad"]) * np.linalg.norm(along), (size, name)
