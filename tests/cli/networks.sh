#!/bin/bash
# Trains the exported networks of tests/networks/data in float64 and compares the losses of 20 steps, and what is trained, with what
# PyTorch computed.  The whole suite, with PyTorch, is tests/networks/run.sh.  Needs python3-numpy and python3-onnx.
#   tests/cli/networks.sh [BUILD_DIR [CASE...]]
. "$(dirname "$0")/lib.sh"
shift
check="${PYTHON:-/usr/bin/python3} tests/networks/check.py"     # the python that Debian's packages are for

run_case() {
    local name=$1 out=$DIR/$1
    local -a args
    mapfile -t args < <($check --args "$name")
    if ! timeout 120 "$dpexec" train "${args[@]}" --out "$out" >"$DIR/log" 2>&1; then
        fail "$name: dpexec: $(tail -1 "$DIR/log")"
    elif wrong=$($check "$name" "$out" "$DIR/log"); then
        pass
    else
        fail "$name: $wrong"
    fi
}

if [ $# = 0 ]; then
    mapfile -t cases < <($check --list)
else
    cases=("$@")
fi
for name in "${cases[@]}"; do
    run_case "$name"
done
finish
