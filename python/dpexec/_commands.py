"""The programs in the package, as commands on the PATH of the environment that pip installs it into."""

from __future__ import annotations

import os
import pathlib
import sys


def _become(name: str) -> None:
    program = pathlib.Path(__file__).resolve().parent / "bin" / name
    try:
        os.execv(program, [name, *sys.argv[1:]])
    except OSError as e:
        sys.exit(f"{name}: {program}: {e.strerror}")


def dpexec() -> None:
    _become("dpexec")


def graph_transform() -> None:
    _become("graph-transform")
