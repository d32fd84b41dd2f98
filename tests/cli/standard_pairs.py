"""make FILE.onnx | check FILE.onnx DPEXEC: a loss that has each sample tell itself from the others of its batch, whose labels count samples,
and its gradient by w at sizes of batches, against numpy in float64."""
import pathlib
import subprocess
import sys

import numpy as np
import onnx.parser

MODEL = '''g (float[N,4] x) => (float loss) <float[4,4] w = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16},
    int64 zero = {0}, int64 one = {1}> {
    h = MatMul(x, w)
    t = Transpose<perm=[1,0]>(x)
    scores = MatMul(h, t)
    sizes = Shape(x)
    n = Gather(sizes, zero)
    labels = Range(zero, n, one)
    loss = SoftmaxCrossEntropyLoss(scores, labels)
}'''

what, file = sys.argv[1:3]
if what == "make":
    onnx.save(onnx.helper.make_model(onnx.parser.parse_graph(MODEL), opset_imports=[onnx.helper.make_opsetid("", 17)]), file)
    sys.exit()
folder, dpexec = pathlib.Path(file).parent, sys.argv[3]
w = np.arange(1, 17, dtype=np.float64).reshape(4, 4)
for size in (1, 2, 7, 64):
    x = 0.1 * np.random.default_rng(size).standard_normal((size, 4)).astype(np.float32)
    np.save(folder / "x.npy", x)
    subprocess.run([dpexec, "run", file, "--input", f"x={folder / 'x.npy'}", "--out", folder / "pairs", "--threads", "1", "--quiet"], check=True)
    s = x @ w @ x.T.astype(np.float64)
    p = np.exp(s - s.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    for name, value in {"loss": -np.log(np.diag(p)).mean(), "w.grad": x.T @ ((p - np.eye(size)) / size) @ x}.items():
        found = np.load(folder / "pairs" / f"{name}.npy")
        assert found.shape == value.shape and np.abs(found - value).max() < 1e-5 * max(np.abs(value).max(), 1e-3), (size, name)
