#!/bin/bash
# Proof on a GPU, and benchmarks against PyTorch on it, within six minutes.  Needs a GPU with its driver and Python with PyTorch and
# numpy; CUDA's libraries come from PyTorch's packages.  From the root of the tree, with what tests/gpu_bundle.sh has built there:
#   tests/gpu.sh [--minutes N] [--tests-only | --bench-only | --only STAGE,...] [--build DIR] [--out DIR] [--logs DIR] [--trial]
#                [--cases LIST] [--contestants LIST] [--kernels PATTERN] [--suites LIST] [--sanitize LIST] [--quick]
#     --minutes N     for all of it [6]; of these --bench-minutes [2.8] are the benchmarks'
#     --only LIST     stages, of: operators executor training depthwise killed processes memcheck racecheck benchmarks
#     --cases, --contestants, --kernels     of bench/gpu.py, as --only, --contestants and --kernels there; "none" is nothing
#     --suites LIST   of test_ops for the stage operators [all]; --sanitize LIST: those under compute-sanitizer [with own kernels]
#     --quick         of the training cases but three, one replica alone; of processes, two models
#     --build DIR     programs and plug-in [build-gpu, unpacked from its bundle.tar.gz; else build]
#     --out DIR       for DEVICE-DATE.json and .md [bench/results]
#     --logs DIR      stages.log, to which a stage adds what it printed when it ends; logs.tar.gz; bench.json and bench.md
#     --trial         the same on a simulated device, with PyTorch on the CPU and tiny sizes: shows that the script works
# Stages: operator cases, the executor and its collectives, training against the CPU and PyTorch, depthwise convolutions, a rank that
# is killed, several processes on one card, compute-sanitizer, benchmarks.  LIST has commas.  A stage that fails or runs out of time is counted and the next begins; what cannot run here is
# skipped, which is said and counts as nothing.  Ends with the total "N passed, N failed"; the lines before it name what was skipped.
set -u
cd "$(dirname "$0")/.." || exit 2
build='' out=bench/results logs='' minutes=6 trial='' only='' bench_minutes=2.8 suites='' sanitize='' bench_options=() quick=()
while [ $# != 0 ]; do
    case $1 in
    --build) build=$2 && shift ;;
    --out) out=$2 && shift ;;
    --logs) logs=$2 && shift ;;
    --minutes) minutes=$2 && shift ;;
    --bench-minutes) bench_minutes=$2 && shift ;;
    --only) only=$2 && shift ;;
    --bench-only) only=benchmarks ;;
    --tests-only) only=operators,executor,training,depthwise,killed,processes,memcheck,racecheck ;;
    --cases) bench_options+=(--only "$2") && shift ;;
    --contestants | --kernels) bench_options+=("$1" "$2") && shift ;;
    --suites) suites=${2//,/ } && shift ;;
    --sanitize) sanitize=${2//,/ } && shift ;;
    --quick) quick=(--quick) ;;
    --trial) trial=yes ;;
    *) sed -n '2,/^set/{s/^# \{0,1\}//;/^set/!p}' "$0" && exit 2 ;;
    esac
    shift
