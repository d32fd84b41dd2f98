"""A table's preprocess.onnx in ONNX Runtime takes raw columns, and gives the features of `dpexec run` to the bit: table.py DPEXEC FOLDER.

The folder has the files of tests/cli/table.py.
"""
import csv
import pathlib
import subprocess
import sys

import numpy as np
import onnxruntime

dpexec, folder = sys.argv[1], pathlib.Path(sys.argv[2])
MISSING = ["", "NA", "nan", "?", "None"]


def run(*args):
    subprocess.run([dpexec, *map(str, args), "--threads", "1"], check=True, capture_output=True)


def main():
    out = folder / "interop"
    run("train", folder / "line.onnx", "--data", f"csv:{folder}/price.csv,target=price", "--loss", "mse", "--steps", "2", "--out", out)
    (folder / "data.json").write_bytes((out / "data.json").read_bytes())
    for table in "price", "flats":
        run("run", folder / "same.onnx", f"csv:{folder}/{table}.csv", "-o", folder / f"{table}_x.csv")
        ours = np.array([r[1:] for r in csv.reader(open(folder / f"{table}_x.csv"))][1:], "f4")
        rows = list(csv.DictReader(open(folder / f"{table}.csv", encoding="utf-8")))
        session = onnxruntime.InferenceSession(out / "preprocess.onnx")
        raw = {}
        for i in session.get_inputs():
            cells = [r[i.name] for r in rows]
            if i.type == "tensor(double)":
                raw[i.name] = np.array([[float("nan" if c == "NA" else c)] for c in cells])
            else:
                raw[i.name] = np.array([[MISSING[k % 5] if c == "NA" else c] for k, c in enumerate(cells)], object)
        theirs, = session.run(["x"], raw)
        print(f"{table}: {theirs.size} features " + ("agree" if np.array_equal(ours, theirs) else "differ"))


main()
