#!/usr/bin/env python3
"""Makes the data of docs/tutorial/cluster.md: train.npz and val.npz, points of four classes.

    python docs/tutorial/cluster.py FOLDER          # numpy
"""
import pathlib
import sys

import numpy as np

rng = np.random.default_rng(0)
centres = rng.normal(0, 1, (4, 16))
for name, n in ("train", 2000), ("val", 500):
    target = rng.integers(0, 4, n)
    x = centres[target] + rng.normal(0, 1, (n, 16))
    np.savez(pathlib.Path(sys.argv[1]) / f"{name}.npz", x=x.astype("f4"), target=target)
