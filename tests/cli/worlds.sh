#!/bin/bash
# Worlds of one to four processes over every transport, with shards: rows that cover every pair of processes, devices, replicas,
# micro-batches, clipping, parts, optimizers, levels, nets, types and transports (tests/worlds/rows.sh says what is compared;
# tests/worlds/table.sh runs them all).
. "$(dirname "$0")/lib.sh"
. tests/worlds/rows.sh

export LSAN_OPTIONS=suppressions=$root/tests/member/lsan.supp:print_suppressions=0
export TSAN_OPTIONS=${TSAN_OPTIONS:-}:suppressions=$root/tests/member/tsan.supp
export UCX_MEM_EVENTS=no        # of MPICH's UCX: it patches functions that a sanitizer has patched
mapfile -t here < <(transports)
[ ${#here[@]} = 4 ] || skip 'a library of MPI' "its plug-in is not built; there is ${here[*]}"
"$python" tests/worlds/cover.py "${here[@]}" >"$DIR/rows"
outcomes "$DIR/rows" >"$DIR/outcomes" 2>"$DIR/details"
while IFS= read -r line; do
    case $line in
    *': ok') pass ;;
    *) fail "$line" ;;
    esac
done <"$DIR/outcomes"
check 'every row has an outcome' test "$(grep -cvE '^(reference|verify) ' "$DIR/outcomes")" = "$(grep -c '' "$DIR/rows")"
[ "$n_failed" = 0 ] || head -20 "$DIR/details"
finish
