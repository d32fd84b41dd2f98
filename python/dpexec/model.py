"""Models: the inputs, outputs and states of an ONNX file."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from typing import Any

from . import _abi
from ._abi import lib
from .errors import check
from .options import Options


@dataclass(frozen=True)
class TensorInfo:
    """An input, output or state of a model.

    `shape` is None where the rank is unknown; open dimensions are names, or -1 without a name.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...] | None
    trainable: bool
    number: int = 0     # the engine's number of the type


def info_of(i: _abi.Info) -> TensorInfo:
    shape = None if i.rank < 0 else tuple(
        i.dim_name[k].decode() if i.dim[k] < 0 and i.dim_name[k] else i.dim[k] for k in range(i.rank))
    return TensorInfo(i.name.decode(), lib.dpx_dtype_name(i.dtype).decode(), shape, bool(i.trainable), i.dtype)


class Model:
    """A network from an ONNX file.

    `options` are the engine's, by keyword, as far as they change the model: head, preprocess, criterion, operators ...
    Trainers of the model have them, too.  Raises ModelError, Unsupported or FileError.
    """

    def __init__(self, path: str | os.PathLike[str], **options: Any) -> None:
        self._handle = None
        self.path = os.fspath(path)
        self.options = Options(options)
        out = ctypes.c_void_p()
        check(lib.dpx_model_load_within(ctypes.byref(out), os.fsencode(self.path), self.options._handle))
        self._handle = out.value
        self.inputs = self._infos(_abi.INPUT)
        self.outputs = self._infos(_abi.OUTPUT)

    def _infos(self, kind: int) -> list[TensorInfo]:
        out = []
        for k in range(lib.dpx_model_count(self._handle, kind)):
            i = _abi.Info()
            check(lib.dpx_model_info(self._handle, kind, k, ctypes.byref(i)))
            out.append(info_of(i))
        return out

    @property
    def states(self) -> list[TensorInfo]:
        """Parameters and running statistics as the file holds them."""
        return self._infos(_abi.STATE)

    def metadata(self, key: str) -> str | None:
        """The file's metadata of a key."""
        value = lib.dpx_model_metadata(self._handle, key.encode())
        return None if value is None else value.decode()

    def set_metadata(self, key: str, value: str | None) -> None:
        """Sets the metadata that exports have; None removes the key."""
        check(lib.dpx_model_set_metadata(self._handle, key.encode(), None if value is None else value.encode()))

    def __repr__(self) -> str:
        def text(infos: list[TensorInfo]) -> str:
            return ", ".join(f"{i.name} {list(i.shape) if i.shape is not None else '?'}" for i in infos)

        return f"<dpexec.Model {self.path}: {text(self.inputs)} -> {text(self.outputs)}>"

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            lib.dpx_model_free(self._handle)
            self._handle = None
