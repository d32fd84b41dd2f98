#!/usr/bin/env python3
"""Writes table_values.h: a table with missing cells, and what pandas and scikit-learn make of it in float64.

    python tests/tools/table_values.py > tests/tools/table_values.h       # pandas, scikit-learn; then tools/format.sh
"""
import io
import pathlib

import numpy as np
import pandas as pd
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

rng = np.random.default_rng(11)
N = 24


def table():
    t = pd.DataFrame({
        "age": rng.normal(40, 12, N).round(2),
        "city": rng.choice(["Oslo", "Bergen", 'a "b", c', "東京"], N),
        "time": 1.7e9 + rng.integers(0, 1000, N),
        "income": rng.lognormal(9, 2, N).round(3),
        "same": 3.25,
        "zip": rng.integers(1, 5, N),
        "y": rng.normal(size=N).round(4),
    })
    for name in ("age", "income", "city"):
        t.loc[rng.random(N) < 0.2, name] = np.nan
    return t


def numbers(name, values):
    print(f"static const double {name}[] = {{ {', '.join(repr(float(v)) for v in np.ravel(values))} }};")


def main():
    text = table().to_csv(index=False)
    raw = pd.read_csv(io.StringIO(text))
    numeric = ["age", "time", "income", "same"]
    imputer = SimpleImputer(strategy="median").fit(raw[numeric])
    scaler = StandardScaler().fit(imputer.transform(raw[numeric]))
    scaled = dict(zip(numeric, scaler.transform(imputer.transform(raw[numeric])).T))
    columns = []
    for name in raw.columns[:-1]:
        if name in scaled:
            columns.append(scaled[name][:, None])
        else:
            texts = raw[[name]].astype(str if name == "zip" else object).fillna("")
            columns.append(OneHotEncoder(sparse_output=False).fit_transform(texts))
    features = np.concatenate(columns, 1).astype(np.float32)
    print(f"/* {pathlib.Path(__file__).name} wrote this with pandas {pd.__version__} and scikit-learn. */")
    print("static const char csv_text[] =")
    print("\n".join('    "' + line.replace("\\", "\\\\").replace('"', '\\"') + '\\n"' for line in text.splitlines()) + ";")
    print(f"enum {{ CSV_ROWS = {N}, CSV_FEATURES = {features.shape[1]} }};")
    numbers("csv_medians", imputer.statistics_)
    numbers("csv_means", scaler.mean_)
    numbers("csv_scales", scaler.scale_)
    numbers("csv_features", features)
    numbers("csv_target", raw["y"])


main()
