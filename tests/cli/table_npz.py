"""Makes price.npz of price.csv's target and of the features that `dpexec run same.onnx` wrote: table_npz.py FOLDER."""
import csv
import sys

import numpy as np

folder = sys.argv[1]
rows = list(csv.reader(open(f"{folder}/features.csv", encoding="utf-8")))
table = list(csv.reader(open(f"{folder}/price.csv", encoding="utf-8")))
assert rows[0] == ["row", *(f"y.{i}" for i in range(6))], rows[0]
assert [int(r[0]) for r in rows[1:]] == list(range(2, 62))
x = np.array([[np.float32(v) for v in r[1:]] for r in rows[1:]])
numbers = np.array([[np.nan if c == "NA" else float(c) for c in r[:2]] for r in table[1:]])
filled = np.where(np.isnan(numbers), np.nanmedian(numbers, 0), numbers)
cities = sorted({"" if r[2] == "NA" else r[2] for r in table[1:]}, key=str.encode)
expected = np.concatenate([(filled - filled.mean(0)) / filled.std(0),
                           [[("" if r[2] == "NA" else r[2]) == c for c in cities] for r in table[1:]]], 1).astype("f4")
assert np.abs(x - expected).max() < 1e-6, np.abs(x - expected).max()
np.savez(f"{folder}/price.npz", x=x, target=np.array([[float(r[3])] for r in table[1:]]))
