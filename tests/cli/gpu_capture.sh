#!/bin/bash
# When steps are captured: once for each slot of a program, from its second step on; another learning rate is no reason to
# capture again, another shape is another program.  On simulated GPUs (tests/sim), where capture number N can be made to fail:
# a run that says nothing of it has captured less often.
. "$(dirname "$0")/lib.sh"
export DPEXEC_CUDA_PLUGIN=$build/libdpexec_cudasim.so DPEXEC_CACHE_DIR= DPEXEC_GPU_TIMEOUT=20
export DPEXEC_SIM_CACHE=${DPEXEC_SIM_CACHE:-$build/sim-cache}
mlp=(models/mlp.onnx --data tests/oracle/data/digits.npz --loss cross-entropy --threads 1 --quiet)

# captures N ARGS...: a run captures N times, and its losses are those of the CPU to four digits.
captures() {
    local n=$1 why="capture_begin: injected failure"
    shift
    rm -rf "$DIR/run" "$DIR/cpu"
    DPEXEC_SIM_FAIL=capture_begin:$((n + 1)) check "at most $n captures" "$dpexec" "${mlp[@]}" "$@" --devices cuda --out "$DIR/run"
    if grep -q "$why" "$DIR/check.log"; then fail "more than $n captures: $*"; else pass; fi
    [ "$n" = 0 ] || DPEXEC_SIM_FAIL=capture_begin:$n says "$why" "$dpexec" "${mlp[@]}" "$@" --devices cuda --out "$DIR/fails"
    rm -rf "$DIR/fails"
    check "on the CPU" "$dpexec" "${mlp[@]}" "$@" --out "$DIR/cpu"
    check "the same losses: $*" diff <(losses "$DIR/run") <(losses "$DIR/cpu")
}

losses() { grep -oE '"loss":[0-9.e+-]+' "$1/metrics.jsonl" | awk -F: '{ printf "%.3f\n", $2 }'; }

captures 0 --batch-size 10 --steps 1
captures 2 --batch-size 10 --steps 9
captures 2 --batch-size 10 --steps 9 --lr-schedule cosine --lr 0.2
captures 2 --batch-size 10 --steps 9 --lr-schedule step:2:0.5 --warmup-steps 3 --optimizer adam
captures 4 --batch-size 10 --epochs 3                 # 43 samples: the last batch has 3
finish
