"""What a run measured: one row for each step and each evaluation, as in a run folder's metrics.jsonl."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

Row = dict[str, Any]

_LOGS = ("log", "eval_log")


def _finite(value: Any) -> Any:
    """The value with null in place of numbers that JSON lacks."""
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _flat(row: Row) -> Row:
    """A row with its log variables as columns."""
    own = {f"{log}_{name}": value for log in _LOGS for name, value in row.get(log, {}).items()}
    return {**{k: v for k, v in row.items() if k not in _LOGS}, **own}


class History(Mapping[str, np.ndarray]):
    """Columns of a run's numbers by name.

    step, epoch, loss, lr, samples: a number for each training step (loss: of its batch, before the update).
    train_step, train_loss, train_METRIC: for each epoch, over its training steps.
    eval_step, eval_loss, eval_METRIC: for each evaluation on the validation data.
    log_NAME, eval_log_NAME: log variables of a model with losses of its own.
    Metrics that are tables are arrays of objects.
    """

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        self._flat = [_flat(row) for row in rows]

    @staticmethod
    def read(path: str | os.PathLike[str]) -> History:
        """The history in a file metrics.jsonl."""
        with open(path, encoding="utf-8") as f:
            return History([json.loads(line) for line in f])

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the file, whole or not at all."""
        new = f"{os.fspath(path)}.new"
        with open(new, "w", encoding="utf-8") as f:
            f.writelines(json.dumps(_finite(row)) + "\n" for row in self.rows)
        os.replace(new, path)

    def _kind(self, name: str) -> str:
        head = name.split("_")[0]
        return head + "_loss" if head in ("train", "eval") else "loss"

    def __getitem__(self, name: str) -> np.ndarray:
        mark = self._kind(name)
        key = "step" if name in ("train_step", "eval_step") else name
        of = [row for row in self._flat if mark in row]
        if not any(key in row for row in of):
            raise KeyError(name)
        values = [row.get(key, math.nan) for row in of]
        values = [math.nan if v is None else v for v in values]
        if any(isinstance(v, (list, dict, str)) for v in values):
            return np.array([*values, None], dtype=object)[:-1]
        whole = all(isinstance(v, int) for v in values)
        return np.array(values, np.int64 if whole else np.float64)

    def __iter__(self) -> Iterator[str]:
        seen: dict[str, None] = {}
        for row in self._flat:
            for name in row:
                if name in ("ms", "read"):
                    continue
                if name == "step":
                    for kind in ("train", "eval"):
                        if f"{kind}_loss" in row:
                            seen[f"{kind}_step"] = None
                    if "loss" not in row:
                        continue
                seen[name] = None
        return iter(seen)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"<dpexec history: {', '.join(self)}>"
