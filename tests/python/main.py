#!/usr/bin/env python3
"""Runs the tests of the Python package and prints "N passed, N failed".

    main.py BUILD_DIR [PATTERN]         needs NumPy, onnx and ONNX Runtime; those of scikit-learn and torch need these

$DPEXEC_CC compiles the file that prints layouts of structs.
"""
import os
import pathlib
import sys
import unittest

here = pathlib.Path(__file__).resolve().parent
root = here.parent.parent


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    os.environ.setdefault("DPEXEC_LIBRARY", str(build / "libdpexec.so"))
    os.environ.setdefault("DPEXEC_PROGRAM", str(build / "dpexec"))
    sys.path[:0] = [str(root / "python"), str(here)]
    pattern = sys.argv[2] if len(sys.argv) > 2 else "test_*.py"
    found = unittest.TextTestRunner(verbosity=0).run(unittest.defaultTestLoader.discover(str(here), pattern))
    failed = len(found.failures) + len(found.errors)
    for test, why in [*found.failures, *found.errors]:
        print(f"FAILED: {test.id()}: {why.strip().splitlines()[-1]}")
    for test, why in found.skipped:
        print(f"SKIPPED: {test.id()}: {why}")
    print(f"{found.testsRun - failed - len(found.skipped)} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
