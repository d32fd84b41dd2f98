"""dpexec.train: epochs of steps with evaluation, the best model and checkpoints, as `dpexec train` makes them."""

from __future__ import annotations

import contextlib
import inspect
import json
import math
import os
import pathlib
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _abi, files
from ._abi import lib
from .errors import FileError, InvalidArgument, check, unknown
from .feeding import ArrayData, Feed, StreamData, open_data
from .history import History, Row
from .model import Model
from .options import OPTIONS
from .program import train_program
from .progress import Progress
from .run import Monitor, Run, run_folder
from .trainer import StepResult, Trainer, log

Source = Any


def train(model: str | os.PathLike[str] | Model, data: Source, val: Source = None, *, epochs: int | None = None,
          steps: int | None = None, shuffle: bool = True, drop_last: bool = False, monitor: str | None = None,
          patience: int | None = None, eval_every: int | None = None, out: str | os.PathLike[str] | None = None,
          resume: bool = False, checkpoint_every: int | None = None, keep: int = 2,
          on_step: Callable[[StepResult], Any] | None = None, progress: bool | None = None,
          augment: Any = None, **options: Any) -> Run:
    """Trains a model and gives the run: its history, its best and its last model.

        run = dpexec.train("model.onnx", data=dict(x=X, target=y), val=(Xv, yv), loss="cross-entropy",
                           metric="accuracy", epochs=5)
        run.best.predict(X)
        run.history["eval_accuracy"]

    data, val: arrays by name, or a tuple in the order of the model's inputs with the target last, with samples along
    axis 0; or an iterable over batches in these forms, such as a torch DataLoader; or the text of a source, such as
    "data.npz" or "images:DIR", with which the program dpexec trains and `options` are all of its flags.
    epochs: passes over the data, 1 unless steps is given.  steps: optimizer steps at most.
    shuffle, drop_last: for arrays.  The order depends on the option seed and the epoch alone, and is that of the
    program: with the same settings the same bytes come out.
    monitor: figure of val that decides which model is the best, such as "loss" or "f1:max" (the first metric, else the
    loss).  patience: evaluations in a row without a better one before the run stops.  eval_every: steps between
    evaluations, else one at the end of each epoch.
    out: a folder for best.onnx, model.onnx, metrics.jsonl and checkpoints.  Ctrl-C then saves a checkpoint between two
    steps before KeyboardInterrupt is raised (a second Ctrl-C does not wait), and resume=True goes on from the newest.
    checkpoint_every: steps between checkpoints.  keep: checkpoints that stay.
    on_step: called after each step.  progress: a line of progress; None: in notebooks.
    augment: a function of a training batch (arrays by name) and of a NumPy Generator, which is seeded by the option
    seed, the epoch and the batch; it gives the batch to train, of the same shapes.
    val_split, balanced, group_by_length and others, as well as samples of unequal length (a list of arrays): the
    program dpexec trains, from a temporary copy of the arrays.  files.PROGRAM lists them.
    options: the engine's, as for Trainer; batch_size is 32 by default.

    Raises the exceptions of Trainer, and InvalidArgument when a loss is no finite number.
    """
    own = dict(epochs=epochs, steps=steps, monitor=monitor, patience=patience, eval_every=eval_every,
               checkpoint_every=checkpoint_every)
    for name, value in dict(own, keep=keep).items():
        if value is not None and name != "monitor" and not _counts(value):
            raise InvalidArgument(f"{name}: expected a positive whole number, found {value!r}")
    change = augment if callable(augment) else None
    options = {name: value for name, value in {**options, "augment": augment}.items()
               if name not in files.PROGRAM or not (value is None or value is change)}
    if isinstance(data, (str, os.PathLike)):
        why = "a source as text"
    else:
        why = files.reason(data, options)
        if why == "augment" and not str(augment).endswith(".onnx"):
            raise InvalidArgument(f"augment: expected a function of a batch and a generator, or FILE.onnx, found "
                                  f"{augment!r}, which is for a source of images such as 'images:DIR'")
    if why:
        for name, function in {"on_step": on_step, "augment": change}.items():
            if function is not None:
                raise InvalidArgument(f"{name}: no function with {why}, for which the program dpexec trains")
        flags = dict(own, no_shuffle=not shuffle, drop_last=drop_last, keep=None if keep == 2 else keep, **options)
        return train_program(model, data, val, out, resume, flags, Progress(progress))
    settings = _Settings(epochs, steps, shuffle, drop_last, monitor, patience, eval_every, out, resume,
                         checkpoint_every, keep, on_step, change, Progress(progress))
    return _Loop(model, data, val, settings, options).run()


# What train takes besides the engine's options, to find the nearest name of a wrong one.
_OWN = (*(p.name for p in inspect.signature(train).parameters.values() if p.kind is not p.VAR_KEYWORD), *files.PROGRAM)


