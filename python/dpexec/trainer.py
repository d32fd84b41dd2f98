"""Trainers: a model, its optimizer and their state, one step at a time."""

from __future__ import annotations

import ctypes
import logging
import math
import os
import threading
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import _abi, _streams
from ._abi import lib
from ._handle import Handle
from ._tensors import array_of, as_array, convert, dtype_of, tensor_of, tensors_of
from .errors import ShapeError, check
from .feeding import Arrays, Feed
from .loaded_model import TensorInfo, info_of
from .model import Model
from .options import Options
from .predictor import Predictor

log = logging.getLogger("dpexec")
_LEVELS = (logging.INFO, logging.WARNING, logging.DEBUG)

@dataclass(frozen=True)
class StepResult:
    """Numbers of a training step.

    step: optimizer steps done.  samples: in the batch.  loss: mean over them, before the update.  metric: the first
    metric, None without one.  lr: learning rate.  grad_norm: before clipping, NaN when it is not computed.
    updated: False when a micro-batch was only accumulated; the loss is NaN then.  skipped: a gradient was not finite,
    and nothing changed.  log: the model's own log variables.  outputs: with keep(outputs=True), the model's.
    """

    step: int
    samples: int
    loss: float
    metric: float | None
    lr: float
    grad_norm: float
    updated: bool
    skipped: bool
    loss_sum: float
    loss_weight: float
    log: dict[str, float] = field(default_factory=dict)
    outputs: dict[str, np.ndarray] = field(default_factory=dict, repr=False)


@_abi.LogFn
def _log(_user: Any, level: int, line: bytes) -> None:
    log.log(_LEVELS[level], "%s", line.decode(errors="replace"))


