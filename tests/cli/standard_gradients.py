"""DIR DPEXEC DATA.npz: DIR/gradients.onnx, an MLP and the gradients of its logits by x and fc1.weight, against numpy in float64."""
import subprocess
import sys

import numpy as np
import onnx
from onnx import numpy_helper

folder, dpexec, data = sys.argv[1:]
model = onnx.load(f"{folder}/gradients.onnx")
onnx.checker.check_model(model, full_check=True)
assert not any(n.domain for n in model.graph.node)
assert [o.name for o in model.graph.output] == ["logits", "x.grad", "fc1.weight.grad"]
assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
w = {t.name: numpy_helper.to_array(t).astype(np.float64) for t in model.graph.initializer}
for size in (3, 1, 43):
    x = np.load(data)["x"][:size]
    seed = np.random.default_rng(1).standard_normal((size, 10)).astype(np.float32)
    np.save(f"{folder}/x.npy", x)
    np.save(f"{folder}/seed.npy", seed)
    subprocess.run([dpexec, "run", f"{folder}/gradients.onnx", "--input", f"x={folder}/x.npy", "--input", f"seed={folder}/seed.npy", "--out",
                    f"{folder}/gradients", "--threads", "1", "--quiet"], check=True)

    h1 = np.maximum(x @ w["fc1.weight"].T + w["fc1.bias"], 0)
    h2 = np.maximum(h1 @ w["fc2.weight"].T + w["fc2.bias"], 0)
    d = seed @ w["fc3.weight"] * (h2 > 0)
    d = d @ w["fc2.weight"] * (h1 > 0)
    expected = {"logits": h2 @ w["fc3.weight"].T + w["fc3.bias"], "x.grad": d @ w["fc1.weight"], "fc1.weight.grad": d.T @ x}
    for name, value in expected.items():
        found = np.load(f"{folder}/gradients/{name}.npy")
        assert found.shape == value.shape and np.abs(found - value).max() < 1e-5 * np.abs(value).max(), name
