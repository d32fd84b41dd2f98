#!/bin/bash
# The script that proves dpexec on a GPU, on a simulated one: training by the command line on a CUDA device, captured and not, and
# in several processes.
. "$(dirname "$0")/lib.sh"
check "tests/gpu.sh" env PYTHON="${PYTHON:-/usr/bin/python3}" tests/gpu.sh --trial --tests-only --minutes 10 --build "$build"
if [ -x "$build/bench_kernels" ]; then
    export DPX_TEST_CUDA=$build/libdpexec_cudasim.so DPEXEC_CUDA_PLUGIN=$build/libdpexec_cudasim.so
    check "bench_kernels" sh -c '"$1" --trial bench/kernels.txt >"$2"' sh "$build/bench_kernels" "$DIR/kernels.jsonl"
    check "a line for each kernel" test "$(grep -c '"us":' "$DIR/kernels.jsonl")" = $(($(grep -c '^[0-9]' bench/kernels.txt) + 1))
else
    skip bench_kernels 'not built with sanitizers'
fi
finish
