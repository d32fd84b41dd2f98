"""A model that the engine has loaded: its handle, its options, its inputs and outputs."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

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


class LoadedModel:
    """What batches and predictors need to know of a model.  `options` are those it was loaded with."""

    _handle: int | None = None
    options: Options
    inputs: list[TensorInfo]
    outputs: list[TensorInfo]

    def _open(self, handle: ctypes.c_void_p) -> None:
        """Takes the engine's model, which is freed with this object."""
        self._handle = handle.value
        self.inputs = self._infos(_abi.INPUT)
        self.outputs = self._infos(_abi.OUTPUT)

    def _infos(self, kind: int) -> list[TensorInfo]:
        out = []
        for k in range(lib.dpx_model_count(self._handle, kind)):
            i = _abi.Info()
            check(lib.dpx_model_info(self._handle, kind, k, ctypes.byref(i)))
            out.append(info_of(i))
        return out

    def __del__(self) -> None:
        if self._handle:
            lib.dpx_model_free(self._handle)
            self._handle = None
