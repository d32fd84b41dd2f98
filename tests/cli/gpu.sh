#!/bin/bash
# The script that proves dpexec on a GPU, on a simulated one: training by the command line on a CUDA device, captured and not, and
# in several processes.
. "$(dirname "$0")/lib.sh"
check "tests/gpu.sh" env PYTHON="${PYTHON:-/usr/bin/python3}" tests/gpu.sh --trial --no-bench --build "$build"
finish