def _counts(value: Any) -> bool:
    """Whether it is a whole number from 1 on; NumPy's are some, too."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= 1


@dataclass(frozen=True)
class _Settings:
    """What train was asked for, beside the data and the engine's options."""

    epochs: int | None
    steps: int | None
    shuffle: bool
    drop_last: bool
    monitor: str | None
    patience: int | None
    eval_every: int | None
    out: str | os.PathLike[str] | None
    resume: bool
    checkpoint_every: int | None
    keep: int
    on_step: Callable[[StepResult], Any] | None
    change: Callable[[dict[str, Any], np.random.Generator], Any] | None     # the function `augment`
    progress: Progress


class _Loop:
    """A run in this process."""

    def __init__(self, model: Any, data: Any, val: Any, settings: _Settings, options: dict[str, Any]) -> None:
        self.settings = settings
        self._take_options(model, options)
        self._open_data(data, val)
        self._count()
        self.monitor = Monitor(self.options, settings.monitor, val is not None)
        self._lead_schedule()
        self._write_metadata()
        self.trainer = Trainer._of(self.model, self.options)
        self.observes = lib.dpx_trainer_observes(self.trainer._live)
        if self.observes & _abi.OBSERVES_METRIC and (val is None or not self.options.metrics()):
            raise InvalidArgument("lr_schedule plateau follows the metric of evaluations: give val and metric")
        self.epoch = self.batch = self.step = 0
        self.evaluated = -1
        self.rows: list[Row] = []
        self.early = False
        self.between = True     # no batch was accumulated after the last step
        self.sums = [0.0, 0.0, 0.0, 0.0]    # loss and weight of the epoch; and since the metrics of training were read
        self._open_folder()

    def _take_options(self, model: Any, options: dict[str, Any]) -> None:
        for name in options:
            if name not in OPTIONS and name != "class_weights":
                raise unknown("option", name, [*OPTIONS, *_OWN])
        if not isinstance(model, Model):
            model, options = Model(model, **options), {}
        self.model, self.options = model, model.options.copy()
        for name, value in options.items():
            self.options.set(name, value)
        if self.options["loss"] == "none" and not self.options["criterion"]:
            raise InvalidArgument("loss is missing: what training minimises, such as loss=\"cross-entropy\"")

    def _open_data(self, data: Any, val: Any) -> None:
        feed, shuffle = Feed(self.model, self.options), self.settings.shuffle
        self.data, self.val = open_data(feed, data, "data"), None
        if isinstance(self.data, ArrayData) and not self.options["batch_size"]:
            self.options.set("batch_size", 32)
        self.batch_size = int(self.options["batch_size"] or 32)
        if isinstance(self.data, ArrayData):
            self.data.shuffle, self.data.drop_last = shuffle, self.settings.drop_last
            self.data.seed = int(self.options["seed"])
            if shuffle or self.data.samples > self.batch_size:
                feed.keep_order(self.data.samples)
            self.data.settle(self.batch_size)
        if val is not None:
            self.val = open_data(feed, val, "val")
            if isinstance(self.val, ArrayData):
                if self.val.samples > self.batch_size:
                    feed.keep_order(self.val.samples)
                self.val.batch_size = self.batch_size

    def _count(self) -> None:
        """Epochs and steps, and the options that follow from them."""
        epochs, steps = self.settings.epochs, self.settings.steps
        self.accumulate = int(self.options["accumulate"])
        self.across = self.options["accumulate_across_epochs"] == "true"
        if isinstance(self.data, StreamData) and self.data.once and (epochs or 1) > 1:
            raise InvalidArgument("data is a generator, which gives one epoch: pass an iterable that can begin again")
        each = len(self.data)
        if isinstance(self.data, ArrayData) and not each:
            raise InvalidArgument(f"drop_last: {self.data.samples} samples do not fill one batch of {self.batch_size}")
        epochs = epochs or (0 if steps else 1)
        if isinstance(self.data, StreamData) and self.data.once:
            epochs = 1
        if each:
            groups = -(-each // self.accumulate)
            most = -(-epochs * each // self.accumulate) if self.across else epochs * groups
            if epochs and (not steps or most < steps):
                steps = most
            if not epochs:
                epochs = -(-(steps or 0) * self.accumulate // each) if self.across else -(-(steps or 0) // groups)
        self.epochs, self.steps = epochs or 2**62, steps or 2**62
        if steps:
            self.options.set("total_steps", steps)
        if isinstance(self.data, ArrayData) and not self.settings.drop_last and self.steps * self.accumulate >= each:
            self.options.set("samples", self.data.samples)

    def _lead_schedule(self) -> None:
        """Lets a plateau follow the monitored metric."""
        given = self.options["lr_schedule"]
        if given.startswith("plateau") and given.count(":") < 7 and self.monitor.name not in ("", "loss"):
            mode = "max" if self.monitor.rises else "min-metric"
            self.options.set("lr_schedule", given + ":" * (7 - given.count(":")) + mode)

    def _write_metadata(self) -> None:
        """Says in the exported model what its scores are, as `dpexec train` does."""
        target, loss = lib.dpx_target(self.options._handle), self.options["loss"]
        task = (None if target == _abi.TARGET_NONE else "classification" if target == _abi.TARGET_CLASSES else
                "binary classification" if loss.startswith("bce") else "regression")
        self.model.set_metadata("task", task)
        self.model.set_metadata("scores", {"cross-entropy": "logits", "nll": "log-probabilities"}.get(loss))
        for key in ("classes", "size", "mean", "std", "preprocess", "data.json"):
            self.model.set_metadata(key, None)

    # ---- folder and checkpoints ----

    def _open_folder(self) -> None:
        out = self.settings.out
        self.folder, self.held = run_folder(out)
        self.checkpoints = self.folder / "checkpoints" if out is not None else None
        if (self.settings.checkpoint_every or self.settings.resume) and out is None:
            raise InvalidArgument("resume and checkpoint_every need out, the folder of the checkpoints")
        kept = self._kept()
        if kept and not self.settings.resume:
            raise InvalidArgument(f"{self.folder}: has the checkpoints of a run: give resume=True, or another folder")
        if kept and self.checkpoints:
            self._resume(self.checkpoints)

    def _kept(self) -> list[int]:
        """Steps of the folder's checkpoints."""
        if self.checkpoints is None or not self.checkpoints.is_dir():
            return []
        return sorted(int(p.name[5:]) for p in self.checkpoints.glob("step-*") if p.name[5:].isdigit())

    def _history(self) -> History:
        """What the folder's run measured."""
        path = self.folder / "metrics.jsonl"
        try:
            return History.read(path)
        except OSError as e:
            raise FileError(f"{path}: {e.strerror}") from None
        except ValueError:
            raise InvalidArgument(f"{path}: expected an object of JSON in each line") from None

    def _resume(self, checkpoints: pathlib.Path) -> None:
        try:
            note = json.loads(self.trainer.load(checkpoints))
            self.epoch, self.batch, self.step = note["epoch"], note["batch"], note["step"]
            self.sums = note["sums"]
            self.evaluated = note["evaluated"]
            self.monitor.restore(note["best"])
            self.rows = self._history().rows[: note["rows"]]
        except (ValueError, KeyError, TypeError) as e:
            if isinstance(e, InvalidArgument):
                raise
            raise InvalidArgument(f"{self.folder}: its checkpoint is not of dpexec.train") from None
        self.early = self._has_no_patience()
        log.info("continues from step %d", self.step)

    def save(self) -> None:
        """Writes a checkpoint and the history, and removes old checkpoints."""
        if self.checkpoints is None:
            return
        note = dict(epoch=self.epoch, batch=self.batch, step=self.step, sums=self.sums,
                    rows=len(self.rows), evaluated=self.evaluated, best=self.monitor.kept())
        History(self.rows).write(self.folder / "metrics.jsonl")
        if self.step not in self._kept():
            self.trainer.save(self.checkpoints, json.dumps(note))
        for step in self._kept()[: -self.settings.keep]:
            if step != self.monitor.step:
                check(lib.dpx_checkpoint_remove(os.fsencode(self.checkpoints), step))

    # ---- the loop ----

    def run(self) -> Run:
        with _deferred_interrupt() as interrupted:
            while self.step < self.steps and self.epoch < self.epochs and not self.early:
                self._run_epoch(interrupted)
                self._stop_if(interrupted())
        self._evaluate(observe=False)
        self.save()
        last = self.folder / "model.onnx"
        self.trainer.export(last)
        History(self.rows).write(self.folder / "metrics.jsonl")
        return Run(self.trainer, History(self.rows), self.folder, self.held, self.monitor, self.early)

    def _run_epoch(self, interrupted: Callable[[], bool]) -> None:
        batches = self._changed(self.data.batches(self.epoch, self.batch))
        batch = next(batches, None)
        if batch is None and not self.batch:
            raise InvalidArgument("data: an epoch has no batch")
        while batch is not None:
            following = next(batches, None)
            self.between = self._train(batch, following is None and not (self.across and self.epoch + 1 < self.epochs))
            batch = following
            self._stop_if(batch is not None and interrupted())
            if self.early or self.step >= self.steps:
                break
        if batch is None:
            self._end_epoch(self.between)

    def _changed(self, batches: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The batches as the function of `augment` gives them; its numbers are the same after resuming."""
        if not self.settings.change:
            yield from batches
            return
        feed = self.trainer._feed
        for k, batch in enumerate(batches, self.batch):
            draw = np.random.default_rng([int(self.options["seed"]), self.epoch, k])
            own = {name: x.copy() for name, x in batch.items()}
            yield feed.converted(feed.named(self.settings.change(own, draw)))

    def _stop_if(self, interrupted: bool) -> None:
        """Ends an interrupted run with a checkpoint, if it is between two steps."""
        if interrupted and self.between:
            self.save()
            raise KeyboardInterrupt(f"stopped at step {self.step}" + (
                "; resume=True goes on from here" if self.checkpoints else ""))

    def _train(self, batch: dict[str, Any], last: bool) -> bool:
        if last:
            check(lib.dpx_trainer_close_group(self.trainer._live))
        r = self.trainer._train(batch)
        self.batch += 1
        if not r.updated:
            return False
        self.step = r.step
        self.rows.append(dict(step=r.step, epoch=self.epoch + 1, loss=r.loss, lr=r.lr, samples=r.samples))
        own = {n: v for n, v in r.log.items() if n != "loss"}
        if own:
            self.rows[-1]["log"] = own
        self._show(f"loss {r.loss:.4g}")
        if self.settings.on_step:
            self.settings.on_step(r)
        if not math.isfinite(r.loss):
            raise InvalidArgument(f"the loss of step {r.step} is {r.loss}: look for NaN or infinite values in the data "
                                  "or a batch whose labels are all ignored, lower lr, or give clip_norm")
        self.sums = [x + y for x, y in zip(self.sums, (r.loss_sum, r.loss_weight) * 2)]
        if self.settings.eval_every and self.step % self.settings.eval_every == 0:
            self._evaluate(observe=True)
        if self.settings.checkpoint_every and self.step % self.settings.checkpoint_every == 0:
            self.save()
        return True

    def _end_epoch(self, updated: bool) -> None:
        total, weight, since, its_weight = self.sums
        self.sums = [0.0, 0.0, since, its_weight]
        self.epoch, self.batch = self.epoch + 1, 0
        within = self.across and self.epoch < self.epochs
        row: Row = {}
        if updated:
            self.sums[2:] = [0.0, 0.0]
            row = {"train_loss": since / its_weight if its_weight else since,
                   **{f"train_{k}": v for k, v in self.trainer.train_metrics().items()}}
            self.rows[-1].update(_plain(row))
        self.trainer.end_epoch()
        if self.val is None and self.observes and (total or weight):
            check(lib.dpx_trainer_observe(self.trainer._live, total / weight if weight else total, math.nan))
        if not self.settings.eval_every:
            row |= self._evaluate(observe=True, save=not within)
        text = ", ".join(f"{k.replace('_', ' ', 1)} {v:.5g}" for k, v in row.items()
                         if isinstance(v, (int, float)) and k != "step")
        log.info("epoch %d%s: %s", self.epoch, f"/{self.epochs}" if self.epochs < 2**62 else "", text)
        self._show(text, last=True)

    def _has_no_patience(self) -> bool:
        return self.settings.patience is not None and self.monitor.since >= self.settings.patience

    def _show(self, text: str, last: bool = False) -> None:
        of = f"/{self.steps}" if self.steps < 2**62 else ""
        epoch = min(self.epoch + 1, self.epochs)
        epochs = f", epoch {epoch}/{self.epochs}" if self.epochs < 2**62 else ""
        self.settings.progress.show(self.step / self.steps if of else -1, f"step {self.step}{of}{epochs}: {text}", last)

    def _evaluate(self, observe: bool, save: bool = True) -> Row:
        if self.val is None or self.evaluated == self.step:
            return {}
        with self.trainer._lock:
            found = self.trainer._evaluate(self.val.batches())
        self.evaluated = self.step
        row = _plain({f"eval_{k}": v for k, v in found.items() if k != "samples"})
        self.rows.append({"step": self.step, **row})
        if observe:
            check(lib.dpx_trainer_observe(self.trainer._live, found["loss"],
                                          found.get(self.monitor.metric, math.nan)))
        if self.monitor.take(found, self.step, self.epoch):
            self.trainer.export(self.folder / "best.onnx")
        self.early = self._has_no_patience()
        return row


def _plain(row: Row) -> Row:
    """Numbers and tables as JSON has them."""
    return {k: v.tolist() if hasattr(v, "tolist") else v for k, v in row.items()}


@contextlib.contextmanager
def _deferred_interrupt() -> Iterator[Callable[[], bool]]:
    """Tells whether Ctrl-C was pressed; the second one interrupts at once.  In other threads Ctrl-C is left alone."""
    caught: list[int] = []
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: Any) -> None:
        if caught:
            raise KeyboardInterrupt
        caught.append(number)

    mine = threading.current_thread() is threading.main_thread() and before is signal.default_int_handler
    if mine:
        signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(caught)
    finally:
        if mine:
            signal.signal(signal.SIGINT, before)
