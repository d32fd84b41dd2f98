#!/bin/bash
# Trains the small networks of tests/networks/data and of tests/networks/patterns.py in float32, and prints where the time of a step
# goes by kernel: a reference kernel that takes more than 0.5 % of it is a fault.  All networks of docs/reference/networks.md:
# tests/networks/run.sh --kernels.  Needs python3-numpy and python3-onnx.
#   tests/cli/kernel_times.sh [BUILD_DIR]
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-/usr/bin/python3}      # the one that Debian's packages are for
folder=tests/networks

# measure NAME ARGUMENTS...: of dpexec train.
measure() {
    local name=$1
    shift
    if ! timeout 60 "$dpexec" train "$@" --quiet --trace "$DIR/trace.json" >"$DIR/log" 2>&1; then
        fail "$name: dpexec: $(tail -1 "$DIR/log")"
    elif "$python" $folder/kernels.py --top 6 "$DIR/trace.json" >"$DIR/log" 2>&1; then
        pass
    else
        fail "$name: $(tail -1 "$DIR/log")"
    fi
    echo "$name"
    sed 's/^/    /' "$DIR/log"
}

for name in $($python $folder/check.py --list); do
    mapfile -t args < <($python $folder/check.py --args "$name" | sed 's/^float64$/float32/')
    measure "$name" "${args[@]}"
done
while read -r name loss; do
    measure "$name" "$DIR/$name.onnx" --data "$DIR/$name.npz" --loss "$loss" --batch-size 32 --steps 20 --no-shuffle --threads 1
done < <($python $folder/patterns.py "$DIR")
finish
