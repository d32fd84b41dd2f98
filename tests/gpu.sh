#!/bin/bash
# Proof on a GPU, and benchmarks against PyTorch on it, within eight minutes.  Needs a GPU with its driver and Python with PyTorch and
# numpy; CUDA's libraries come from PyTorch's packages.  From the root of the tree, with what tests/gpu_bundle.sh has built there:
#   tests/gpu.sh [--build DIR] [--out DIR] [--logs DIR] [--minutes N] [--no-bench] [--trial]
#     --build DIR     programs and plug-in [build-gpu, unpacked from its bundle.tar.gz; else build]
#     --out DIR       for DEVICE-DATE.json and .md [bench/results]
#     --logs DIR      what each stage printed, kept there
#     --trial         the same on a simulated device, with PyTorch on the CPU and tiny sizes: shows that the script works
# Stages: operator cases, the executor and its collectives, training against the CPU and PyTorch, several processes on one card,
# compute-sanitizer, benchmarks.  A stage that fails or runs out of time is counted and the next begins; what cannot run here is
# skipped, which is said and counts as nothing.  Ends with the total "N passed, N failed"; the lines before it name what was skipped.
set -u
cd "$(dirname "$0")/.." || exit 2
build='' out=bench/results logs='' minutes=8 trial='' bench=yes
while [ $# != 0 ]; do
    case $1 in
    --build) build=$2 && shift ;;
    --out) out=$2 && shift ;;
    --logs) logs=$2 && shift ;;
    --minutes) minutes=$2 && shift ;;
    --no-bench) bench='' ;;
    --trial) trial=yes ;;
    *) sed -n '2,/^set/{s/^# \{0,1\}//;/^set/!p}' "$0" && exit 2 ;;
    esac
    shift
done
python=${PYTHON:-python3}
end=$((minutes * 60 - 10))              # SECONDS when all must be done but the report
until=$((end - (${bench:+170} + 0)))    # when the tests must be: what the benchmarks need is theirs
work=$(mktemp -d)
passed=0
failed=0
skipped=()
export PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1

# ---- what there is ----

if [ -z "$build" ]; then
    build=build
    [ ! -f build-gpu/bundle.tar.gz ] || build=build-gpu
fi
if [ -f "$build/bundle.tar.gz" ] && [ ! "$build/dpexec" -nt "$build/bundle.tar.gz" ]; then
    tar -C "$build" -xzmf "$build/bundle.tar.gz" || exit 2
