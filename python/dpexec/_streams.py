"""Functions that the engine calls to write and read bytes, made of Python's files.

An exception inside such a function ends the engine's call, and is raised again behind it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

from . import _abi
from .errors import FileError, InvalidArgument, check


class Guarded:
    """A function of Python that the engine may call.  `function` is it for ctypes, of the type `kind`."""

    def __init__(self, kind: Any, body: Callable[..., None]) -> None:
        self._raised: BaseException | None = None

        def call(_user: Any, *arguments: Any) -> int:
            try:
                body(*arguments)
                return 0
            except BaseException as e:      # KeyboardInterrupt as well: nothing may pass through the engine
                self._raised = e
                return FileError.status

        self.function = kind(call)

    def check(self, status: int) -> None:
        """Raises what the function raised, else the exception of the engine's status."""
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised
        check(status)


def sink(file: Any) -> Guarded:
    """Writes to a binary file."""
    def write(start: Any, size: int) -> None:
        left = memoryview(ctypes.string_at(start, size))
        while left:
            written = file.write(left)
            if written is None:     # a file of one's own that does not count
                return
            if written <= 0:
                raise BlockingIOError("the file takes no more bytes")
            left = left[written:]

    return Guarded(_abi.SinkFn, write)


def source(file: Any) -> Guarded:
    """Reads from a binary file."""
    def read(to: int, room: int, n: Any) -> None:
        found = file.read(room)
        if found is None:
            raise BlockingIOError("the file has no bytes yet")
        found = bytes(found)        # a text is a TypeError
        if len(found) > room:
            raise ValueError(f"read({room}) gave {len(found)} bytes")
        ctypes.memmove(to, found, len(found))
        n[0] = len(found)

    return Guarded(_abi.SourceFn, read)


def external(data: Mapping[str, Any] | Callable[[str, int, int], Any]) -> Guarded:
    """Reads external data of a model: of a mapping from locations to bytes, or by a function of location, offset and
    size."""
    def read(location: bytes, offset: int, size: int, to: int) -> None:
        name = location.decode(errors="replace")
        if callable(data):
            found = bytes(data(name, offset, size))
        elif name in data:
            found = bytes(memoryview(data[name]).cast("B")[offset : offset + size])
        else:
            raise InvalidArgument(f"external data '{name}' are not given (has: {', '.join(data) or 'none'})")
        if len(found) != size:
            raise InvalidArgument(f"external data '{name}': expected {size} bytes from byte {offset} on, found "
                                  f"{len(found)}")
        ctypes.memmove(to, found, size)

    return Guarded(_abi.ExternalFn, read)
