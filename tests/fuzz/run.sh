#!/bin/bash
# Builds the fuzzing harnesses with clang and runs them, two at a time:
#   tests/fuzz/run.sh [SECONDS [NAME...]]       SECONDS each [15]; NAME: text, import, model ... [all]
# $FUZZ_BUILD is the build folder [build-fuzz]; one that was configured with -DDPX_FUZZ=BESIDE is taken as it is; $FUZZ_CORPUS a folder where what is learned is kept, to go on from [thrown away].
# $FUZZ_FLAGS are further flags of the compiler: "-O2 -fno-sanitize-coverage=trace-cmp" makes some harnesses up to twice as quick.
# An input that breaks something is kept as $FUZZ_BUILD/NAME-crash-... (-leak-, -timeout-, -oom-).
# Ends with "N passed, N failed"; a harness fails when it finds anything, or executes nothing.
set -u
cd "$(dirname "$0")/../.." || exit 2
seconds=${1:-15}
[ $# = 0 ] || shift
build=${FUZZ_BUILD:-build-fuzz}
scratch=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)     # where writing files is quick
trap 'rm -rf "$scratch"' EXIT
corpus=${FUZZ_CORPUS:-$scratch/corpus}

grep -q '^DPX_FUZZ:.*=BESIDE' "$build/CMakeCache.txt" 2>/dev/null || cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug "-DCMAKE_C_FLAGS_DEBUG=-O1 -g1 ${FUZZ_FLAGS:-}" "-DCMAKE_CXX_FLAGS_DEBUG=-O1 -g1" \
    -DCMAKE_C_COMPILER=clang -DDPX_CUDA=OFF -DDPX_FUZZ=ON >/dev/null && cmake --build "$build" --target fuzz >"$build/build.log" 2>&1 || {
    grep -E 'warning:|error:|FAILED|undefined' "$build/build.log" | head -40
    echo '0 passed, 1 failed'
    exit 1
}

# What makes an execution cheap: little memory that waits to be freed, and short stacks in reports.
export ASAN_OPTIONS=quarantine_size_mb=4:malloc_context_size=2:detect_leaks=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export OMP_NUM_THREADS=1

# fuzz NAME: says what it did, and keeps "passed failed" in a file.
fuzz() {
    local name=$1 input=$1 log=$scratch/$1.log longest=2048 n status
    [ "$name" = model ] || [ "$name" = interpret ] && input=import
    [ "$name" != checkpoint ] || longest=5120       # a stream of three files
    mkdir -p "$corpus/$name" "$scratch/files-$name"
    TMPDIR=$scratch/files-$name timeout $((seconds + 120)) "$build/fuzz_$name" -max_total_time="$seconds" -max_len=$longest -timeout=10 \
        -rss_limit_mb=2048 -malloc_limit_mb=1024 -entropic=0 -dict="tests/fuzz/$input.dict" -print_final_stats=1 \
        -artifact_prefix="$build/$name-" "$corpus/$name" "tests/fuzz/corpus/$input" >"$log" 2>&1
    status=$?
    n=$(sed -n 's/^stat::number_of_executed_units: //p' "$log")
    if [ $status = 0 ] && [ "${n:-0}" -gt 0 ]; then
        echo "1 0" >"$scratch/$name.counts"
        echo "$name: $n executions"
    else
        echo "0 1" >"$scratch/$name.counts"
        { echo "FAILED: $name: exit status $status after ${n:-0} executions"
          grep -vE 'NEW|REDUCE|RELOAD|pulse|^INFO' "$log" | head -60; }
    fi
}

names=("$@")
[ $# != 0 ] || mapfile -t names < <(basename -s .c tests/fuzz/*.c)
running=0
for name in "${names[@]}"; do
    [ $running -lt 2 ] || { wait -n; running=$((running - 1)); }
    running=$((running + 1))
    fuzz "$name" &
done
wait
passed=0
failed=0
for name in "${names[@]}"; do
    read -r p f <"$scratch/$name.counts" || { p=0 f=1; }
    passed=$((passed + p))
    failed=$((failed + f))
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
