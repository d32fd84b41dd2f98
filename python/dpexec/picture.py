"""dpexec.transform: the training graph as a picture or a text."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from . import _abi
from ._abi import lib
from .errors import InvalidArgument, check
from .model import Model

_FORMATS = ("svg", "html", "dot", "json", "txt", "onnx")


class Graph:
    """A transformed graph.  In a notebook it shows itself as a picture."""

    def __init__(self, model: Model, options: Any, until: str | None) -> None:
        self._model, self._options, self._until = model, options, until

    def render(self, format: str) -> bytes:
        """The graph as "svg", "html", "dot", "json", "txt" or "onnx"."""
        if format not in _FORMATS:
            raise InvalidArgument(f"format: expected {', '.join(_FORMATS)}, found '{format}'")
        pieces: list[bytes] = []

        @_abi.WriteFn
        def write(_user: Any, text: Any, size: int) -> None:
            pieces.append(ctypes.string_at(text, size))

        until = None if self._until is None else self._until.encode()
        check(lib.dpx_transform(self._model._handle, self._options._handle, until, format.encode(), write, None))
        return b"".join(pieces)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the graph; the name's ending is the format."""
        suffix = os.fspath(path).rpartition(".")[2]
        found = self.render(suffix)
        with open(path, "wb") as f:
            f.write(found)

    @property
    def svg(self) -> str:
        return self.render("svg").decode()

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<dpexec graph of {self._model.path or 'a model in memory'}: str() gives its text, save() a picture>"

    def __str__(self) -> str:
        return self.render("txt").decode()


def transform(model: str | os.PathLike[str] | Model, until: str | None = None, **options: Any) -> Graph:
    """The graph of a training step, as it is after a pass; in a notebook a picture.

        dpexec.transform("model.onnx", loss="cross-entropy", devices="cpu*2", batch_size=8)

    until: the last pass that is applied, such as "autodiff" (graph-transform --help lists them); None: all.
    options: the engine's.  Raises the exceptions of Model; the graph is made when it is shown.
    """
    if not isinstance(model, Model):
        return Graph(model := Model(model, **options), model.options, until)
    own = model.options.copy()
    for name, value in options.items():
        own.set(name, value)
    return Graph(model, own, until)
