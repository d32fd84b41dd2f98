"""Models: the inputs, outputs and states of an ONNX file."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import _abi, _streams
from ._abi import lib
from .errors import InvalidArgument, check
from .loaded_model import LoadedModel, TensorInfo
from .options import Options
from .predictor import Predictor


def bytes_of(source: Any) -> Any:
    """The bytes of a model in memory: bytes, or an onnx.ModelProto; None for a path."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return source
    return source.SerializeToString() if hasattr(source, "SerializeToString") else None


class Model(LoadedModel):
    """A network from an ONNX file, or from memory.

        dpexec.Model("net.onnx")
        dpexec.Model(proto)                                         # an onnx.ModelProto, or its bytes
        dpexec.Model(proto, external={"net.data": weights})         # whose large tensors are elsewhere

    external: the bytes of external data by location, or a function of location, offset and size that gives them.
    `options` are the engine's, by keyword, as far as they change the model: head, preprocess, criterion, operators ...
    Trainers of the model have them, too.  Raises ModelError, Unsupported or FileError.
    """

    def __init__(self, source: Any, *, external: Mapping[str, Any] | Callable[[str, int, int], Any] | None = None,
                 **options: Any) -> None:
        self.given = options        # as they came, for the program
        self.options = Options(options)
        held = bytes_of(source)
        if held is None and external is not None:
            raise InvalidArgument("external: a model's file reads its external data itself; give its bytes")
        self.path = os.fspath(source) if held is None else None
        out = ctypes.c_void_p()
        if held is None:
            check(lib.dpx_model_load_within(ctypes.byref(out), os.fsencode(source), self.options._handle))
        else:
            self._load(out, held, external)
        self._open(out)

    def _load(self, out: ctypes.c_void_p, held: Any, external: Any) -> None:
        """Loads a model from memory, which is not copied before."""
        import numpy as np
        data = np.frombuffer(held, np.uint8)
        read = _streams.external(external) if external is not None else None
        status = lib.dpx_model_load_memory(ctypes.byref(out), data.ctypes.data, data.nbytes, b"the model in memory",
                                           self.options._handle, read.function if read else _abi.ExternalFn(), None)
        read.check(status) if read else check(status)

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

    def predictor(self, **options: Any) -> Predictor:
        """The model with its own weights, for predictions by many threads.  options: as for Predictor."""
        return Predictor(self, **options)

    def gradient(self, of: str, with_respect_to: str | Sequence[str]) -> Model:
        """A model with the gradients of output `of` by inputs and parameters as further outputs "NAME.grad".

            p = model.gradient("logits", ["x"]).predictor()
            p.predict(x=x, seed=weights)["x.grad"]

        An output of several numbers is multiplied by a new input "seed" of its shape.  A predictor may take a trainer's
        weights.
        """
        names = [with_respect_to] if isinstance(with_respect_to, str) else with_respect_to
        out, new = ctypes.c_void_p(), Model.__new__(Model)
        new.path, new.given, new.options = None, {}, Options()
        check(lib.dpx_model_gradient(ctypes.byref(out), self._handle, self.options._handle, of.encode(),
                                     ",".join(names).encode()))
        new._open(out)
        return new

    def __repr__(self) -> str:
        def text(infos: list[TensorInfo]) -> str:
            return ", ".join(f"{i.name} {list(i.shape) if i.shape is not None else '?'}" for i in infos)

        return f"<dpexec.Model {self.path or 'in memory'}: {text(self.inputs)} -> {text(self.outputs)}>"
