#!/bin/bash
# The commands of docs/tutorial/images.md, as they stand there, end with an accuracy >= 0.95; best.onnx answers alike in ONNX Runtime.
# Needs python3-numpy and python3-onnx, and the runtime in BUILD_DIR/python (tests/interop/install.sh BUILD_DIR).
. "$(dirname "$0")/lib.sh"
begin_tutorial images
follow "$commands"
check "accuracy of the best epoch" awk '/^best epoch/ { found = 1; if ($6 + 0 < 0.95) exit 1 } END { if (!found) exit 1 }' <(sed 's/ ->.*//' log)
check "accuracy of new images" "$python" - <<'PY'
import csv
rows = list(csv.DictReader(open("classes.csv")))
shapes = [shape for shape in ("circle", "cross", "square", "triangle") for _ in range(25)]
assert sum(r["class"] == s for r, s in zip(rows, shapes, strict=True)) >= 90, rows
PY

# The centres of the new images, which nothing resizes: the files' pixels are the model's.
check "centres" "$python" - <<'PY'
import pathlib, struct, sys, zlib
import numpy as np
sys.argv = ["images.py", "."]
source = pathlib.Path("docs/tutorial/images.py").read_text().removesuffix("main()\n")
exec(source)
arrays = []
for shape in SHAPES:
    pathlib.Path("cut", shape).mkdir(parents=True)
    for file in sorted(pathlib.Path("new", shape).glob("*.png")):
        data = file.read_bytes()
        width, height = struct.unpack(">2I", data[16:24])
        lines = np.frombuffer(zlib.decompress(data[41:]), "u1").reshape(height, 1 + 3 * width)
        pixels = lines[:, 1:].reshape(height, width, 3)[2:34, 3:35]
        pathlib.Path("cut", shape, file.name).write_bytes(png(pixels))
        arrays.append(pixels)
np.save("pixels.npy", np.stack(arrays))
PY
check "predictions of the centres" "$dpexec" run run images:cut -o cut.csv --quiet
runtime=$build/python/bin/python
if cmp -s "$root/tests/interop/requirements.txt" "$build/python/requirements.txt"; then
    check "ONNX Runtime answers alike" "$runtime" - <<'PY'
import csv
import numpy as np, onnxruntime
x = (np.load("pixels.npy").transpose(0, 3, 1, 2).astype("f4") / 255 - 0.5) / 0.25
scores = onnxruntime.InferenceSession("run/best.onnx").run(None, {"image": x.astype("f4")})[0]
ours = np.array([[float(v) for k, v in r.items() if k in ("circle", "cross", "square", "triangle")] for r in csv.DictReader(open("cut.csv"))])
assert ours.shape == scores.shape == (100, 4)
assert np.abs(ours - scores).max() <= 1e-4 * np.abs(scores).max(), np.abs(ours - scores).max()
PY
else
    fail "no runtime to compare with: tests/interop/install.sh $build installs it"
fi
finish
