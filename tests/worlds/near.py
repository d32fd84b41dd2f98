"""Compares two files of tensors: the same names, and each tensor within LIMIT of the other, relative to its norm; where its exact
value may be zero, relative to the norm of all.  Usage: near.py LIMIT A.safetensors B.safetensors"""
import json
import sys

import numpy as np

TYPES = {"F32": np.float32, "F64": np.float64, "I64": np.int64, "U8": np.uint8}


def read(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    return {name: np.frombuffer(data[slice(*e["data_offsets"])], TYPES[e["dtype"]]).astype(np.float64) for name, e in header.items()}


limit, a, b = float(sys.argv[1]), read(sys.argv[2]), read(sys.argv[3])
if a.keys() != b.keys():
    sys.exit(f"other names: {sorted(a.keys() ^ b.keys())}")
zero = limit * 1e-2 * max(np.linalg.norm(x) for x in a.values())
far = {n: np.linalg.norm(a[n] - b[n]) for n in a}
bad = {n: d for n, d in far.items() if not d <= max(limit * np.linalg.norm(a[n]), zero)}
if bad:
    sys.exit("\n".join(f"{n}: {d:.3g} away, of {np.linalg.norm(a[n]):.3g}" for n, d in bad.items()))
