#!/bin/bash
# The whole table of worlds (tests/worlds/cover.py --all), or every N-th row of it, each row's outcome beside it.
# Usage: tests/worlds/table.sh BUILD_DIR OUT [N [FIRST]]    takes hours; OUT holds a line a row, and at the end how many passed
cd "$(dirname "$0")/../.." || exit 1
set -- "$(realpath "${1:-build}")" "$(realpath "${2:-/dev/stdout}")" "${3:-1}" "${4:-1}"
out=$2 every=$3 first=$4
set -- "$1"
. tests/cli/lib.sh
. tests/worlds/rows.sh
{
    echo "# $("$python" tests/worlds/cover.py --all | wc -l) rows, every $every-th from $first on; $(uname -m), $(nproc) processors"
    echo "# net processes devices replicas accumulate clip split optimizer level: outcome"
} >"$out"
while read -r line; do
    read -r -a columns <<<"$line"
    if why=$(row "${columns[@]}" 2>&1); then
        pass
        echo "$line: ok" >>"$out"
    else
        n_failed=$((n_failed + 1))
        echo "$line: $why" >>"$out"
    fi
done < <("$python" tests/worlds/cover.py --all | awk -v n="$every" -v first="$first" 'NR >= first && (NR - first) % n == 0')
echo "# $n_passed passed, $n_failed failed" >>"$out"
[ "$n_failed" = 0 ]
