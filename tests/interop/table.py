"""A table's preprocess.onnx in ONNX Runtime takes raw columns, and gives the features of `dpexec run` to the bit: table.py DPEXEC FOLDER.

The folder has the files of tests/cli/table.py.
"""
import csv
import pathlib
import subprocess
import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper, save

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
    ids()


def ids():
    """Ids of a column of categories, of rank 1 and 2; one that the training rows lack comes behind the others."""
    for dtype, shape in (TensorProto.INT64, ["N"]), (TensorProto.INT32, ["N", 1]):
        table = numpy_helper.from_array(np.zeros((5, 1), "f4"), "t")
        graph = helper.make_graph([helper.make_node("Gather", ["t", "x"], ["e"]), helper.make_node("Flatten", ["e"], ["y"])], "embed",
                                  [helper.make_tensor_value_info("x", dtype, shape)],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 1])], [table])
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), folder / "embed.onnx")
        run("train", folder / "embed.onnx", "--data", f"csv:{folder}/price.csv,target=price", "--map", "x=city", "--loss", "mse",
            "--steps", "2", "--out", folder / f"ids{len(shape)}")
        session = onnxruntime.InferenceSession(folder / f"ids{len(shape)}/preprocess.onnx")
        theirs, = session.run(["x"], {"city": np.array([["Oslo"], ["Bergen"], ["Paris"], ["None"], ['Å, "quoted"']], object)})
        print("ids agree" if theirs.dtype == (np.int64 if len(shape) == 1 else np.int32) and theirs.ndim == len(shape) and
              theirs.ravel().tolist() == [2, 1, 4, 0, 3] else f"ids differ: {theirs}")


main()
