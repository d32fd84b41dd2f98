"""What all objects that hold a handle of the library share: they are closed once, by the process that made them."""

from __future__ import annotations

import os
from typing import Any, TypeVar

from .errors import InvalidArgument

Own = TypeVar("Own", bound="Handle")


class Handle:
    """Holds a handle until close(), which `with` and garbage collection call."""

    _name: str      # "trainer", for messages
    _handle: Any = None
    _process: int

    def close(self) -> None:
        raise NotImplementedError

    @property
    def _live(self) -> Any:
        """The handle.  InvalidArgument: it is closed, or another process, which forked this one, made it."""
        if not self._handle:
            raise InvalidArgument(f"the {self._name} is closed")
        if self._process != os.getpid():
            raise InvalidArgument(f"the {self._name} belongs to the process that made it, and this is a fork")
        return self._handle

    def __enter__(self: Own) -> Own:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if self._handle:
            self.close()
