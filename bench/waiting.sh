#!/bin/bash
# Training steps per second of models/mlp.onnx in 2 threads while as many other processes compute as the machine has
# cores, with libgomp's ways of waiting: waiting.sh [BUILD_DIR [STEPS]].  docs/guide/embed.md has the figures.
build=$(cd "${1:-build}" && pwd) || exit 2
cd "$(dirname "$0")/.." || exit 2
program=$(mktemp)
others=()
trap 'kill "${others[@]}"; rm -f "$program"' EXIT
cc -O1 -Iinclude bench/waiting.c -L"$build" -ldpexec -Wl,-rpath,"$build" -o "$program" || exit 2
for ((k = 0; k < $(nproc); k++)); do
    while :; do :; done &
    others+=($!)
done
for _ in 1 2 3; do
    for setting in NOTHING=set GOMP_SPINCOUNT=1000 OMP_WAIT_POLICY=passive; do
        printf '%-24s' "$setting"
        env "$setting" "$program" models/mlp.onnx "${2:-300}"
    done
done
