"""A line of progress in notebooks, which is replaced as training goes on."""

from __future__ import annotations

import html
import sys
import time
from typing import Any

_EVERY = 0.2        # seconds between two pictures


def in_notebook() -> bool:
    """Whether this is a notebook's kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and hasattr(shell, "kernel")


class Progress:
    """Shows a bar and a text.  wanted: None: in notebooks; True: where IPython is; False: never."""

    def __init__(self, wanted: bool | None) -> None:
        self._handle: Any = None
        self._shown = 0.0
        if wanted or (wanted is None and in_notebook()):
            from IPython.display import HTML, display
            self._html = HTML
            self._handle = display(HTML(""), display_id=True)

    def show(self, done: float, text: str, last: bool = False) -> None:
        """done: the share of the run that is over, 0 to 1; negative where it is not known."""
        now = time.monotonic()
        if self._handle is None or (now - self._shown < _EVERY and not last):
            return
        self._shown = now
        bar = f'<progress value="{done:.4f}" max="1" style="width:16em"></progress> ' if done >= 0 else ""
        self._handle.update(self._html(f'<div class="dpexec-progress">{bar}{html.escape(text)}</div>'))
