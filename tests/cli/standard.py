"""DIR DPEXEC DATA.npz: five steps of DIR/sgd.onnx, an MLP's with momentum 0.9 at rate 0.1, on batches of as many sizes, against
the same in numpy in float64."""
import subprocess
import sys

import numpy as np
import onnx
from onnx import numpy_helper

folder, dpexec, data = sys.argv[1:]
model = onnx.load(f"{folder}/sgd.onnx")
onnx.checker.check_model(model, full_check=True)
assert [o.domain for o in model.opset_import] == [""] and not any(n.domain for n in model.graph.node)
sizes = {i.name: [d.dim_param or d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input}
assert sizes["x"] == ["batch", 64] and sizes["target"] == ["batch"], sizes
assert not any(d.dim_param for o in model.graph.output for d in o.type.tensor_type.shape.dim)
state = {t.name: t for t in model.graph.initializer}
changes = [o.name for o in model.graph.output if o.name.endswith(".next")]
defaults = {i.name for i in model.graph.input} & set(state)
layers = ["fc1", "fc2", "fc3"]
names = [f"{k}.{p}" for k in layers for p in ("weight", "bias")]
assert defaults == {"learning_rate", "step", *names, *(f"{p}.momentum" for p in names)}, defaults
assert {o.name for o in model.graph.output} == {"loss"} | {f"{k}.next" for k in defaults - {"learning_rate"}}

w = {k: numpy_helper.to_array(state[k]).astype(np.float64) for k in names}
v = {k: np.zeros_like(a) for k, a in w.items()}
arrays = np.load(data)


def loss_and_gradient(x, t):
    h = [x]
    for k in layers:
        h.append(h[-1] @ w[f"{k}.weight"].T + w[f"{k}.bias"])
        if k != layers[-1]:
            h[-1] = np.maximum(h[-1], 0)
    p = np.exp(h[-1] - h[-1].max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    loss, d, grad = -np.log(p[range(len(t)), t]).mean(), p.copy(), {}
    d[range(len(t)), t] -= 1
    d /= len(t)
    for i in (2, 1, 0):
        grad[f"{layers[i]}.weight"], grad[f"{layers[i]}.bias"] = d.T @ h[i], d.sum(axis=0)
        d = d @ w[f"{layers[i]}.weight"] * (h[i] > 0)
    return loss, grad


for k, size in enumerate((8, 1, 36, 3, 7)):
    x, t = (arrays[a][k:k + size] for a in ("x", "target"))
    np.save(f"{folder}/x.npy", x)
    np.save(f"{folder}/t.npy", t)
    onnx.save(model, f"{folder}/now.onnx")
    subprocess.run([dpexec, "run", f"{folder}/now.onnx", "--input", f"x={folder}/x.npy", "--input", f"target={folder}/t.npy", "--out",
                    f"{folder}/out", "--threads", "1", "--quiet"], check=True)
    loss, grad = loss_and_gradient(x.astype(np.float64), t)
    found = float(np.load(f"{folder}/out/loss.npy"))
    assert abs(found - loss) < 1e-5 * loss, (k, found, loss)
    for p in names:
        v[p] = 0.9 * v[p] + grad[p]
        w[p] -= 0.1 * v[p]
    for c in changes:
        state[c[:-5]].CopyFrom(numpy_helper.from_array(np.load(f"{folder}/out/{c}.npy"), c[:-5]))
    for p in names:
        for ours, theirs in ((p, w[p]), (p + ".momentum", v[p])):
            e = np.abs(numpy_helper.to_array(state[ours]) - theirs).max()
            assert e < 1e-5, (k, ours, e)
assert numpy_helper.to_array(state["step"]) == 5
