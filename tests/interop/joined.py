"""Exports that contain the preprocessing of images and of a table, in ONNX Runtime against what dpexec predicts: joined.py DPEXEC FOLDER."""
import csv
import struct
import subprocess
import sys
import zlib
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
onnx.checker.check_model(onnx.load(folder / "joined.onnx"), full_check=True)
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

# Images of other sizes: the file resizes and crops them as dpexec's reader does, to one level of 255.
def png(path, a):
    rows = b"".join(b"\0" + row.tobytes() for row in a)
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", a.shape[1], a.shape[0], 8, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


HEIGHT, WIDTH = 24, 32
rng = np.random.default_rng(2)
pictures = []
for i, (h, w) in enumerate([(34, 50), (61, 33), (20, 20), (211, 97), (199, 301), (24, 32), (25, 200), (40, 32)]):
    y, x = np.mgrid[0:h, 0:w] / max(h, w)
    a = np.stack([np.sin(rng.uniform(2, 15) * x + rng.uniform(2, 15) * y + k) for k in range(3)], -1) * 100 + 128
    a[h // 4:h // 2, w // 3:] = 250, 0, 90
    pictures.append(np.clip(a + rng.normal(0, 20, a.shape), 0, 255).astype("u1"))
    for name in "one", "two":
        (folder / "odd" / name).mkdir(parents=True, exist_ok=True)
    png(folder / "odd" / ("one", "two")[i % 2] / f"{i}.png", pictures[-1])
tensors = [numpy_helper.from_array(np.ones(3 * HEIGHT * WIDTH, "f4"), "scale")]
graph = helper.make_graph([helper.make_node("Flatten", ["image"], ["flat"]), helper.make_node("Mul", ["flat", "scale"], ["pixels"])], "pixels",
                          [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 3, HEIGHT, WIDTH])],
                          [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["N", 3 * HEIGHT * WIDTH])], tensors)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), folder / "pixels.onnx")
mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
for i, how in enumerate(("", ",fit=stretch", ",filter=bicubic", ",fit=stretch,filter=bicubic")):
    run("train", folder / "pixels.onnx", "--data", f"images:{folder}/odd{how}", "--loss", "cross-entropy", "--mean", "imagenet", "--lr", 0, "--steps", 1,
        "--threads", 1, "--out", folder / f"pixels{i}")
    run("export", folder / f"pixels{i}", "--export-preprocess", "-o", folder / f"pixels{i}.onnx")
    for source, name in (folder / f"pixels{i}", "wanted"), (folder / f"pixels{i}.onnx", "joined"):
        run("run", source, folder / "odd", "-o", folder / f"{name}.csv", "--batch-size", 1, "--threads", 1)
    assert (folder / "wanted.csv").read_bytes() == (folder / "joined.csv").read_bytes(), how
    with open(folder / "wanted.csv") as file:
        wanted = {row["file"]: row for row in csv.DictReader(file)}
    model = onnx.load(folder / f"pixels{i}.onnx")
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(str(folder / f"pixels{i}.onnx"), providers=["CPUExecutionProvider"])
    largest = 0
    for k, picture in enumerate(pictures):
        row = list(next(row for name, row in wanted.items() if name.endswith(f"{k}.png")).values())[-3 * HEIGHT * WIDTH:]
        of_reader = np.array(row, "f8").reshape(3, HEIGHT, WIDTH)
        found = session.run(None, {"image_bytes": np.stack([picture] * 2)})[0]
        np.save(folder / "picture.npy", picture[None])
        run("run", folder / f"pixels{i}.onnx", "--input", f"image_bytes={folder / 'picture.npy'}", "--out", folder / "by_us", "--threads", 1)
        for scores in found[0], found[1], np.load(folder / "by_us" / "pixels.npy")[0]:
            levels = np.abs(scores.reshape(3, HEIGHT, WIDTH) - of_reader).transpose(1, 2, 0) * std * 255
            largest = max(largest, levels.max())
            if picture.shape == (HEIGHT, WIDTH, 3):
                assert levels.max() < 1e-3, (how, levels.max())
    assert largest <= 1.001, (how, largest)
    print(f"joined images{how} agree, largest difference {largest:.3f} of 255")

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
