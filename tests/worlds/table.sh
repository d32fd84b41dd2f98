#!/bin/bash
# The whole table of worlds (tests/worlds/cover.py --all), or every N-th row of it (N prime: else some values never come), and a summary of the outcomes.
# Usage: tests/worlds/table.sh BUILD_DIR SUMMARY.json [N]    an hour on two cores; outcomes and details stay in BUILD_DIR/worlds
cd "$(dirname "$0")/../.." || exit 1
set -- "$(realpath "${1:-build}")" "$(realpath "${2:-/dev/stdout}")" "${3:-1}"
summary=$2 every=$3
set -- "$1"
. tests/cli/lib.sh
. tests/worlds/rows.sh

slices=$(env -u OMP_NUM_THREADS nproc)
mkdir -p "$build/worlds"
"$python" tests/worlds/cover.py --all | awk -v n="$every" '(NR - 1) % n == 0' >"$build/worlds/rows"
outcomes "$build/worlds/rows" >"$build/worlds/outcomes" 2>"$build/worlds/details"
"$python" tests/worlds/summary.py "$build"/worlds/{rows,outcomes} "$SECONDS" \
    "$(mpirun.openmpi --version | head -1)" "MPICH $(mpirun.mpich --version | sed -n 's/.*Version: *//p')" >"$summary"
