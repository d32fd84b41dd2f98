"""Batches for a model: which array feeds which input, as which type, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from . import _abi
from ._abi import lib
from ._tensors import FLOATS, as_array, convert
from .errors import InvalidArgument, ShapeError, check, unknown
from .loaded_model import LoadedModel
from .options import Options

#: A batch or a data set: arrays by name, or in the order of the model's inputs with the target last, or one array.
Arrays = Mapping[str, Any] | Sequence[Any] | Any


class Feed:
    """What a model with these options takes."""

    def __init__(self, model: LoadedModel, options: Options) -> None:
        self.model, self.options = model, options

    @property
    def target(self) -> str | None:
        """The name of the target that the loss takes beside the model's inputs; None without one."""
        name = self.options["target"] or "target"
        takes = lib.dpx_target(self.options._handle) != _abi.TARGET_NONE
        return name if takes and all(i.name != name for i in self.model.inputs) else None

    def named(self, data: Arrays, more: Mapping[str, Any] = {}) -> dict[str, np.ndarray]:
        """Arrays by name of a mapping, of a sequence (the model's inputs in order, then the target) or of one array."""
        if data is None:
            data = {}
        if not isinstance(data, Mapping):
            names = [i.name for i in self.model.inputs] + ([self.target] if self.target else [])
            values = list(data) if isinstance(data, (tuple, list)) and not _is_nested(data) else [data]
            if len(values) > len(names):
                raise InvalidArgument(f"{len(values)} arrays are given, the model takes {len(names)}: "
                                      + ", ".join(names))
            data = dict(zip(names, values))
        return {str(name): as_array(x, str(name)) for name, x in {**data, **more}.items()}

    def _wanted(self, name: str, x: np.ndarray) -> int:
        """The engine's number of the type that an input or the target takes."""
        for i in self.model.inputs:
            if i.name == name:
                return self._computed(i.number)
        if name != self.target:
            known = [i.name for i in self.model.inputs] + ([self.target] if self.target else [])
            raise unknown("input", name, known)
        if lib.dpx_target(self.options._handle) == _abi.TARGET_CLASSES and not self._is_soft(x):
            return _abi.INT64
        double = bool(self.model.inputs) and self.model.inputs[0].number == _abi.FLOAT64
        return self._computed(_abi.FLOAT64 if double and not self.options["dtype"] else _abi.FLOAT32)

    def _computed(self, number: int) -> int:
        dtype = self.options["dtype"]
        return {"float64": _abi.FLOAT64, "float32": _abi.FLOAT32}[dtype] if number in FLOATS and dtype else number

    def _is_soft(self, x: np.ndarray) -> bool:
        """Whether targets are class probabilities: floats with an axis of classes."""
        if x.dtype.kind != "f" or self.options["loss"] != "cross-entropy":
            return False
        logits = self.options["logits"]
        scores = next((o for o in self.model.outputs if not logits or o.name == logits), None)
        if scores is None or scores.shape is None:
            return self.options["soft_labels"] == "true" or not np.array_equal(x, np.trunc(x))
        single = any(x.shape[k] == 1 and isinstance(d, int) and d > 1 for k, d in enumerate(scores.shape)
                     if 0 < k < x.ndim and x.ndim == len(scores.shape))
        return x.ndim == len(scores.shape) and not single

    def converted(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Dense arrays of the types that the model and the loss take."""
        return {name: convert(x, self._wanted(name, x), name) for name, x in arrays.items()}

    def axis(self, name: str) -> int:
        """The axis of an input or the target that has the samples."""
        return lib.dpx_batch_axis(self.model._handle, self.options._handle, name.encode())

    def role(self, name: str) -> int:
        """How an input of the model relates to the samples: one of _abi.ROLE_*."""
        if all(i.name != name for i in self.model.inputs):
            return _abi.ROLE_SAMPLES
        return lib.dpx_batch_role(self.model._handle, self.options._handle, name.encode())

    def is_whole(self, name: str, samples: int, length: int) -> bool:
        """Whether an array of this length is the same for all samples, such as a table."""
        if name == self.target:
            return False
        role = self.role(name)
        return role in (_abi.ROLE_WHOLE, _abi.ROLE_ORDERED) or (role != _abi.ROLE_SAMPLES and length != samples)

    def divide(self, lengths: Mapping[str, int]) -> tuple[int, list[str]]:
        """The number of samples, and the names of the arrays that hold them, by the lengths of their batch axes.

        The target and inputs that are sure to hold samples decide, else the first array.
        """
        sure = [n for n in lengths if n == self.target or self.role(n) == _abi.ROLE_SAMPLES]
        samples = lengths[sure[0] if sure else next(iter(lengths))]
        return samples, [n for n, length in lengths.items() if not self.is_whole(n, samples, length)]

    def measure(self, arrays: Mapping[str, np.ndarray]) -> tuple[int, dict[str, int]]:
        """The number of samples, and for each array that holds them the axis, from 0."""
        if not arrays:
            raise InvalidArgument("no arrays are given")
        axes = {n: self.axis(n) for n in arrays}
        for name, x in arrays.items():
            if x.ndim and not -x.ndim <= axes[name] < x.ndim:
                raise ShapeError(f"'{name}' has {x.ndim} axes, and its samples lie along axis {axes[name]}")
        lengths = {n: x.shape[axes[n]] if x.ndim else -1 for n, x in arrays.items()}
        samples, split = self.divide(lengths)
        for name in split:
            if lengths[name] != samples:
                raise ShapeError(f"'{name}' has {max(lengths[name], 0)} samples, expected {samples}")
        return samples, {n: axes[n] % arrays[n].ndim for n in split if arrays[n].ndim}

    def keep_order(self, samples: int) -> None:
        """Refuses to shuffle or divide samples that an input of the model refers to by their places."""
        for i in self.model.inputs:
            if self.role(i.name) == _abi.ROLE_ORDERED:
                raise InvalidArgument(f"input '{i.name}' refers to samples by position, so all are one batch in "
                                      f"their order: give shuffle=False and batch_size={samples}")

    def parts(self, arrays: dict[str, np.ndarray], size: int | None) -> Iterator[dict[str, np.ndarray]]:
        """Batches of `size` samples in order; all at once with None."""
        samples, axes = self.measure(arrays)
        if size is None or samples <= size or not axes:
            yield arrays
            return
        self.keep_order(samples)
        for at in range(0, samples, size):
            yield {n: np.take(x, range(at, min(at + size, samples)), axes[n]) if n in axes else x
                   for n, x in arrays.items()}

    def output_axis(self, name: str, shape: Sequence[int], samples: int, axes: Mapping[str, int]) -> int:
        """The axis of an output that holds the samples of a batch, by the rule of `dpexec run`; -1: none does.

        It is the axis with the name of an input's axis of samples, or else the first, or that of the inputs.  `axes`:
        the axes of the inputs, as measure gives them.
        """
        holds = [k for k, d in enumerate(shape) if d == samples]
        declared = next((o.shape for o in self.model.outputs if o.name == name), None) or ()
        names = {i.shape[axes[i.name]] for i in self.model.inputs if i.shape and i.name in axes} - {-1}
        for k in holds:
            if len(declared) == len(shape) and isinstance(declared[k], str) and declared[k] in names:
                return k
        inner = [k for k in axes.values() if k in holds and k > 0]
        if 0 in holds and inner:
            raise InvalidArgument(f"output '{name}': its samples may lie along axis 0 or {inner[0]}, which both have "
                                  f"{samples} elements: give another batch_size")
        return 0 if 0 in holds else inner[0] if inner else -1

    def joined(self, parts: Sequence[dict[str, np.ndarray]], outputs: Sequence[dict[str, np.ndarray]]) -> Any:
        """The outputs of consecutive batches as those of one: the array, or arrays by name where there are several."""
        names = list(outputs[0])
        whole = outputs[0] if len(parts) == 1 else {n: self._join(n, parts, [o[n] for o in outputs]) for n in names}
        return whole[names[0]] if len(names) == 1 else whole

    def _join(self, name: str, parts: Sequence[dict[str, np.ndarray]], outputs: list[np.ndarray]) -> np.ndarray:
        """An output of all batches, along its axis of samples."""
        sizes = [self.measure(part) for part in parts]
        axes = {self.output_axis(name, y.shape, *size) for y, size in zip(outputs, sizes)}
        if len(axes) > 1 or -1 in axes:
            raise InvalidArgument(f"output '{name}' has no axis of samples, so that batches cannot be joined: give "
                                  f"batch_size={sum(samples for samples, _ in sizes)}")
        return np.concatenate(outputs, axes.pop())


def _is_nested(data: Sequence[Any]) -> bool:
    """Whether a list is one array, written as numbers or lists of numbers."""
    return not isinstance(data, tuple) and bool(data) and not hasattr(data[0], "shape")


# ---- data sets ----

_GOLDEN, _STREAM, _U64 = 0x9E3779B97F4A7C15, 0xD1342543DE82EF95, 2**64 - 1


def _mix(z: np.ndarray) -> np.ndarray:
    """The output function of splitmix64 (Steele, Lea, Flood 2014)."""
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return z ^ z >> np.uint64(31)


def draws(state: int, bound: np.ndarray) -> np.ndarray:
    """For each bound n a uniform number below it, by splitmix64.

    A draw from the incomplete last multiple of n is repeated, with the state's next number.
    """
    out = np.empty(len(bound), np.uint64)
    at, first = 0, 1
    with np.errstate(over="ignore"):
        while at < len(bound):
            n = bound[at:]
            r = _mix(np.uint64(state) + np.arange(first, first + len(n), dtype=np.uint64) * np.uint64(_GOLDEN))
            refused = np.flatnonzero(r < (np.uint64(0) - n) % n)
            good = int(refused[0]) if len(refused) else len(n)
            out[at : at + good] = r[:good] % n[:good]
            at += good
            first += good + 1
    return out


def shuffled(samples: int, seed: int, epoch: int) -> np.ndarray:
    """The order of an epoch's samples, as `dpexec train` draws it (tools/feed/batch_loader.c): int64 [samples].

    Fisher and Yates, from the last sample down: the draw for place i is below i + 1.
    """
    draw = draws((seed * _STREAM + epoch) & _U64, np.arange(samples, 1, -1, dtype=np.uint64))
    order = list(range(samples))
    for i, j in zip(range(samples - 1, 0, -1), draw.tolist()):
        order[i], order[j] = order[j], order[i]
    return np.array(order, np.int64)


class ArrayData:
    """Arrays with the samples along their first axis, cut into batches; epochs in an order that the seed decides."""

    def __init__(self, feed: Feed, data: Arrays, what: str) -> None:
        given = feed.named(data)
        wanted = [i.name for i in feed.model.inputs] + ([feed.target] if feed.target else [])
        missing = [name for name in wanted if name not in given]
        if missing:
            spare = [name for name in given if name not in wanted]
            hint = f"; is it '{spare[0]}'? Call that '{missing[0]}'" if len(spare) == len(missing) == 1 else ""
            raise InvalidArgument(f"{what}: no array for '{missing[0]}' (has: {', '.join(given) or 'none'}){hint}")
        self.feed, self.arrays = feed, feed.converted({name: given[name] for name in wanted})
        counts = {n: len(x) if x.ndim else -1 for n, x in self.arrays.items()}
        self.samples, split = feed.divide(counts)
        self.split = {n: feed.axis(n) for n in split}
        wrong = [n for n in self.split if counts[n] != self.samples]
        if wrong or self.samples < 1:
            one = (wrong or wanted)[0]
            raise ShapeError(f"{what}: array '{one}' has {max(counts[one], 0)} samples along its first axis, expected "
                             f"{max(self.samples, 1)}")
        self.shuffle, self.seed, self.batch_size, self.drop_last = False, 0, self.samples, False

    def settle(self, batch_size: int) -> None:
        """Tells the options the batches' shapes, as far as the model leaves them open."""
        options = self.feed.options
        self.batch_size = batch_size
        for i in self.feed.model.inputs:
            x, axis = self.arrays[i.name], self.split.get(i.name)
            if self.feed.role(i.name) not in (_abi.ROLE_SAMPLES, _abi.ROLE_WHOLE, _abi.ROLE_ORDERED):
                role = _abi.ROLE_WHOLE if axis is None else _abi.ROLE_SAMPLES
                check(lib.dpx_options_set_role(options._handle, i.name.encode(), role))
            if i.shape is None or any(k != axis and not (isinstance(d, int) and d >= 0) for k, d in enumerate(i.shape)):
                options.set("input_shape", {i.name: self._take(i.name, np.arange(1)).shape if axis is None else
                                            self._shape(i.name, batch_size)})
        if self.feed.target:
            shape = self._shape(self.feed.target, batch_size)
            t = _abi.Tensor(name=self.feed.target.encode(), dtype=_abi.FLOAT32, rank=len(shape))
            t.dim[: len(shape)] = shape
            check(lib.dpx_options_set_target_shape(options._handle, t))

    def _shape(self, name: str, samples: int) -> tuple[int, ...]:
        rest = list(self.arrays[name].shape[1:])
        axis = self.split[name]
        rest.insert(axis if axis >= 0 else len(rest) + 1 + axis, samples)
        return tuple(rest)

    def _take(self, name: str, rows: np.ndarray) -> np.ndarray:
        x = self.arrays[name]
        if name not in self.split:
            return x
        x = x[rows]
        return np.ascontiguousarray(np.moveaxis(x, 0, self.split[name])) if self.split[name] else x

    def __len__(self) -> int:
        return self.samples // self.batch_size if self.drop_last else -(-self.samples // self.batch_size)

    def batches(self, epoch: int = 0, first: int = 0) -> Iterator[dict[str, np.ndarray]]:
        """The batches of an epoch, counted from 0, from batch `first`."""
        order = shuffled(self.samples, self.seed, epoch) if self.shuffle else np.arange(self.samples)
        for k in range(first, len(self)):
            rows = order[k * self.batch_size : (k + 1) * self.batch_size]
            yield {name: self._take(name, rows) for name in self.arrays}


class StreamData:
    """Batches that an iterable makes: dictionaries, or tuples in the order of the inputs with the target last.

    A torch DataLoader is one.  Each epoch iterates over it again.
    """

    def __init__(self, feed: Feed, data: Iterable[Any]) -> None:
        self.feed, self.data = feed, data
        self.once = iter(data) is data      # a generator: one epoch

    def __len__(self) -> int:
        """Batches of an epoch; 0 where the iterable does not tell."""
        try:
            return len(self.data)       # type: ignore[arg-type]
        except TypeError:
            return 0

    def batches(self, epoch: int = 0, first: int = 0) -> Iterator[dict[str, np.ndarray]]:
        for k, batch in enumerate(self.data):
            if k >= first:
                yield self.feed.converted(self.feed.named(batch))


def open_data(feed: Feed, data: Any, what: str) -> ArrayData | StreamData:
    """A data set of arrays (a mapping, a tuple, an array) or of an iterable over batches."""
    if isinstance(data, (Mapping, tuple)) or hasattr(data, "shape") or hasattr(data, "__dlpack__"):
        return ArrayData(feed, data, what)
    if not isinstance(data, Iterable):
        raise InvalidArgument(f"{what}: expected arrays by name, a tuple of arrays, an iterable over batches or a "
                              f"source such as 'data.npz', found {type(data).__name__}")
    return StreamData(feed, data)
