#!/bin/bash
# What fails on GPUs ends a run with one line that names the device, and the node where there is one, before long; the
# checkpoints written before are as they were, and the run can go on from them.  On simulated GPUs (tests/sim).
. "$(dirname "$0")/lib.sh"
export DPEXEC_CUDA_PLUGIN=$build/libdpexec_cudasim.so DPEXEC_CACHE_DIR= DPEXEC_GPU_TIMEOUT=2 DPEXEC_SIM_TIMEOUT=2
export DPEXEC_SIM_CACHE=${DPEXEC_SIM_CACHE:-$build/sim-cache}
mlp=(models/mlp.onnx --data tests/oracle/data/digits.npz --loss cross-entropy --momentum 0 --batch-size 10 --threads 1 --quiet)

# Runs to compare with, and checkpoints of four steps to begin with.
for devices in 1 2; do
    check "whole $devices" "$dpexec" "${mlp[@]}" --devices "cuda*$devices" --steps 8 --checkpoint-every 4 --out "$DIR/whole$devices"
    mkdir -p "$DIR/half$devices/checkpoints"
    cp "$DIR/whole$devices/args.json" "$DIR/half$devices/"
    cp -r "$DIR/whole$devices/checkpoints/step-000000004" "$DIR/half$devices/checkpoints/"
    head -4 "$DIR/whole$devices/metrics.jsonl" >"$DIR/half$devices/metrics.jsonl"
done

# fails DEVICES SPEC TEXT...: from the checkpoint, the failure SPEC says every TEXT in one line; then the run goes on to the
# end as if nothing had happened.
more=()
fails() {
    local devices=$1 spec=$2 out=$DIR/run text
    shift 2
    rm -rf "$out"
    cp -r "$DIR/half$devices" "$out"
    DPEXEC_SIM_FAIL=$spec refused 1 "dpexec: " "$dpexec" "${mlp[@]}" --devices "cuda*$devices" --steps 8 --checkpoint-every 4 --resume "$out" "${more[@]}"
    for text in "$@"; do
        check "$spec says '$text': $(cat "$DIR/refused.err")" grep -qF -- "$text" "$DIR/refused.err"
    done
    check "$spec: one line" test "$(grep -c '' "$DIR/refused.err")" = 1
    check "$spec: no model" test ! -e "$out/model.onnx"
    check "$spec: the checkpoint is as it was" diff -r "$out/checkpoints" "$DIR/half$devices/checkpoints"
    check "$spec: the run goes on" "$dpexec" "${mlp[@]}" --devices "cuda*$devices" --steps 8 --checkpoint-every 4 --resume "$out"
    check "$spec: to the same end" same_run "$out" "$DIR/whole$devices"
}

fails 1 launch:3 "cuda:0: " "injected failure" "(output '"
fails 1 launch:3:async "cuda:0: kernel " "injected failure" "; --check-nodes tells which node it was"
more=(--check-nodes)
fails 1 launch:3:async "(output '" "cuda:0: kernel " "injected failure"
check "--check-nodes tells no more of itself" test "$(grep -c check-nodes "$DIR/refused.err")" = 0
more=()
fails 1 gemm:2 "cuda:0: Product fc2 (output 'relu_2'): gemm: injected failure"
fails 1 compile:1 "cuda:0: " "(output '" "injected failure"
fails 1 graph_launch:2 "cuda:0: graph_launch: injected failure"
fails 1 stream_create:1 "cuda:0: stream_create: injected failure"
fails 2 all_reduce_sum@1:1 "cuda:1: AllReduce " "(output '" "all_reduce_sum: injected failure of rank 1"
fails 2 all_reduce_sum@1:2:lost "cuda:" "all_reduce_sum: injected loss of rank 1"
fails 2 all_reduce_sum@0:1:hang "cuda:0: the step has not ended within 2 seconds: all devices have come to AllReduce " "(output '"
fails 2 launch@1:3:hang "cuda:0: the step has not ended within 2 seconds: AllReduce " "(output '" "waits for cuda:1 (has come to no collective); waiting: cuda:0"
DPEXEC_SIM_TIMEOUT=300      # longer than `refused` waits: nobody waits for a kernel that hangs, not even at the end
fails 2 launch@1:3:hang "cuda:0: the step has not ended within 2 seconds"
DPEXEC_SIM_TIMEOUT=2
DPEXEC_GPU_TIMEOUT=60
fails 2 comm_create@1:1 "cuda:1: comm_create: injected failure of rank 1"
DPEXEC_GPU_TIMEOUT=2
# The second and third of these are captured: a communicator whose call has failed is good for no step given call by call either.
fails 2 all_reduce_sum@1:3 "cuda:1: AllReduce " "(output '" "all_reduce_sum: injected failure of rank 1"
fails 2 all_reduce_sum@0:2 "cuda:0: AllReduce " "(output '" "all_reduce_sum: injected failure of rank 0"
fails 2 graph_launch:3 "cuda:" "graph_launch: injected failure"

