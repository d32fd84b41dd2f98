"""Options of the engine: keywords in Python, flags on the command line."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._abi import lib
from ._tensors import as_array, tensor_of
from .errors import InvalidArgument, OutOfMemory, check, unknown


@dataclass(frozen=True)
class Option:
    """An option of the engine.  `name` is the keyword: the flag's name with underscores."""

    name: str
    flag: str
    metavar: str | None
    default: str
    help: str
    repeats: bool
    trains: bool


def _read_table() -> dict[str, Option]:
    table = {}
    for i in range(lib.dpx_option_count()):
        o = lib.dpx_option_at(i)
        flag = o.name.decode()
        name = flag.replace("-", "_")
        table[name] = Option(name, flag, o.metavar.decode() if o.metavar else None, (o.fallback or b"").decode(),
                             (o.help or b"").decode(), bool(o.repeats), bool(o.trains))
    return table


#: All options by keyword, as the engine lists them.
OPTIONS: Mapping[str, Option] = _read_table()


def text_of(value: Any) -> str:
    """The text of a value as a flag takes it: true, 0.1, a path, or the members of a list with commas between them."""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (float, np.floating)):
        return repr(float(value))
    if isinstance(value, (list, tuple)):
        return ",".join(text_of(v) for v in value)
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def texts_of(option: Option, value: Any) -> list[str]:
    """The values to set one after another.  {"x": (2, 3)} is x=2,3; an option that repeats takes a list."""
    if isinstance(value, Mapping):
        pairs = [f"{k}={text_of(v)}" for k, v in value.items()]
        return pairs if option.repeats else [",".join(pairs)]
    return [text_of(v) for v in value] if option.repeats and isinstance(value, (list, tuple)) else [text_of(value)]


def find(name: str, others: Iterable[str] = ()) -> Option:
    """The option of a keyword.  InvalidArgument names the nearest of the options and of `others`."""
    if name not in OPTIONS:
        raise unknown("option", name, [*OPTIONS, *others])
    return OPTIONS[name]


class Options:
    """Settings for a model and its trainer.  An option that is None keeps its default."""

    def __init__(self, given: Mapping[str, Any] = {}, others: Iterable[str] = ()) -> None:
        self._handle = lib.dpx_options_create()
        if not self._handle:
            raise OutOfMemory("no memory for options")
        for name, value in given.items():
            self.set(name, value, others)

    def set(self, name: str, value: Any, others: Iterable[str] = ()) -> None:
        if value is None:
            return
        if name == "class_weights":
            self._set_class_weights(value)
            return
        option = find(name, others)
        for text in texts_of(option, value):
            check(lib.dpx_options_set(self._handle, option.flag.encode(), text.encode()))

    def _set_class_weights(self, value: Any) -> None:
        if isinstance(value, (str, os.PathLike)):
            raise InvalidArgument("class_weights: expected a vector of floats")
        weights = np.ascontiguousarray(as_array(value), np.float32)
        check(lib.dpx_options_set_class_weights(self._handle, tensor_of(weights, None)))

    def __getitem__(self, name: str) -> str:
        """The present value as text, "" when unset; lists are joined by ";"."""
        return lib.dpx_options_get(self._handle, find(name).flag.encode()).decode()

    def metrics(self) -> list[tuple[str, bool, bool]]:
        """For each metric its name, whether smaller is better, and whether it is a number (else a table)."""
        out: list[tuple[str, bool, bool]] = []
        while (m := lib.dpx_metric_at(self._handle, len(out))).name:
            out.append((m.name.decode(), bool(m.falls), bool(m.number)))
        return out

    def copy(self) -> Options:
        out = ctypes.c_void_p()
        check(lib.dpx_options_copy(ctypes.byref(out), self._handle))
        new = Options.__new__(Options)
        new._handle = out.value
        return new

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            lib.dpx_options_free(self._handle)
            self._handle = None
