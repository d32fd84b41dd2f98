#!/bin/bash
# Trains exported networks with dpexec and compares with PyTorch (docs/reference/networks.md).  Makes a virtual environment with PyTorch from
# PyPI when it is first run, unless $NETWORKS_PYTHON names a python that has the packages of requirements.txt.
#   tests/networks/run.sh [OPTIONS]                   options of run.py; --help lists them
#   tests/networks/run.sh --light [--full] [NAME...]  the graphs that come with ONNX (light.py)
#   tests/networks/run.sh --third-party [PATTERN...]  models of others' packages, in ONNX Runtime (third_party.py)
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
case ${1:-} in
--light | --third-party)
    script=${1#--}
    shift
    exec "$python" "$here/${script//-/_}.py" "${NETWORKS_BUILD:-$here/../../build}" "$work" "$@" ;;
esac
exec "$python" "$here/run.py" --work "$work" "$@"
