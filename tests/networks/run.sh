#!/bin/bash
# Trains exported networks with dpexec and compares with PyTorch (docs/networks.md).  Makes a virtual environment with PyTorch from
# PyPI when it is first run, unless $NETWORKS_PYTHON names a python that has the packages of requirements.txt.
#   tests/networks/run.sh [OPTIONS]       options of run.py; --help lists them
# Everything is written to $NETWORKS_WORK [/tmp/networks]: 6 GB of packages, files, data, and the results.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=${NETWORKS_WORK:-/tmp/networks}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
python=${NETWORKS_PYTHON:-$work/venv/bin/python}
if [ -z "${NETWORKS_PYTHON:-}" ] && [ ! -e "$work/venv/complete" ]; then
    mkdir -p "$work"
    python3 -m venv "$work/venv"
    "$work/venv/bin/pip" install --quiet --requirement "$here/requirements.txt"
    touch "$work/venv/complete"
fi
exec "$python" "$here/run.py" --work "$work" "$@"