done
# wants STAGE: whether --only names it, or nothing.
wants() { [ -z "$only" ] || [[ ",$only," == *",$1,"* ]]; }
seconds() { awk "BEGIN { print int(60 * $1) }"; }
python=${PYTHON:-python3}
bench=''
! wants benchmarks || bench=yes
end=$(($(seconds "$minutes") - 10))     # SECONDS when all must be done but the report
until=$end                              # when the tests must be: what the benchmarks need is theirs
[ -z "$bench" ] || until=$((end - $(seconds "$bench_minutes")))
work=$(mktemp -d)
passed=0
failed=0
skipped=()
export PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1 DPEXEC_RUNS=none

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
[ -z "$logs" ] || mkdir -p "$logs" || exit 2
cores=$(nproc)
jobs=$((cores > 4 ? cores / 2 : 2))
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer /usr/local/cuda*/compute-sanitizer/compute-sanitizer \
    /opt/nvidia/*/compute-sanitizer/compute-sanitizer 2>/dev/null | head -1)

# ---- stages ----

# stage NAME SECONDS COMMAND...: its output goes to $work/NAME.log, its counts to $work/NAME.counts.  Several may run at a time.
stage() {
    local name=$1 limit=$2 counts status start=$SECONDS
    shift 2
    [ -z "$trial" ] || limit=$((3 * limit))     # on whatever processors there are
    limit=$((limit < until - SECONDS ? limit : until - SECONDS))
    export STAGE_SECONDS=$((limit > 15 ? limit - 5 : limit))
    if [ $limit -le 0 ]; then
        echo 'no time was left' >"$work/$name.log"
        status=124
    else
        LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} timeout -k 5 $limit "$@" >"$work/$name.log" 2>&1
        status=$?
    fi
    [ -z "$logs" ] || { printf '\n==== %s, status %d\n' "$name" $status && cat "$work/$name.log"; } >>"$logs/stages.log"
    counts=$(grep -oE '[0-9]+ passed, [0-9]+ failed$' "$work/$name.log" | tail -1)
    if [ -z "$counts" ]; then
        [ $status = 0 ] && counts='1 passed, 0 failed' || counts='0 passed, 1 failed'
    elif [ $status != 0 ] && [ "${counts#*, }" = '0 failed' ]; then
        counts="${counts%,*}, 1 failed"
    fi
    echo "$counts" >"$work/$name.counts"
    printf '{"stage":"%s","counts":"%s","status":%d,"seconds":%d}\n' "$name" "$counts" $status $((SECONDS - start)) >>"$work/stages.jsonl"
    printf '== %-10s %s (%d s%s)\n' "$name" "$counts" $((SECONDS - start)) "$([ $status != 124 ] || echo ', out of time')"
    [ $status = 0 ] && [ "${counts#*, }" = '0 failed' ] || { grep -E 'FAILED|MISSED|ERROR|Error|expected|^ +[0-9]+\. |^[Tt]hread |^#[0-9]' "$work/$name.log" | head -40; tail -6 "$work/$name.log"; }
}

# skip NAME WHY: a stage that cannot run here.
skip() {
    skipped+=("$1: $2")
    printf '{"stage":"%s","counts":"skipped: %s","status":0,"seconds":0}\n' "$1" "$2" >>"$work/stages.jsonl"
    printf '== %-10s SKIPPED: %s\n' "$1" "$2"
}

# all_suites PROGRAM SUITE...: four suites a process, since each process needs a second of the driver; several processes at a time; adds
# their counts up, also when time is out.
all_suites() {
    local program=$1 dir
    shift
    dir=$(mktemp -d -p "$work")
    printf '%s\n' "$@" | timeout "$STAGE_SECONDS" \
        xargs -P "$jobs" -n 4 sh -c 'program=$0 log=$1/$2; shift; "$program" "$@" >"$log.log" 2>&1; echo $? >"$log.status"' "$program" "$dir"
    while [ $# != 0 ]; do
        add_up "$dir/$1" "${*:1:4}"
        shift $(($# < 4 ? $# : 4))
    done | tee "$dir/said" | grep -v '^COUNT'
    awk '/^COUNT/ { p += $2; f += $3 } END { print p + 0 " passed, " f + 0 " failed"; exit !(p > 0 && f == 0) }' "$dir/said"
}

# add_up FILE NAMES: "COUNT passed failed" of FILE.log, or one failure for a log without; and why it failed.
add_up() {
    local counts p f
    [ -f "$1.status" ] || echo 'out of time' | tee -a "$1.log" >"$1.status"
    counts=$(grep -oE '[0-9]+ passed, [0-9]+ failed$' "$1.log" | tail -1)
    [ -n "$counts" ] || counts='0 passed, 1 failed'
    p=${counts%% *} f=${counts#*, } f=${f%% *}
    if [ "$f" != 0 ] || [ "$(cat "$1.status")" != 0 ]; then
        [ "$f" != 0 ] || f=1
        echo "FAILED: $2: status $(cat "$1.status")"
        grep -E '^ +[0-9]+\. ' "$1.log" | head -20
        tail -2 "$1.log"
    fi
    echo "COUNT $p $f"
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

operators=${suites:-$(cd tests/ops/cases && ls ./*.txt | sed 's|./||; s/.txt//')}
own='softmax layernorm reduce index batchnorm pool optimizer cross_entropy random layout fused product loss arg cast metric conv_relu'
own=${sanitize:-$own}
raced=''
for suite in $own; do
    [[ ' softmax layernorm reduce batchnorm cross_entropy index arg pool ' != *" $suite "* ]] || raced="$raced $suite"
done
options=()
[ -z "$trial" ] || { operators='softmax arg' own=''; options=(--trial); }

if [ -n "$bench" ]; then
    # Compiles meanwhile, and waits for the gate with what is measured.
    [ -n "$trial" ] || rounds=(--rounds 5 --seconds 0.5)
    $python bench/gpu.py "$build" --library-path "$libraries" --deadline $((end - SECONDS - 10)) --gate "$work/gate" --stages "$work/stages.jsonl" \
        --out "$work/bench.json" --markdown "$work/bench.md" "${rounds[@]---rounds=1}" "${options[@]}" "${bench_options[@]}" >"$work/bench.log" 2>&1 &
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
wait_for() { while [ $# != 0 ]; do wait "$1"; shift; done; }
! wants operators || stage operators 180 bash -c 'all_suites "$build/test_ops" "$@"' - $operators &
! wants executor || stage executor 120 "$build/test_exec" $([ -n "$trial" ] && echo gpu_collective ||
    echo gpu gpu_transformer gpu_16_bits gpu_layouts gpu_collective indices tf32) &
! wants training || stage training 150 $python tests/gpu/train.py "$build/dpexec" --jobs "$jobs" "${options[@]}" "${quick[@]}" &
if wants depthwise; then
    if $python -c 'import numpy' 2>/dev/null; then
        stage depthwise 120 $python tests/gpu/depthwise.py "$build/dpexec" "${options[@]}" &
    else
        skip depthwise 'numpy is not found'
    fi
fi
! wants killed || stage killed 100 $python tests/gpu/world.py "$build/dpexec" --killed --logs "$work" "${options[@]}" &
wait_for $(jobs -p | grep -vx "${bench_pid:-0}")
# Alone: processes on one card take turns, and a collective waits for the turn of each.
! wants processes || stage processes 60 $python tests/gpu/world.py "$build/dpexec" "${options[@]}" "${quick[@]}"
if ! wants memcheck && ! wants racecheck; then
    :
elif [ -n "$own" ] && [ -n "$sanitizer" ]; then
    # Failures of calls are the tests' to tell; libraries ask the driver for what it need not have.
    ! wants memcheck || stage memcheck 90 bash -c 'sanitized "memcheck --report-api-errors no" "$@"' - $own &
    [ -z "$raced" ] || ! wants racecheck || stage racecheck 90 bash -c 'sanitized racecheck "$@"' - $raced &
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
if [ -n "$logs" ]; then
    find "$work" -name '*.log' -printf '%P\0' | tar -C "$work" --null -T - -czf "$logs/logs.tar.gz"
    cp "$work"/bench.json "$work"/bench.md "$logs" 2>/dev/null
fi
rm -rf "$work"
[ ${#skipped[@]} = 0 ] || printf 'SKIPPED: %s\n' "${skipped[@]}"
printf '%d passed, %d failed in %d s\n%d passed, %d failed\n' $passed $failed $SECONDS $passed $failed
[ $failed = 0 ] && [ $passed -gt 0 ]
