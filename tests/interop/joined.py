"""Exports that contain the preprocessing of images and of a table, in ONNX Runtime against what dpexec predicts: joined.py DPEXEC FOLDER."""
import csv
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

dpexec, folder = sys.argv[1], Path(sys.argv[2]) / "joined"
images = Path("tests/tools/images")
for name, file in ("cat", "rgb.png"), ("dog", "rgb.jpg"):
    (folder / "data" / name).mkdir(parents=True)
    (folder / "data" / name / file).write_bytes((images / file).read_bytes())


def run(*words):
    subprocess.run([dpexec, *map(str, words)], check=True, capture_output=True)


run("train", "models/resnet20.onnx", "--data", f"images:{folder}/data", "--loss", "cross-entropy", "--mean", "imagenet", "--head", 2, "--steps", 2,
    "--threads", 1, "--out", folder / "run")
run("export", folder / "run", "--export-preprocess", "-o", folder / "joined.onnx")
session = onnxruntime.InferenceSession(str(folder / "joined.onnx"), providers=["CPUExecutionProvider"])
x = np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3), dtype=np.uint8)
floats = ((x / 255.0 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]).astype("f4").transpose(0, 3, 1, 2)
np.save(folder / "floats.npy", floats)
run("run", folder / "run", "--input", f"image={folder / 'floats.npy'}", "--out", folder / "scores", "--threads", 1)
wanted = np.load(next((folder / "scores").glob("*.npy")))
found = session.run(None, {session.get_inputs()[0].name: x})[0]
difference = np.abs(found - wanted).max()
assert found.shape == wanted.shape == (4, 2) and difference <= 1e-5, difference
print("joined outputs agree, largest difference", difference)

# A table of numbers and of categories, with missing cells and a category that training has not seen.
rng = np.random.default_rng(1)
cell = lambda: [rng.choice(["Rome", "Paris", "", "São Paulo"]), f"{rng.normal(50, 10):.3f}" if rng.random() < 0.9 else "", rng.choice(["a", "b"])]
trained = [[*cell(), f"{rng.normal():.3f}"] for _ in range(80)]
new = [cell() for _ in range(20)] + [["Oslo", "47.5", "a"], ["", "", "b"]]
for name, rows, more in ("train.csv", trained, ["price"]), ("new.csv", new, []):
    with open(folder / name, "w", newline="") as to:
        csv.writer(to).writerows([["city", "size", "kind", *more], *rows])
tensors = [numpy_helper.from_array(rng.normal(size=(7, 1)).astype("f4"), "w"), numpy_helper.from_array(np.zeros(1, "f4"), "b")]
value = lambda name, n: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", n])
graph = helper.make_graph([helper.make_node("Gemm", ["x", "w", "b"], ["y"])], "line", [value("x", 7)], [value("y", 1)], tensors)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), folder / "line.onnx")
run("train", folder / "line.onnx", "--data", f"csv:{folder}/train.csv,target=price", "--loss", "mse", "--steps", 5, "--threads", 1, "--out",
    folder / "table")
run("export", folder / "table", "--export-preprocess", "-o", folder / "table.onnx")
run("run", folder / "table", folder / "new.csv", "-o", folder / "new_prices.csv", "--threads", 1)
with open(folder / "new_prices.csv") as file:
    wanted = np.array([[float(row[-1])] for row in list(csv.reader(file))[1:]])
model = onnx.load(folder / "table.onnx")
onnx.checker.check_model(model, full_check=True)
session = onnxruntime.InferenceSession(str(folder / "table.onnx"), providers=["CPUExecutionProvider"])
columns = dict(zip(("city", "size", "kind"), zip(*new)))
feeds = {i.name: np.array([[v] for v in columns[i.name]], dtype=object) if i.type == "tensor(string)" else
         np.array([[float(v or "nan")] for v in columns[i.name]]) for i in session.get_inputs()}
assert sorted(feeds) == ["city", "kind", "size"], feeds
found = session.run(None, feeds)[0]
difference = np.abs(found - wanted).max()
assert found.shape == wanted.shape == (22, 1) and difference <= 1e-5, difference
print("joined tables agree, largest difference", difference)
