"""make FILE.onnx OPSET | check FILE.onnx DPEXEC: maxima of regions of images and determinants of their channels; FILE, by then the file of
gradients in float64, against central differences of its own outputs, at sizes of batches."""
import pathlib
import subprocess
import sys

import numpy as np
import onnx.parser

MODEL = '''g (float[N,2,6,6] x, float[N,4] boxes) => (float[N,50] y) <int64 zero = {0}, int64 one = {1}, int64[1] last = {1}> {
    sizes = Shape(x)
    n = Gather(sizes, zero)
    count = Range(zero, n, one)
    of = Cast<to=1>(count)
    rows = Unsqueeze(of, last)
    rois = Concat<axis=1>(rows, boxes)
    p = MaxRoiPool<pooled_shape=[2,2]>(x, rois)
    a = RoiAlign<mode="max", output_height=2, output_width=2>(x, boxes, count)
    b = RoiAlign<mode="max", output_height=2, output_width=2, sampling_ratio=3, spatial_scale=0.5>(x, boxes, count)
    c = RoiAlign<mode="max", output_height=3, output_width=4, spatial_scale=1.5, coordinate_transformation_mode="output_half_pixel">(x, boxes, count)
    p1 = Flatten(p)
    a1 = Flatten(a)
    b1 = Flatten(b)
    c1 = Flatten(c)
    d = Det(x)
    y = Concat<axis=1>(p1, a1, b1, c1, d)
}'''

what, file = sys.argv[1:3]
if what == "make":
    onnx.save(onnx.helper.make_model(onnx.parser.parse_graph(MODEL), opset_imports=[onnx.helper.make_opsetid("", int(sys.argv[3]))]), file)
    sys.exit()
folder, dpexec, rng, step = pathlib.Path(file).parent, sys.argv[3], np.random.default_rng(2), 1e-6


def run(**inputs):
    given = []
    for name, a in inputs.items():
        np.save(folder / f"{name}.npy", a)
        given += ["--input", f"{name}={folder / name}.npy"]
    subprocess.run([dpexec, "run", file, *given, "--out", folder / "maxima", "--threads", "1", "--quiet"], check=True)
    return np.load(folder / "maxima" / "y.npy"), np.load(folder / "maxima" / "x.grad.npy")


for size in (3, 1, 8):
    x, seed = rng.standard_normal((size, 2, 6, 6)), rng.standard_normal((size, 50))
    x[:, 0, 5] = 2 * x[:, 0, 1]             # of rank 5; no two elements of a region are the same
    x[::2, 1, 2], x[::2, 1, 4] = 3 * x[::2, 1, 0], -1.5 * x[::2, 1, 0]      # of rank 4
    corner = rng.uniform(-2, 4, (size, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(0, 8, (size, 2))], 1)
    y, found = run(x=x, boxes=boxes, seed=seed)
    assert y.dtype == found.dtype == np.float64 and found.shape == x.shape
    each = np.eye(72).reshape(72, 2, 6, 6) * step
    for k in range(size):       # all elements of a sample at once, each in two samples of one batch
        moved = np.concatenate([x[k] + each, x[k] - each])
        y, _ = run(x=moved, boxes=np.tile(boxes[k], (144, 1)), seed=np.zeros((144, 50)))
        expected = ((y[:72] - y[72:]) @ seed[k] / (2 * step)).reshape(2, 6, 6)
        assert np.abs(expected).max() > 0.1 and np.abs(found[k] - expected).max() < 1e-6 * np.abs(expected).max(), (size, k)
