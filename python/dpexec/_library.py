"""Finds libdpexec.so and the `dpexec` program, and loads the library."""

from __future__ import annotations

import ctypes
import os
import pathlib
import shutil

_FOLDER = pathlib.Path(__file__).resolve().parent
_LIBRARY = "libdpexec.so.0"

# GNU's OpenMP reads its setting when it is loaded, and by default its threads spin for milliseconds between two
# parallel regions (docs/reference/devices.md).  One of these variables, set by the user, wins.
_SPIN_VARIABLES = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "KMP_BLOCKTIME")
_SPIN = {"GOMP_SPINCOUNT": "1000", "KMP_BLOCKTIME": "0"}


def library_path() -> str:
    """The path of libdpexec.so: $DPEXEC_LIBRARY, else the one in the package, else the one that the system finds."""
    given = os.environ.get("DPEXEC_LIBRARY")
    if given:
        return given
    bundled = _FOLDER / "lib" / _LIBRARY
    return str(bundled) if bundled.exists() else _LIBRARY


def program_path() -> str:
    """The path of the `dpexec` program: $DPEXEC_PROGRAM, else the one in the package, else the one on PATH.

    Raises FileNotFoundError where there is none.
    """
    given = os.environ.get("DPEXEC_PROGRAM")
    if given:
        return given
    bundled = _FOLDER / "bin" / "dpexec"
    found = str(bundled) if bundled.exists() else shutil.which("dpexec")
    if not found:
        raise FileNotFoundError("the program dpexec is neither in the package nor on PATH; set DPEXEC_PROGRAM=FILE")
    return found


def load() -> ctypes.CDLL:
    """Loads the library.  The environment is as before afterwards, so child processes do not inherit the setting."""
    added = {} if any(name in os.environ for name in _SPIN_VARIABLES) else _SPIN
    os.environ.update(added)
    path = library_path()
    try:
        return ctypes.CDLL(path)
    except OSError as e:
        raise ImportError(f"cannot load dpexec's library: {e}; set DPEXEC_LIBRARY=FILE") from None
    finally:
        for name in added:
            del os.environ[name]