fi
[ -x "$build/dpexec" ] || { echo "there is no $build/dpexec: run tests/gpu_bundle.sh, or build" >&2; exit 2; }
build=$(cd "$build" && pwd)
plugin=$build/libdpexec_cuda.so
[ -z "$trial" ] || plugin=$build/libdpexec_cudasim.so
libraries=$($python -c 'import glob, nvidia; print(":".join(d for p in nvidia.__path__ for d in sorted(glob.glob(p + "/*/lib"))))' 2>/dev/null)
export DPX_TEST_CUDA=$plugin DPEXEC_CUDA_PLUGIN=$plugin DPEXEC_CACHE_DIR=$work/cache
cores=$(nproc)
jobs=$((cores > 4 ? cores / 2 : 2))
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer /usr/local/cuda*/compute-sanitizer/compute-sanitizer \
    /opt/nvidia/*/compute-sanitizer/compute-sanitizer 2>/dev/null | head -1)

# ---- stages ----

# stage NAME SECONDS COMMAND...: its output goes to $work/NAME.log, its counts to $work/NAME.counts.  Several may run at a time.
stage() {
    local name=$1 limit=$2 counts status start=$SECONDS
    shift 2
    limit=$((limit < until - SECONDS ? limit : until - SECONDS))
    export STAGE_SECONDS=$((limit > 15 ? limit - 5 : limit))
    if [ $limit -le 0 ]; then
        echo 'no time was left' >"$work/$name.log"
        status=124
    else
        LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} timeout -k 5 $limit "$@" >"$work/$name.log" 2>&1
        status=$?
    fi
    counts=$(grep -oE '[0-9]+ passed, [0-9]+ failed$' "$work/$name.log" | tail -1)
    if [ -z "$counts" ]; then
        [ $status = 0 ] && counts='1 passed, 0 failed' || counts='0 passed, 1 failed'
    elif [ $status != 0 ] && [ "${counts#*, }" = '0 failed' ]; then
        counts="${counts%,*}, 1 failed"
    fi
    echo "$counts" >"$work/$name.counts"
    printf '{"stage":"%s","counts":"%s","status":%d,"seconds":%d}\n' "$name" "$counts" $status $((SECONDS - start)) >>"$work/stages.jsonl"
    printf '== %-10s %s (%d s%s)\n' "$name" "$counts" $((SECONDS - start)) "$([ $status != 124 ] || echo ', out of time')"
    [ $status = 0 ] && [ "${counts#*, }" = '0 failed' ] || { grep -E 'FAILED|MISSED|ERROR|Error|expected|^ +[0-9]+\. ' "$work/$name.log" | head -25; tail -6 "$work/$name.log"; }
}

# skip NAME WHY: a stage that cannot run here.
skip() {
    skipped+=("$1: $2")
    printf '{"stage":"%s","counts":"skipped: %s","status":0,"seconds":0}\n' "$1" "$2" >>"$work/stages.jsonl"
    printf '== %-10s SKIPPED: %s\n' "$1" "$2"
}

# all_suites PROGRAM SUITE...: suites in processes of their own, several at a time; adds their counts up, also when time is out.
all_suites() {
    local program=$1 dir
    shift
    dir=$(mktemp -d -p "$work")
    printf '%s\n' "$@" | timeout "$STAGE_SECONDS" \
        xargs -P "$jobs" -I{} sh -c '"$1" {} >"$2/{}.log" 2>&1; echo $? >"$2/{}.status"' - "$program" "$dir"
    add_up "$dir" "$@"
}

# add_up DIR NAME...: the counts of DIR/NAME.log; one failure for a log without.
add_up() {
    local dir=$1 name counts p=0 f=0
    shift
    for name in "$@"; do
        [ -f "$dir/$name.status" ] || echo 'out of time' | tee -a "$dir/$name.log" >"$dir/$name.status"
        counts=$(grep -oE '[0-9]+ passed, [0-9]+ failed$' "$dir/$name.log" | tail -1)
        [ -n "$counts" ] || counts='0 passed, 1 failed'
        p=$((p + ${counts%% *}))
        counts=${counts#*, }
        f=$((f + ${counts%% *}))
        if [ "${counts%% *}" != 0 ] || [ "$(cat "$dir/$name.status")" != 0 ]; then
            echo "FAILED: $name, status $(cat "$dir/$name.status")"
            grep -E '^ +[0-9]+\. ' "$dir/$name.log" | head -10
            tail -2 "$dir/$name.log"
        fi
    done
    echo "$p passed, $f failed"
    [ $f = 0 ] && [ $p -gt 0 ]
}

# sanitized TOOL SUITE...: operator cases under a tool of compute-sanitizer, with its options, which must find nothing.
sanitized() {
    local tool=$1 dir suite p=0 f=0
    shift
    dir=$(mktemp -d -p "$work")
    printf '%s\n' "$@" | timeout "$STAGE_SECONDS" \
        xargs -P "$jobs" -I{} sh -c '"$1" --tool $2 --error-exitcode 99 "$3" {} >"$4/{}.log" 2>&1; echo $? >"$4/{}.status"' - \
        "$sanitizer" "$tool" "$build/test_ops" "$dir"
    for suite in "$@"; do
        [ -f "$dir/$suite.status" ] || echo 'out of time' >"$dir/$suite.status"
        if [ "$(cat "$dir/$suite.status")" = 0 ] && grep -qE 'SUMMARY: 0 (errors|hazards)' "$dir/$suite.log"; then
            p=$((p + 1))
        else
            f=$((f + 1))
            echo "FAILED: $tool, $suite, status $(cat "$dir/$suite.status")"
            grep -E '^=========' "$dir/$suite.log" | head -12
        fi
    done
    echo "$p passed, $f failed"
    [ $f = 0 ]
}
export -f all_suites add_up sanitized
export work jobs build sanitizer

operators=$(cd tests/ops/cases && ls ./*.txt | sed 's|./||; s/.txt//')
own='softmax layernorm reduce index batchnorm pool optimizer cross_entropy random layout fused product loss arg cast metric conv_relu'
options=()
[ -z "$trial" ] || { operators=softmax own=''; options=(--trial); }

if [ -n "$bench" ]; then
    # Compiles meanwhile, and waits for the gate with what is measured.
    [ -n "$trial" ] || rounds=(--rounds 5 --seconds 1)
    $python bench/gpu.py "$build" --library-path "$libraries" --deadline $((end - SECONDS - 10)) --gate "$work/gate" --stages "$work/stages.jsonl" \
        --out "$work/bench.json" --markdown "$work/bench.md" "${rounds[@]---rounds=1}" "${options[@]}" >"$work/bench.log" 2>&1 &
    bench_pid=$!
fi

# The first to read the libraries, of gigabytes, from the disk.
stage devices 100 "$build/dpexec" devices
if ! grep -E '^cuda' "$work/devices.log"; then
    cat "$work/devices.log"
    [ -z "$bench" ] || kill "$bench_pid"
    rm -rf "$work"
    echo '0 passed, 1 failed'
    exit 1
fi
stage operators 180 bash -c 'all_suites "$build/test_ops" "$@"' - $operators &
stage executor 120 "$build/test_exec" $([ -n "$trial" ] && echo gpu_collective || echo gpu gpu_transformer gpu_16_bits gpu_layouts gpu_collective indices tf32) &
stage training 150 $python tests/gpu/train.py "$build/dpexec" --jobs "$jobs" "${options[@]}" &
wait_for() { while [ $# != 0 ]; do wait "$1"; shift; done; }
wait_for $(jobs -p | grep -vx "${bench_pid:-0}")
# Alone: processes on one card take turns, and a collective waits for the turn of each.
stage processes 90 $python tests/gpu/world.py "$build/dpexec" "${options[@]}"
if [ -n "$own" ] && [ -n "$sanitizer" ]; then
    # Failures of calls are the tests' to tell; libraries ask the driver for what it need not have.
    stage memcheck 90 bash -c 'sanitized "memcheck --report-api-errors no" "$@"' - $own &
    stage racecheck 90 bash -c 'sanitized racecheck softmax layernorm reduce batchnorm cross_entropy index arg' - &
else
    why=$([ -n "$trial" ] && echo 'not on a simulated device' || echo 'compute-sanitizer is not found')
    skip memcheck "$why"
    skip racecheck "$why"
fi
wait_for $(jobs -p | grep -vx "${bench_pid:-0}")
touch "$work/gate"
if [ -n "$bench" ]; then
    follow() { while kill -0 "$1" 2>/dev/null; do sleep 0.5; done; cat "$work/bench.log"; grep -qE 'passed, [0-9]+ failed$' "$work/bench.log"; }
    export -f follow
    until=$end
    stage benchmarks $((end - SECONDS)) bash -c 'follow "$1"' - $bench_pid
    kill $bench_pid 2>/dev/null
fi

# ---- report ----

if [ -s "$work/bench.json" ]; then
    mkdir -p "$out"
    name=$($python -c 'import json, re, sys; print(re.sub("[^a-z0-9]+", "-", (json.load(open(sys.argv[1]))["device"] or "trial").lower()).strip("-"))' \
        "$work/bench.json")
    cp "$work/bench.json" "$out/$name-$(date -u +%F).json"
    cp "$work/bench.md" "$out/$name-$(date -u +%F).md"
    cat "$work/bench.md"
    echo "written to $out/$name-$(date -u +%F).json and .md"
fi
for file in "$work"/*.counts; do
    counts=$(cat "$file")
    passed=$((passed + ${counts%% *}))
    counts=${counts#*, }
    failed=$((failed + ${counts%% *}))
done
[ -z "$logs" ] || { mkdir -p "$logs" && find "$work" -name '*.log' -exec cp {} "$logs" \; ; }
rm -rf "$work"
[ ${#skipped[@]} = 0 ] || printf 'SKIPPED: %s\n' "${skipped[@]}"
printf '%d passed, %d failed in %d s\n%d passed, %d failed\n' $passed $failed $SECONDS $passed $failed
[ $failed = 0 ] && [ $passed -gt 0 ]
