"""The result of training: history, best and last model."""

from __future__ import annotations

import math
import os
import pathlib
import shutil
import tempfile
from typing import Any

from .errors import FileError, InvalidArgument
from .history import History
from .model import Model
from .options import OPTIONS, Options
from .predictor import Predictor
from .report import page_of
from .trainer import Trainer

# Options of the run that its models are computed with, too.
_INFERENCE = ("devices", "threads", "isa", "operators", "dtype", "precision", "plan_memory", "max_nodes", "batch_size")


class Monitor:
    """The figure that decides which model is the best, and the best so far."""

    def __init__(self, options: Options, given: str | None, evaluates: bool) -> None:
        self.name, self.rises, self.metric = "", False, ""
        self.step, self.value, self.since, self.epoch = -1, math.nan, 0, 0
        numbers = [(name, falls) for name, falls, number in options.metrics() if number]
        if given and not evaluates:
            raise InvalidArgument("monitor: without val there are no evaluations to choose a model by")
        if not evaluates:
            return
        name, direction = given or "", ""
        if name.endswith((":max", ":min")):
            name, _, direction = name.rpartition(":")
        chosen = [n for n in numbers if n[0] == name] or [n for n in numbers if n[0].split(":")[0] == name]
        if name == "loss" or (not name and not numbers):
            chosen = [("loss", True)]
        elif not name:
            chosen = numbers[:1]
        if not chosen:
            figures = " or ".join(["loss", *(n for n, _ in numbers)])
            raise InvalidArgument(f"monitor {given}: the run does not measure it; expected {figures}")
        self.name, self.rises = chosen[0][0], direction == "max" if direction else not chosen[0][1]
        self.metric = self.name if self.name != "loss" else numbers[0][0] if numbers else ""

    def take(self, found: dict[str, Any], step: int, epoch: int) -> bool:
        """Whether an evaluation is better than all before it."""
        value = found[self.name]
        better = math.isfinite(value) and (self.step < 0 or (value > self.value if self.rises else value < self.value))
        self.since = 0 if better else self.since + 1
        if better:
            self.step, self.value, self.epoch = step, value, epoch
        return better

    def kept(self) -> list[Any]:
        return [self.name, self.step, self.value if self.step >= 0 else None, self.since, self.epoch]

    def restore(self, kept: list[Any]) -> None:
        if kept[0] == self.name:
            self.step, self.since, self.epoch = kept[1], kept[3], kept[4]
            self.value = math.nan if kept[2] is None else kept[2]


def run_folder(out: str | os.PathLike[str] | None) -> tuple[pathlib.Path, Any]:
    """The folder of a run, and what keeps a temporary one until the run is garbage."""
    if out is None:
        held = tempfile.TemporaryDirectory(prefix="dpexec-", ignore_cleanup_errors=True)
        return pathlib.Path(held.name), held
    try:
        os.makedirs(out, exist_ok=True)
    except OSError as e:
        raise FileError(f"{os.fspath(out)}: {e.strerror}") from None
    return pathlib.Path(out), None


class _HeldPath(type(pathlib.Path())):     # type: ignore[misc]
    """A path that keeps its temporary folder."""

    held: Any = None


class Trained:
    """A trained model, as a file and for predictions.

    path: the ONNX file; where the run has no `out`, its temporary folder lasts as long as the run or this path.
    step: the optimizer step that made it.  monitor, value: the figure that chose it; "" and NaN for the last model.
    """

    def __init__(self, path: pathlib.Path, step: int, monitor: str, value: float, options: dict[str, Any],
                 held: Any = None) -> None:
        self.path = _HeldPath(path)
        self.path.held = held
        self.step, self.monitor, self.value, self._options = step, monitor, value, options
        self._trainer: Trainer | None = None

    def predict(self, data: Any = None, /, batch_size: int | None = None, **arrays: Any) -> Any:
        """As Trainer.predict, batch_size by default the run's."""
        if self._trainer is None:
            self._trainer = Trainer(self.path, **self._options)
        return self._trainer.predict(data, batch_size, **arrays)

    def predictor(self, **options: Any) -> Predictor:
        """The model for predictions by many threads.  options: as for Predictor."""
        return Model(self.path).predictor(**options)

    def export(self, path: str | os.PathLike[str]) -> None:
        """Copies the ONNX file."""
        shutil.copyfile(self.path, path)

    def __repr__(self) -> str:
        return f"<dpexec model of step {self.step}" + (f": {self.monitor} {self.value:.6g}>" if self.monitor else ">")


def inference_options(options: Options) -> dict[str, Any]:
    """The options of a run that its models are computed with."""
    given = {name: options[name] for name in _INFERENCE}
    out: dict[str, Any] = {n: v for n, v in given.items() if v and v != OPTIONS[n].default}
    if "operators" in out:
        out["operators"] = out["operators"].split(";")
    return out


class Run:
    """A finished run.

    best: the best model by the monitored figure of val; the last one without val.  last: the model as training left it.
    history: a mapping of arrays (History).  folder: where the files are.  stopped_early: patience came to its end.
    trainer: the trainer, to go on with; None where the program dpexec trained.
    """

    def __init__(self, trainer: Trainer | None, history: History, folder: pathlib.Path, held: Any, monitor: Any,
                 early: bool, options: dict[str, Any] | None = None) -> None:
        self.trainer, self.history, self.folder, self.stopped_early = trainer, history, folder, early
        self._held = held
        options = inference_options(trainer.options) if trainer else options or {}
        step = int(history["step"][-1]) if "step" in history else 0
        self.last = Trained(folder / "model.onnx", step, "", math.nan, options, held)
        self.best = self.last
        if (folder / "best.onnx").exists() and monitor is not None and monitor.step >= 0:
            self.best = Trained(folder / "best.onnx", monitor.step, monitor.name, monitor.value, options, held)

    def __repr__(self) -> str:
        return f"<dpexec run of {self.last.step} steps: best {self.best!r}, history {', '.join(self.history)}>"

    def report(self) -> str:
        """The run's report as a page of HTML: the program's own, where it trained, else curves and final figures."""
        page = self.folder / "report.html"
        if page.exists():
            return page.read_text(encoding="utf-8")
        facts = [("steps", str(self.last.step)), ("files", str(self.folder))]
        if self.best is not self.last:
            facts.insert(1, ("best", f"step {self.best.step}: {self.best.monitor} {self.best.value:.6g}"))
        return page_of(self.history, facts)

    def _repr_html_(self) -> str:
        import html
        if not (self.folder / "report.html").exists():
            return self.report()
        return f'<iframe srcdoc="{html.escape(self.report())}" style="width:100%;height:640px;border:0"></iframe>'
