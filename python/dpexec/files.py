"""Arrays as a file, for what only the program dpexec does with data: augmentation, a part held out, sequences."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from ._tensors import as_array
from .errors import FileError, InvalidArgument
from .feeding import Feed
from .model import Model, bytes_of
from .options import OPTIONS

_SEQUENCES = ("padding", "pad_multiple", "group_by_length", "lengths", "mask", "padding_mask")
#: Settings of dpexec.train that are flags of `dpexec train` and no options of the engine.
PROGRAM = ("val_split", "map", "workers", "balanced", "augment", "mean", "std", *_SEQUENCES, "eval_batches", "no_best",
           "time_limit", "tensorboard", "trace", "profile", "config")


def is_sequences(x: Any) -> bool:
    """Whether x is a list of samples of unequal length."""
    if not isinstance(x, (list, tuple)) or any(isinstance(v, str) or not hasattr(v, "__len__") for v in x):
        return False
    return len({len(v) for v in x}) > 1 or (bool(x) and any(is_sequences(v) for v in x))


def _columns(data: Any) -> list[Any]:
    return list(data.values()) if isinstance(data, Mapping) else list(data) if isinstance(data, tuple) else []


def reason(data: Any, settings: Mapping[str, Any]) -> str:
    """Why arrays are left to the program: the name of a setting, or "sequences"; "" where they are not."""
    for name in PROGRAM:
        if settings.get(name) not in (None, False):
            return name
    if isinstance(settings.get("class_weights"), str):
        return "class_weights"
    return "sequences" if any(is_sequences(x) for x in _columns(data)) else ""


def write_model(model: Any, folder: pathlib.Path) -> tuple[str, dict[str, Any]]:
    """A path of the model, and the options that came with it."""
    held = bytes_of(model)
    if held is not None:
        (folder / "model.onnx").write_bytes(held)
        return str(folder / "model.onnx"), {}
    if not isinstance(model, Model):
        return os.fspath(model), {}
    if model.path is None:
        raise InvalidArgument("the program dpexec trains here, which reads a file: give the model's path or its bytes")
    return model.path, model.given


def write_arrays(model: Any, data: Any, path: pathlib.Path, settings: Mapping[str, Any], what: str) -> str:
    """Writes arrays by name to a .npz file, and gives its path.  Sequences are concatenated, with offsets."""
    if not _columns(data):
        raise InvalidArgument(f"{what}: expected arrays by name or a tuple of arrays, as '{settings['why']}' is given; "
                              "an iterable over batches has its own order and batch size")
    if not isinstance(model, Model):
        model = Model(model, **{k: v for k, v in settings.items() if k in OPTIONS})
    options = model.options.copy()
    for name, value in settings.items():
        if name in OPTIONS and name not in model.given:
            options.set(name, value)
    feed, out = Feed(model, options), {}
    names = [i.name for i in model.inputs] + ([feed.target] if feed.target else [])
    given = data if isinstance(data, Mapping) else dict(zip(names, data))
    lists = any(settings.get(name) not in (None, False) for name in _SEQUENCES)
    for name, x in given.items():
        if is_sequences(x) or (lists and isinstance(x, (list, tuple)) and x and np.ndim(x[0])):
            out[f"{name}.offsets"] = np.cumsum([0, *(len(v) for v in x)])
            x = np.concatenate([as_array(v, name) for v in x])
        x = as_array(x, name)
        out[name] = feed.converted({name: x})[name] if name in names else x
    try:
        np.savez(path, **out)       # type: ignore[arg-type]
    except OSError as e:
        raise FileError(f"{path}: {e.strerror or e}") from None
    return str(path)


def write_class_weights(value: Any, folder: pathlib.Path) -> Any:
    """Class weights as the program takes them: "balanced", or a file of a vector."""
    if value is None or isinstance(value, (str, os.PathLike)):
        return value
    np.save(folder / "class_weights.npy", np.asarray(as_array(value), np.float32))
    return folder / "class_weights.npy"
