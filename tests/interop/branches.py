"""Trains models whose branches data or sizes decide, and compares what is exported with ONNX Runtime on batches of several sizes.

    python tests/interop/branches.py DPEXEC FOLDER MODEL.onnx ...      # x [N,4], y [N,3]
"""
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime

dpexec, folder = str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2])
rng = np.random.default_rng(9)
folder.mkdir()
np.savez(folder / "data.npz", x=rng.standard_normal((21, 4)).astype(np.float32), target=rng.standard_normal((21, 3)).astype(np.float32))
for path in map(pathlib.Path, sys.argv[3:]):
    out = folder / path.stem
    subprocess.run([dpexec, "train", path, "--data", folder / "data.npz", "--loss", "mse", "--batch-size", "7", "--lr", "0.1", "--threads", "1", "--quiet",
                    "--out", out], check=True, stdout=subprocess.DEVNULL)
    model = onnx.load(out / "model.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert "If" in [n.op_type for n in model.graph.node] and not [o for o in model.opset_import if o.domain]
    session = onnxruntime.InferenceSession(str(out / "model.onnx"), providers=["CPUExecutionProvider"])
    for n, scale, shift in ((1, 1, 0), (2, 0.1, 0.3), (3, 1, -1), (5, 0.1, 0), (7, 1, 1), (7, 3, 0)):
        x = (rng.standard_normal((n, 4)) * scale + shift).astype(np.float32)
        np.save(folder / "x.npy", x)
        subprocess.run([dpexec, "run", out / "model.onnx", "--input", folder / "x.npy", "--out", out / "found"], check=True)
        expected, = session.run(None, {"x": x})
        found = np.load(out / "found" / "y.npy")
        assert found.shape == expected.shape and np.allclose(found, expected, 1e-5, 1e-6), (path, n, found, expected)
