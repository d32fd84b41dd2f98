#!/bin/bash
# Makes the virtual environment BUILD_DIR/python with the runtimes that exported models are compared with; from PyPI, pinned.
# Nothing is done where it is there and of these versions.  Needs python3-venv.
#   tests/interop/install.sh [BUILD_DIR]
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build}
wanted=$root/tests/interop/requirements.txt
made=$build/python/requirements.txt
cmp -s "$wanted" "$made" && exit
rm -rf "$build/python"
mkdir -p "$build"
python3 -m venv "$build/python"
"$build/python/bin/pip" install --quiet --no-input --disable-pip-version-check --requirement "$wanted"
cp "$wanted" "$made"
