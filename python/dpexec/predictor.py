"""Predictors: a model and a copy of its weights, used by many threads at once."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np

from . import _abi
from ._abi import lib
from ._handle import Handle
from ._tensors import array_of, tensors_of
from .errors import check
from .feeding import Arrays, Feed
from .loaded_model import LoadedModel
from .options import Options


class HasWeights(Protocol):
    """What a predictor asks of a trainer."""

    @property
    def model(self) -> LoadedModel: ...

    @property
    def options(self) -> Options: ...

    @property
    def _lock(self) -> contextlib.AbstractContextManager[Any]: ...

    @property
    def _live(self) -> Any: ...


class Predictor(Handle):
    """Predicts by a model and weights of its own.

        predictor = trainer.predictor()         # a snapshot of the trainer's weights
        predictor.predict(x)                    # in any number of threads
        predictor.take(trainer)                 # the trainer's present weights

    of: a trainer, or a model with the weights of its file.  options: the engine's, with which a prediction is computed,
    beside those of the trainer or the model; by default each caller computes on one processor core (threads=1).
    Threads that predict at the same time share the weights and compute at the same time: Python's lock is released.
    """

    _name = "predictor"

    def __init__(self, of: LoadedModel | HasWeights, **options: Any) -> None:
        self._calls, self._idle, self._process = 0, threading.Condition(), os.getpid()
        trainer = None if isinstance(of, LoadedModel) else of
        model = of if isinstance(of, LoadedModel) else of.model
        own = of.options.copy()
        for name, value in {"devices": "cpu", "threads": 1, **options}.items():
            own.set(name, value)
        self._feed = Feed(model, own)
        out = ctypes.c_void_p()
        with trainer._lock if trainer else contextlib.nullcontext():
            check(lib.dpx_predictor_create(ctypes.byref(out), model._handle, trainer._live if trainer else None,
                                           own._handle))
        self._handle = out.value

    @contextlib.contextmanager
    def _use(self) -> Iterator[int]:
        """The handle, which close() does not free before all its users are done."""
        with self._idle:
            handle, self._calls = self._live, self._calls + 1
        try:
            yield handle
        finally:
            with self._idle:
                self._calls -= 1
                self._idle.notify_all()

    def _arrays(self, data: Arrays, more: Mapping[str, Any]) -> dict[str, np.ndarray]:
        given = self._feed.named(data, more)
        given.pop(self._feed.target or "", None)
        return self._feed.converted(given)

    def predict(self, data: Arrays = None, /, batch_size: int | None = None, **arrays: Any) -> Any:
        """The model's output for samples, or a dictionary of its outputs where it has several.

        batch_size: samples computed at once, else the option batch_size, else all.  The samples of one such batch are
        computed with the same weights; take() may come between two.
        """
        size = batch_size or int(self._feed.options["batch_size"] or 0) or None
        parts = list(self._feed.parts(self._arrays(data, arrays), size))
        with self._use() as handle:
            return self._feed.joined(parts, [_predict(handle, part) for part in parts])

    def take(self, trainer: HasWeights) -> None:
        """Copies the trainer's present weights, by name.  Predictions wait only while they are copied."""
        with self._use() as handle, trainer._lock:
            check(lib.dpx_predictor_take(handle, trainer._live))

    def warm(self, callers: int, data: Arrays = None, /, **arrays: Any) -> None:
        """Computes such a batch by `callers` threads, so that as many at once need not compile its shapes later."""
        given = self._arrays(data, arrays)
        with self._use() as handle:
            check(lib.dpx_predictor_warm(handle, callers, tensors_of(given), len(given)))

    def close(self) -> None:
        """Frees the predictor after the calls under way; `with` and garbage collection call it."""
        with self._idle:
            handle, self._handle = self._handle, None
            if handle and self._process == os.getpid():
                self._idle.wait_for(lambda: not self._calls)
                lib.dpx_predictor_free(handle)


def _predict(handle: int, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    out = ctypes.c_void_p()
    check(lib.dpx_predict(handle, tensors_of(arrays), len(arrays), ctypes.byref(out)))
    try:
        return {lib.dpx_data_key(out, k).decode(): _view(lib.dpx_data_at(out, k))
                for k in range(lib.dpx_data_count(out))}
    finally:
        lib.dpx_data_free(out)


def _view(data: int) -> np.ndarray:
    t = _abi.Tensor()
    check(lib.dpx_data_view(data, ctypes.byref(t)))
    return array_of(t)
