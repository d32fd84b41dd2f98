#!/bin/bash
# Worlds of one to four processes, with shards: rows that cover every pair of processes, replicas, micro-batches, clipping, parts,
# optimizers, levels and nets (tests/worlds/rows.sh says what is compared; tests/worlds/table.sh runs them all).
. "$(dirname "$0")/lib.sh"
. tests/worlds/rows.sh

rows=0
while read -r net processes devices replicas accumulate clip split optimizer level; do
    check "$net $processes x $devices, $replicas replicas, $accumulate micro-batches, clip $clip, $split, $optimizer, $level" \
        row "$net" "$processes" "$devices" "$replicas" "$accumulate" "$clip" "$split" "$optimizer" "$level"
done < <("$python" tests/worlds/cover.py)
finish
