"""Runs of the program dpexec, for sources of data that only it reads, and for new networks."""

from __future__ import annotations

import os
import pathlib
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import _library, files
from .errors import Error, FileError, InvalidArgument
from .history import History
from .options import OPTIONS, Option, Options, texts_of
from .progress import Progress
from .run import Run, inference_options, run_folder
from .trainer import log

_USAGE = 2      # the exit status of a wrong command line


def flags_of(given: Mapping[str, Any]) -> list[str]:
    """Flags of the command line for keywords: lr=0.1 is --lr 0.1, no_shuffle=True is --no-shuffle."""
    out = []
    for name, value in given.items():
        option = OPTIONS.get(name)
        switch = option.metavar is None if option else isinstance(value, bool)
        flag = "--" + name.replace("_", "-")
        if value is None or (switch and value is False):
            continue
        if switch and value is True:
            out.append(flag)
            continue
        for text in texts_of(option or Option(name, name, "", "", "", True, True), value):
            out += [flag, text]
    return out


def call(arguments: Sequence[str], on_line: Callable[[str], None] | None = None) -> None:
    """Runs the program.  Its lines go to the log; a failure raises an exception with its message."""
    last = why = ""
    program = subprocess.Popen([_library.program_path(), *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               stdin=subprocess.DEVNULL, text=True, errors="replace")
    interrupted = False
    assert program.stdout
    with program:
        while True:
            try:
                line = program.stdout.readline()
            except KeyboardInterrupt:       # the terminal gives it to the program, too, which saves a checkpoint
                if interrupted:
                    program.kill()
                    raise
                interrupted = True
                continue
            if not line:
                break
            if line.strip():
                last = line.strip()
                warns = "warning: " in last
                why = last.removeprefix("dpexec: ") if last.startswith("dpexec: ") and not warns else why
                log.log(30 if warns else 20, "%s", last)
                if on_line:
                    on_line(last)
    if interrupted:
        raise KeyboardInterrupt(last)
    if program.returncode:
        kind = InvalidArgument if program.returncode == _USAGE else Error
        raise kind(why or f"dpexec ended with status {program.returncode}")


class _Best:
    """The best model of a run folder, by its history."""

    def __init__(self, history: History, monitor: str | None) -> None:
        names = [n.removeprefix("eval_") for n in history if n.startswith("eval_") and n != "eval_step"]
        asked = (monitor or "").removesuffix(":max").removesuffix(":min")
        self.name = asked or next((n for n in names if n != "loss"), "loss")
        self.step, self.value = -1, float("nan")

    def find(self, history: History, step: int) -> None:
        self.step = step
        key = f"eval_{self.name}"
        if key in history and step in history["eval_step"]:
            self.value = float(history[key][list(history["eval_step"]).index(step)])


def train_program(model: Any, data: Any, val: Any, out: Any, resume: bool, flags: dict[str, Any],
                  progress: Progress) -> Run:
    """dpexec.train for a source as text or arrays in a file: `dpexec train`, and its run folder as a Run."""
    with tempfile.TemporaryDirectory(prefix="dpexec-") as temporary:
        held_files = pathlib.Path(temporary)
        path, given = files.write_model(model, held_files)
        flags = {**given, **flags}
        why = dict(flags, why=files.reason(data, flags) or "data")
        if isinstance(data, (str, os.PathLike)):
            if val is not None and not isinstance(val, (str, os.PathLike)):
                raise InvalidArgument("val: expected the text of a source, as data is one")
        else:
            data = files.write_arrays(model, data, held_files / "data.npz", why, "data")
        if val is not None and not isinstance(val, (str, os.PathLike)):
            val = files.write_arrays(model, val, held_files / "val.npz", why, "val")
        flags["class_weights"] = files.write_class_weights(flags.get("class_weights"), held_files)
        folder, held = run_folder(out)
        texts = {"data": os.fspath(data), "val": None if val is None else os.fspath(val), "out": folder,
                 "resume": "auto" if resume else None, **flags}
        call(["train", path, *flags_of(texts)],
             lambda line: progress.show(-1, line, last=line.startswith(("epoch ", "trained "))))
    history = History.read(folder / "metrics.jsonl")
    best = _Best(history, flags.get("monitor"))
    mark = folder / "checkpoints" / "best"
    if mark.exists():
        best.find(history, _step_of(mark))
    known = {k: v for k, v in flags.items() if k in OPTIONS and v is not None and v != "auto"}
    early = flags.get("patience") is not None and "stopped early" in (folder / "log.txt").read_text(errors="replace")
    return Run(None, history, folder, held, best, early, inference_options(Options({"batch_size": 32, **known})))


def _step_of(mark: Any) -> int:
    """The step that a folder's mark of the best checkpoint names; -1: none."""
    try:
        digits = "".join(c for c in mark.read_text() if c.isdigit())
    except OSError as e:
        raise FileError(f"{mark}: {e.strerror}") from None
    return int(digits) if digits else -1


def new_network(network: str, path: str | os.PathLike[str], **sizes: Any) -> str:
    """Writes a network with initial values, as `dpexec new` does, and gives its path.

        dpexec.new("mlp", "mlp.onnx", inputs=5, classes=3, layers=1, width=64)

    network: mlp, cnn, resnet18, vit, lstm, gpt ...  sizes: the flags of `dpexec new --help`.
    """
    call(["new", network, "-o", os.fspath(path), "--quiet", *flags_of(sizes)])
    return os.fspath(path)
