"""An export that contains the normalisation of images, in ONNX Runtime against what dpexec predicts: joined.py DPEXEC FOLDER."""
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime

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
