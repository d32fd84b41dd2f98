#!/bin/bash
# What a file says of its network is obeyed: the cases of tests/obeyed, small exports whose losses PyTorch computed.
#   tests/cli/obeyed.sh [BUILD_DIR [CASE...]]
cd "$(dirname "$0")/../.." || exit 1
build=${1:-build}
shift
exec "${PYTHON:-/usr/bin/python3}" tests/obeyed/check.py "$build" "$@"