class Trainer(Handle):
    """Trains a model step by step.

        trainer = dpexec.Trainer("model.onnx", loss="cross-entropy", optimizer="adamw", lr=1e-3, devices="cpu*2")
        for x, y in batches:
            loss = trainer.step(x=x, target=y).loss
        trainer.export("trained.onnx")

    model: a path, a Model, or what Model takes.  options: the engine's, by keyword (dpexec.OPTIONS lists them;
    `dpexec train --help` says what they do): the flag --batch-size is batch_size=32, a flag without a value is True,
    and an option that repeats takes a list.  class_weights is a vector of floats.  Without a loss the trainer only
    predicts.

    Arrays have the model's shapes, with the samples along the model's batch axis (axis 0, in most models).  They may be
    NumPy arrays, lists, or tensors in host memory with __dlpack__ (torch, JAX).  Numbers are converted where nothing is
    lost: whole numbers to floats, floats to floats, and whole floats to integers.

    Raises InvalidArgument for options that are unknown or contradict one another.  One thread at a time computes:
    others wait.  A trainer belongs to the process that made it, not to a fork.
    """

    _name = "trainer"

    def __init__(self, model: Any, **options: Any) -> None:
        if not isinstance(model, Model):
            model = Model(model, **options)
            options = {}
        self._open(model, model.options.copy(), options)

    @classmethod
    def _of(cls, model: Model, options: Options) -> Trainer:
        """A trainer with options that are already set."""
        self = cls.__new__(cls)
        self._open(model, options, {})
        return self

    def _open(self, model: Model, options: Options, more: Mapping[str, Any]) -> None:
        self._lock = threading.RLock()
        self._process = os.getpid()
        self.model, self.options = model, options
        for name, value in more.items():
            options.set(name, value)
        self._feed = Feed(model, options)
        self._places: dict[str, int] = {}   # of states; see State
        out = ctypes.c_void_p()
        check(lib.dpx_trainer_create(ctypes.byref(out), model._handle, options._handle, _log, None))
        self._handle = out.value

    # ---- life ----

    def close(self) -> None:
        """Frees the trainer; later calls raise InvalidArgument.  `with` and garbage collection call it."""
        with self._lock:
            handle, self._handle = self._handle, None
            if handle and self._process == os.getpid():
                lib.dpx_trainer_free(handle)

    def __reduce__(self) -> Any:
        raise TypeError("a dpexec.Trainer cannot be pickled: save_to() a file, or export() its model")

    # ---- batches ----

    @property
    def target(self) -> str | None:
        """The name of the target that the loss takes beside the model's inputs; None without one."""
        return self._feed.target

    def _arrays(self, data: Arrays, more: Mapping[str, Any]) -> dict[str, np.ndarray]:
        return self._feed.converted(self._feed.named(data, more))

    # ---- training ----

    def step(self, batch: Arrays = None, /, **arrays: Any) -> StepResult:
        """A training step over one batch: updates the parameters.

        Raises ShapeError or InvalidArgument; after a failure that is no argument's the trainer may be unusable.
        """
        return self._train(self._arrays(batch, arrays))

    def _train(self, given: dict[str, np.ndarray]) -> StepResult:
        result = _abi.Result()
        with self._lock:
            check(lib.dpx_train_step(self._live, tensors_of(given), len(given), ctypes.byref(result)))
            return self._result(result)

    def flush(self) -> StepResult:
        """Applies the micro-batches that accumulate=K has gathered so far."""
        result = _abi.Result()
        with self._lock:
            check(lib.dpx_train_flush(self._live, ctypes.byref(result)))
            return self._result(result)

    def backward(self, batch: Arrays = None, /, **arrays: Any) -> int:
        """Computes the gradients of a batch and adds them to those gathered before; gives the number of samples."""
        result = _abi.Result()
        given = self._arrays(batch, arrays)
        with self._lock:
            check(lib.dpx_train_backward(self._live, tensors_of(given), len(given), ctypes.byref(result)))
            return result.samples

    def update(self) -> StepResult:
        """Applies the gradients that backward() has gathered, as one step."""
        result = _abi.Result()
        with self._lock:
            check(lib.dpx_train_update(self._live, ctypes.byref(result)))
            return self._result(result)

    def reset(self) -> None:
        """Drops the gradients that backward() has gathered."""
        with self._lock:
            check(lib.dpx_train_reset(self._live))

    def gradient(self, parameter: str) -> np.ndarray:
        """The gradient of the mean loss by a parameter over the batches that backward() has gathered.

        Where none are gathered it is that of the last step, after keep(gradients=True).
        """
        with self._lock:
            out = self.state._room(parameter)
            check(lib.dpx_trainer_gradient(self._live, parameter.encode(), tensor_of(out, parameter)))
            return out

    def gradients(self) -> dict[str, np.ndarray]:
        """gradient() of every parameter that is trained, by name."""
        with self._lock:
            return {name: self.gradient(name) for name, i in self.state.info().items() if i.trainable}

    def keep(self, *, outputs: bool = False, gradients: bool = False) -> None:
        """Further results of the following training steps: StepResult.outputs, computed in training mode with the
        parameters before the update, and what gradient() reads after a step."""
        with self._lock:
            check(lib.dpx_trainer_keep(self._live, _abi.KEEP_OUTPUTS * outputs | _abi.KEEP_GRADIENTS * gradients))

    def set_lr(self, lr: float | None, group: int = 0) -> None:
        """Sets the learning rate of a group for the following steps; None: that of the schedule again."""
        with self._lock:
            check(lib.dpx_trainer_set_lr(self._live, group, math.nan if lr is None else lr))

    def end_epoch(self) -> None:
        """Ends an epoch, which matters to bn="average" alone."""
        with self._lock:
            check(lib.dpx_trainer_end_epoch(self._live))

    def _result(self, r: _abi.Result) -> StepResult:
        metric = None
        if self.options.metrics():
            of, parts = (r.correct, r.counted) if r.counted else (r.metric_sum, r.metric_weight)
            metric = of / parts if parts else math.nan
        return StepResult(r.step, r.samples, r.loss, metric, r.lr, r.grad_norm, bool(r.updated), bool(r.skipped),
                          r.loss_sum, r.loss_weight, {v.name.decode(): v.value for v in r.log[: r.n_log]},
                          {t.name.decode(): array_of(t) for t in r.outputs[: r.n_outputs]})

    @property
    def state(self) -> State:
        """Parameters, moments, running statistics and counters: a mapping of arrays."""
        return State(self)

    @property
    def step_count(self) -> int:
        """Optimizer steps begun."""
        return lib.dpx_trainer_step_count(self._live)

    # ---- evaluation and inference ----

    def evaluate(self, data: Arrays = None, /, batch_size: int | None = None, **arrays: Any) -> dict[str, Any]:
        """The loss and the metrics over all samples: {"loss": 0.12, "accuracy": 0.97, "samples": 10000}.

        The state does not change; batch-norm uses running statistics.  batch_size: samples computed at once, else the
        option batch_size, else all.  Metrics that are tables are arrays; "log" has the model's own log variables.
        """
        given = self._arrays(data, arrays)
        with self._lock:
            return self._evaluate(self._feed.parts(given, self._size(batch_size)))

    def _size(self, given: int | None) -> int | None:
        return given or int(self.options["batch_size"] or 0) or None

    def _evaluate(self, batches: Any) -> dict[str, Any]:
        total, weight, samples = 0.0, 0.0, 0
        lib.dpx_trainer_restart_metric(self._live)
        for batch in batches:
            r = _abi.Result()
            check(lib.dpx_val_step(self._live, tensors_of(batch), len(batch), ctypes.byref(r)))
            total, weight, samples = total + r.loss_sum, weight + r.loss_weight, samples + r.samples
        loss = total / weight if weight else total if self.options["loss_weight"] == "sum" else math.nan
        first = _abi.Metric()
        check(lib.dpx_trainer_metric(self._live, ctypes.byref(first)))
        log = {v.name.decode(): v.value for v in first.log[: first.n_log] if v.name != b"loss"}
        return {"loss": loss, **self._metrics(lib.dpx_trainer_metric_at), "samples": samples,
                **({"log": log} if log else {})}

    def _metrics(self, read: Any) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for k, (name, _, number) in enumerate(self.options.metrics()):
            m = _abi.Metric()
            check(read(self._live, k, ctypes.byref(m)))
            out[name] = m.value if number or not m.measured else array_of(m.table)
        return out

    def train_metrics(self) -> dict[str, Any]:
        """The metrics over the training steps since the last call, each batch measured before its update."""
        with self._lock:
            out = self._metrics(lib.dpx_trainer_train_metric_at)
            lib.dpx_trainer_restart_train_metric(self._live)
            return out

    def predict(self, data: Arrays = None, /, batch_size: int | None = None, **arrays: Any) -> Any:
        """The model's output for samples, or a dictionary of its outputs where it has several.

        batch_size: samples computed at once, else the option batch_size, else all.
        """
        given = self._feed.named(data, arrays)
        given.pop(self.target or "", None)
        given = self._feed.converted(given)
        with self._lock:
            parts = list(self._feed.parts(given, self._size(batch_size)))
            outputs = [self._run(part) for part in parts]
        return self._feed.joined(parts, outputs)

    def predictor(self, **options: Any) -> Predictor:
        """A copy of the model and its present weights, for predictions by many threads while training goes on.

        options: as for Predictor.
        """
        return Predictor(self, **options)

    def _run(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        room = len(self.model.outputs)
        if self.options["output_device"] == "each":
            room *= lib.dpx_trainer_replicas(self._live)
        outputs = (_abi.Tensor * room)()
        check(lib.dpx_run(self._live, tensors_of(arrays), len(arrays), outputs, room))
        return {t.name.decode(): array_of(t) for t in outputs if t.name}

    # ---- files ----

    def save(self, folder: str | os.PathLike[str], note: str | None = None) -> None:
        """Writes the checkpoint FOLDER/step-N with parameters, moments, running statistics and counters."""
        with self._lock:
            check(lib.dpx_trainer_save(self._live, os.fsencode(folder), None if note is None else note.encode()))

    def load(self, folder: str | os.PathLike[str], step: int | None = None) -> str:
        """Loads the newest valid checkpoint of a folder, or that of a step, and gives its note.

        Raises FileError where there is none, InvalidArgument for a checkpoint of other options.
        """
        note, path = ctypes.c_void_p(), os.fsencode(folder)
        with self._lock:
            check(lib.dpx_trainer_resume(self._live, path, ctypes.byref(note)) if step is None else
                  lib.dpx_trainer_resume_step(self._live, path, step, ctypes.byref(note)))
        return _abi.take_text(note)

    def export(self, path: str | os.PathLike[str]) -> None:
        """Writes the trained model as ONNX, for inference in any runtime."""
        with self._lock:
            check(lib.dpx_trainer_export(self._live, os.fsencode(path)))

    def export_to(self, file: Any) -> None:
        """Writes the bytes that export() writes to a binary file, such as an io.BytesIO.

        An exception of the file ends the call and is raised here, in this and the two calls that follow.
        """
        with self._lock:
            to = _streams.sink(file)
            to.check(lib.dpx_trainer_export_to(self._live, to.function, None))

    def save_to(self, file: Any, note: str | None = None) -> None:
        """Writes a checkpoint to a binary file, as a tar archive of the folder that save() writes."""
        with self._lock:
            to = _streams.sink(file)
            to.check(lib.dpx_trainer_save_to(self._live, to.function, None, None if note is None else note.encode()))

    def load_from(self, file: Any) -> str:
        """Loads a checkpoint that save_to() wrote, and gives its note.  After a failure nothing has changed."""
        note = ctypes.c_void_p()
        with self._lock:
            of = _streams.source(file)
            of.check(lib.dpx_trainer_load_from(self._live, of.function, None, ctypes.byref(note)))
        return _abi.take_text(note)


class State(MutableMapping[str, np.ndarray]):
    """Parameters, moments, running statistics and counters of a trainer by name; reading and writing copies.

    Until the first step it may be empty, where sizes depend on the batch and batch_size is not given.
    """

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._places = trainer._places      # by name, as far as they are known

    def info(self) -> dict[str, TensorInfo]:
        """Type, shape and kind of each state."""
        with self._trainer._lock:
            all_infos = [self._info(k) for k in range(len(self))]
            self._places.clear()
            self._places.update((i.name, k) for k, i in enumerate(all_infos))
            return {i.name: i for i in all_infos}

    def _info(self, place: int) -> TensorInfo:
        i = _abi.Info()
        check(lib.dpx_trainer_state_info(self._trainer._live, place, ctypes.byref(i)))
        return info_of(i)

    def _find(self, name: str) -> TensorInfo:
        """The state of a name, first looked for where it was the last time: a step may have added states before it."""
        place = self._places.get(name, -1)
        if 0 <= place < len(self):
            i = self._info(place)
            if i.name == name:
                return i
        info = self.info()
        if name not in info:
            raise KeyError(name)
        return info[name]

    def _room(self, name: str) -> np.ndarray:
        """An array of the state's type and shape."""
        i = self._find(name)
        return np.empty([int(d) for d in i.shape or ()], dtype_of(i.number))

    def __getitem__(self, name: str) -> np.ndarray:
        with self._trainer._lock:
            out = self._room(name)
            check(lib.dpx_trainer_get_state(self._trainer._live, name.encode(), tensor_of(out, name)))
            return out

    def __setitem__(self, name: str, value: Any) -> None:
        with self._trainer._lock:
            i = self._find(name)
            x = convert(as_array(value, name), i.number, name)
            if x.shape != i.shape:
                raise ShapeError(f"state '{name}' is {list(i.shape or ())}, the array is {list(x.shape)}")
            check(lib.dpx_trainer_set_state(self._trainer._live, name.encode(), tensor_of(x, name)))

    def __delitem__(self, name: str) -> None:
        raise TypeError("states of a trainer cannot be deleted")

    def __iter__(self) -> Iterator[str]:
        return iter(self.info())

    def __len__(self) -> int:
        return lib.dpx_trainer_state_count(self._trainer._live)

    def __repr__(self) -> str:
        return f"<dpexec state: {len(self)} tensors>"
