#!/bin/bash
# Runs the test programs of a build and the tests of the command line, and adds up what they count.
#   tests/run.sh [BUILD_DIR [NAME...]]      NAME: a folder of tests/ (ops, graph ...) or a script (oracle, bad_data, hygiene ...)
# $TEST_SUITES is given to the test programs: names of suites, or with a - in front those to leave out.
# One more runs at a time than there are processors, for some wait ($TEST_JOBS says another number); each has one thread.
# Ends with "N passed, N failed"; a program that ends without such a line counts as one failure, and so does a
# program that is wanted and was not built; without NAME all are but that of the CUDA plug-in, which is built where that is.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "${1:-$root/build}" && pwd) || exit 2
shift
cd "$root" || exit 2
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
export DPEXEC_CACHE_DIR=${DPEXEC_CACHE_DIR:-${DPEXEC_SIM_CACHE:-$build/sim-cache}}      # not in the home of who runs them
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
jobs=${TEST_JOBS:-$(($(env -u OMP_NUM_THREADS nproc) + 1))}     # nproc heeds that variable
running=0

wanted() {
    local name=$1
    shift
    [ $# = 0 ] && return
    for w in "$@"; do [ "$w" = "$name" ] && return; done
    false
}

# run NAME COMMAND...: says what the command counted, and keeps "passed failed" in a file.
run() {
    local name=$1 log=$logs/$1 counts status start=$SECONDS
    shift
    TIMEFORMAT='%U %S'
    { time "$@" >"$log" 2>&1; } 2>"$log.time"
    status=$?
    counts=$(grep -oE '[0-9]+ passed, [0-9]+ failed$' "$log" | tail -1)
    [ -n "$counts" ] || counts="0 passed, 1 failed"
    local p=${counts%% *} f=${counts#*, }
    f=${f%% *}
    [ "$status" = 0 ] || [ "$f" != 0 ] || f=1
    echo "$p $f" >"$log.counts"
    {
        awk -v name="$name" -v counts="$p passed, $f failed" -v wall=$((SECONDS - start)) \
            'END { printf "%-16s%s (%d s, of a processor %.1f)\n", name, counts, wall, $1 + $2 }' "$log.time"
        grep '^SKIPPED: ' "$log"
        if [ "$f" != 0 ]; then
            grep -nE 'FAILED|ERROR|expected|SUMMARY|^ +[0-9]+\. ' "$log" | head -40
            echo "exit status $status; the last lines:"
            tail -15 "$log"
        fi
    } >"$log.said"
    cat "$log.said"         # in one piece
}

# begin NAME COMMAND...: notes what is to be run.
started=()
declare -A command
begin() {
    started+=("$1")
    command[$1]=$(printf '%q ' "$@")
}

# Those that take longest come first, lest one is left over when all others are done.
longest=(ops exec mpi halts nvrtc plugin passes verify partition api slurm oracle onnx stop_resume replicas stops shard simulate gpu)
run_all() {
    local name
    for name in "${longest[@]}" "${started[@]}"; do
        [ -n "${command[$name]:-}" ] || continue
        [ "$running" -lt "$jobs" ] || { wait -n; running=$((running - 1)); }
        running=$((running + 1))
        eval "run ${command[$name]}" &
        unset "command[$name]"
    done
    wait
}

for program in "$build"/test_*; do
    name=${program##*/test_}
    # shellcheck disable=SC2086     # several words
    if [ -x "$program" ] && wanted "$name" "$@"; then begin "$name" "$program" ${TEST_SUITES:-}; fi
done
# Under a locale whose decimal point is a comma, as a program that embeds the library may have set: what parses or prints numbers.
# Not where $TEST_SUITES is given: the sanitizers have checked the same suites without it.
comma() {
    local dir=$1
    shift
    [ -z "${TEST_SUITES:-}" ] && wanted "$dir" "${names[@]}" && begin "$dir-comma" env LOCPATH="$build/locale" DPEXEC_TEST_LOCALE=de_DE.UTF-8 "$build/test_$dir" "$@"
}
names=("$@")
if [ "${#names[@]}" = 0 ] || [[ " ${names[*]} " =~ \ (graph|onnx|passes|tools|exec|api)\  ]]; then
    mkdir -p "$build/locale"
    localedef -i de_DE -f UTF-8 "$build/locale/de_DE.UTF-8" || echo "FAILED: localedef cannot make a locale (Debian: locales)"
    comma graph
    comma onnx -hostile_attributes -flow      # neither has numbers as text
    comma passes golden criterion
    comma tools
    comma exec checkpoint trace
    comma api trainer model
fi
for script in tests/layering.sh tests/hygiene.sh tests/cli/*.sh tests/cluster/*.sh; do
    name=$(basename "$script" .sh)
    if [ "$name" != lib ] && wanted "$name" "$@"; then begin "$name" "$script" "$build"; fi
done
run_all
passed=0
failed=0
expected=("$@")
if [ $# = 0 ]; then
    mapfile -t expected < <(grep -lE '^DEFINE_SUITE' tests/*/*.c | cut -d/ -f2 | sort -u)
    [ -e "$build/libdpexec_cuda.so" ] || mapfile -t expected < <(printf '%s\n' "${expected[@]}" | grep -vxE 'plugin|nvrtc')
fi
for name in "${expected[@]}"; do
    [[ " ${started[*]} " == *" $name "* ]] && continue
    echo "FAILED: there is no $build/test_$name, nor a script of that name"
    failed=$((failed + 1))
done
for name in "${started[@]}"; do
    read -r p f <"$logs/$name.counts" || { p=0 f=1; }
    passed=$((passed + p))
    failed=$((failed + f))
done
if [ ${#started[@]} -gt 10 ]; then
    echo "The longest, in seconds of a processor; all take $(cat "$logs"/*.time | awk '{ s += $1 + $2 } END { printf "%.0f", s }'):"
    awk '{ name = FILENAME; sub(/.*\//, "", name); sub(/\.time$/, "", name); printf "%9.1f %s\n", $1 + $2, name }' "$logs"/*.time | sort -rn | head
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
