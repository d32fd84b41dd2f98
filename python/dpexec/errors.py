"""Exceptions, each with the engine's one-line message."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from ._abi import lib


class Error(Exception):
    """A call of the engine failed.  `status` is the engine's number of the kind of failure, as in include/dpexec.h."""

    status = -8

    def __init__(self, message: str = "") -> None:
        super().__init__(message)


class OutOfMemory(Error, MemoryError):
    """There is not enough memory."""

    status = -1


class InvalidArgument(Error, ValueError):
    """An argument, an option or a batch is wrong."""

    status = -2


class ModelError(Error, ValueError):
    """The model's file is malformed."""

    status = -3


class Unsupported(Error, NotImplementedError):
    """The model needs features that dpexec lacks; the message lists all of them."""

    status = -4


class ShapeError(Error, ValueError):
    """Shapes or types do not fit."""

    status = -5


class DeviceError(Error, RuntimeError):
    """A device or its driver failed, or is missing."""

    status = -6


class FileError(Error, OSError):
    """A file, a socket or a process failed."""

    status = -7


class InternalError(Error, RuntimeError):
    """A bug of dpexec."""

    status = -8


class Interrupted(Error):
    """The call was interrupted."""

    status = -9


_KINDS = {kind.status: kind for kind in (OutOfMemory, InvalidArgument, ModelError, Unsupported, ShapeError, DeviceError,
                                         FileError, InternalError, Interrupted)}


def check(status: int) -> None:
    """Raises the exception of a status, with the message of this thread's last failure."""
    if status:
        text = (lib.dpx_error() or b"").decode(errors="replace")
        error = _KINDS.get(status, InternalError)(text)
        error.status = status
        raise error


# What other libraries call a keyword, where the spelling would lead elsewhere; of flags, tools/args.c has more.
_ELSEWHERE = {"learning_rate": "lr", "eta": "lr", "scheduler": "lr_schedule", "validation_data": "val",
              "eval_set": "val", "validation_split": "val_split", "max_iter": "steps", "max_steps": "steps",
              "n_epochs": "epochs", "random_state": "seed", "device": "devices", "max_grad_norm": "clip_norm",
              "output_dir": "out", "early_stopping": "patience"}


def unknown(what: str, name: str, known: Iterable[str]) -> InvalidArgument:
    """The exception of a name that is not known, with the one that was probably meant."""
    small = {k.lower(): k for k in known}
    near = [k for k in [_ELSEWHERE.get(name.lower())] if k in small]
    near = near or difflib.get_close_matches(name.lower(), list(small), 1, 0.5)
    return InvalidArgument(f"there is no {what} '{name}'" + (f": did you mean '{small[near[0]]}'?" if near else ""))