# What cannot be captured is given to the GPUs call by call, says one line, and computes the same.
falls_back() {
    local devices=$1 spec=$2 out=$DIR/run
    shift 2
    rm -rf "$out"
    cp -r "$DIR/half$devices" "$out"
    DPEXEC_SIM_FAIL=$spec "$dpexec" "${mlp[@]}" --devices "cuda*$devices" --steps 8 --checkpoint-every 4 --resume "$out" 2>"$DIR/back.err" >"$DIR/back.out"
    check "$spec: the run goes on: $(cat "$DIR/back.err")" test $? = 0
    check "$spec: says why: $(cat "$DIR/back.err")" grep -qxF -- "dpexec: warning: a step cannot be captured as one graph, so every call is given to the GPU: $1" "$DIR/back.err"
    check "$spec: one line" test "$(grep -c '' "$DIR/back.err")" = 1
    check "$spec: to the same end" same_run "$out" "$DIR/whole$devices"
}
falls_back 1 capture_begin:1 "cuda:0: capture_begin: injected failure"
falls_back 1 capture_end:1 "cuda:0: capture_end: injected failure"
falls_back 1 capture_end:2 "cuda:0: capture_end: injected failure"
falls_back 2 capture_begin@1:1 "cuda:1: capture_begin: injected failure"
falls_back 2 capture_end@0:2 "cuda:0: capture_end: injected failure"
# Half way through a step; of the second a collective has been captured already.
falls_back 1 launch:20 "cuda:0: Product fc2 (output 'relu_2'): launch of product_mask_f32: injected failure"
falls_back 2 launch@1:32 "cuda:1: Div gradient of criterion (output 'Div_9@d1'): launch of ew_Div: injected failure"

# Memory that does not suffice, whichever part of it: before the first step, the table of what is largest, and nothing written.
memory() {
    local devices=$1 size='[0-9.]+ (KiB|B)'
    rm -rf "$DIR/small"
    env "$2" timeout 60 "$dpexec" "${mlp[@]}" --devices "cuda*$devices" --steps 4 --out "$DIR/small" >"$DIR/memory.out" 2>"$DIR/memory.err"
    check "$2: exit $?" test $? = 1
    check "$2: why: $(tail -1 "$DIR/memory.err")" grep -qE "^dpexec: cuda:[01]: out of memory: a step needs [0-9.]+ KiB \(arena [0-9.]+ KiB, states 67.8 KiB, constants $size, inputs [0-9.]+ KiB, collectives $size\) and [0-9.]+ KiB of the host's, pinned; it has .* free: " "$DIR/memory.err"
    check "$2: what is largest" grep -qE '^dpexec: warning: cuda:[01]: +32.0 KiB  fc[12].weight' "$DIR/memory.err"
    check "$2: no step was run" test ! -s "$DIR/small/metrics.jsonl" -a ! -e "$DIR/small/model.onnx"
}
for failure in alloc:{1..5} host_alloc:{1..4}; do
    memory 1 DPEXEC_SIM_FAIL=$failure
done
for failure in alloc:{1..10} host_alloc:{1..10} comm_alloc:{1,2}; do
    memory 2 DPEXEC_SIM_FAIL=$failure
done

# What is said to be needed is what is needed, to the last digit that is said.
for devices in 1 2; do
    memory $devices DPEXEC_SIM_MEMORY=100K
    need=$(sed -nE 's/^dpexec: cuda:0: out of memory: a step needs ([0-9.]+) KiB .*/\1/p' "$DIR/memory.err")
    memory $devices DPEXEC_SIM_MEMORY="$(awk "BEGIN { print int(($need - 0.1) * 1024) }")"
    enough=$(awk "BEGIN { print int(($need + 0.4) * 1024) }")
    DPEXEC_SIM_MEMORY=$enough check "$enough bytes suffice" "$dpexec" "${mlp[@]}" --devices "cuda*$devices" --steps 4 --out "$DIR/enough$devices"
done

# Devices and plug-ins that are not there.
refused 1 "cuda:9: there is no such device; present: cuda:0 (" "$dpexec" "${mlp[@]}" --devices cuda:9 --steps 1 --out "$DIR/none"
if [ -e "$build/libdpexec_nodriver.so" ] && [ ! -e /dev/nvidiactl ] && [ -e "$build/libdpexec_cuda.so" ]; then
    DPEXEC_CUDA_PLUGIN=$build/libdpexec_cuda.so refused 1 "cuda:0: no NVIDIA driver" "$dpexec" "${mlp[@]}" --devices cuda --steps 1 --out "$DIR/none"
else
    skip "the plug-in without a driver" "there is a GPU, or no plug-in"
fi
for abi in 0 99; do
    echo "struct R { int abi; const char *name; }; static const struct R r = { $abi, \"cuda\" }; const void *dpexec_cuda_driver(void) { return &r; }" |
        "${CC:-cc}" -shared -fPIC -x c - -o "$DIR/other.so"
    DPEXEC_CUDA_PLUGIN=$DIR/other.so refused 1 "other.so is of another version: interface $abi" "$dpexec" "${mlp[@]}" --devices cuda --steps 1 --out "$DIR/none"
done
check "no folder was made" test ! -e "$DIR/none"
finish
