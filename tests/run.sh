#!/bin/bash
# Runs the test programs of a build and the tests of the command line, and adds up what they count.
#   tests/run.sh [BUILD_DIR [NAME...]]            runs all tests, or those named:
#       ops                     a folder of tests/, which is one program
#       ops:softmax             a suite of that program; ops:-softmax is all but that suite
#       ops:softmax:3           a case of a suite, by its number or its name
#       oracle                  a script of tests/cli or tests/cluster; hygiene and layering are those in tests/
#   tests/run.sh --list [BUILD_DIR [NAME...]]     prints folders and scripts; suites and the number of their cases (--list build ops);
#                           or cases (--list build ops:softmax)
# $TEST_SUITES picks suites in all programs that have them: their names, or with a - in front those to leave out.
# A name that nothing has is an error (exit status 2).
# A test that runs for twenty minutes has failed.
# One more test runs at a time than there are processors, for some wait ($TEST_JOBS says another number); each has one thread.
# Ends with "N passed, N failed".  A program that ends without such a line counts as one failure, and so does a program that is
# wanted and was not built.  Without NAME every program is wanted, but those of the CUDA plug-in only where that was built.
set -u
list=''
[ "${1:-}" != --list ] || { list=yes; shift; }
root=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "${1:-$root/build}" && pwd) || exit 2
shift
cd "$root" || exit 2
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
export DPEXEC_RUNS=${DPEXEC_RUNS:-none}          # runs without --out write nothing
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
    { time timeout --foreground 1200 "$@" >"$log" 2>&1; } 2>"$log.time"
    status=$?
    counts=$(grep -aoE '[0-9]+ passed, [0-9]+ failed$' "$log" | tail -1)
    [ -n "$counts" ] || counts="0 passed, 1 failed"
    local p=${counts%% *} f=${counts#*, }
    f=${f%% *}
    [ "$status" = 0 ] || [ "$f" != 0 ] || f=1
    echo "$p $f" >"$log.counts"
    {
        awk -v name="$name" -v counts="$p passed, $f failed" -v wall=$((SECONDS - start)) \
            'END { printf "%-16s%s (%d s, of a processor %.1f)\n", name, counts, wall, $1 + $2 }' "$log.time"
        grep -a '^SKIPPED: ' "$log"
        if [ "$f" != 0 ]; then
            grep -anE 'FAILED|ERROR|expected|SUMMARY|^ +[0-9]+\. ' "$log" | head -40
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

# ---- names ----
die() { printf '%s\n' "tests/run.sh: $*" >&2; exit 2; }
mapfile -t folders < <(grep -lE '^DEFINE_SUITE' tests/*/*.c | cut -d/ -f2 | sort -u)
scripts=(tests/layering.sh tests/hygiene.sh tests/cli/*.sh tests/cluster/*.sh)
mapfile -t script_names < <(basename -s .sh "${scripts[@]}" | grep -vx lib)
if [ -n "$list" ]; then
    if [ $# = 0 ]; then
        printf '%s\n' "${folders[@]}" "${script_names[@]}"
    else
        for name in "$@"; do
            program=test_${name%%:*} suite=${name#"${name%%:*}"}
            [ -x "$build/$program" ] || die "there is no program $build/$program"
            "$build/$program" --list ${suite:+"${suite#:}"} | sed "s/^/${name%%:*}:/"
        done
    fi
    exit
fi

# names: what is wanted; picked[NAME]: the suites of it that are, each followed by a line's end.
names=()
declare -A picked=()
for name in "$@"; do
    folder=${name%%:*}
    [[ " ${folders[*]} " == *" $folder "* ]] || [ "$name" = "$folder" ] || die "'$name': tests/ has no folder '$folder' with suites (--list prints them)"
    [[ " ${folders[*]} ${script_names[*]} " == *" $folder "* ]] || die "there is no test '$name' (--list prints them)"
    [[ " ${names[*]} " == *" $folder "* ]] || names+=("$folder")
    [ "$name" = "$folder" ] || picked[$folder]+="${name#*:}"$'\n'
done

# begin_program NAME: with the suites that were asked for by name, or else with those of $TEST_SUITES that it has.
# A program that has none of the suites that $TEST_SUITES asks for is left out.
known=' '
begin_program() {
    local name=$1 suites=() has word suite asked='' found=''
    if [ -n "${picked[$name]:-}" ]; then
        mapfile -t suites < <(printf %s "${picked[$name]}")
        "$build/test_$name" --list "${suites[@]}" >/dev/null || exit 2
    elif [ -n "${TEST_SUITES:-}" ]; then
        has=$("$build/test_$name" --list | cut -d' ' -f1)
        for word in $TEST_SUITES; do
            suite=${word#-}
            [ "$suite" != "$word" ] || asked=yes
            grep -qxF -- "${suite%%:*}" <<<"$has" || continue
            [ "$suite" != "$word" ] || found=yes
            suites+=("$word")
            known+="$word "
        done
        [ "$asked" = "$found" ] || { left_out+=("$name"); return; }
    fi
    begin "$name" "$build/test_$name" "${suites[@]}"
}
left_out=()

# Those that take longest come first, lest one is left over when all others are done.
first=(ops exec mpi halts nvrtc plugin verify passes stops stop_resume api slurm partition oracle simulate onnx gpu replicas shard)
run_all() {
    local name
    for name in "${first[@]}" "${started[@]}"; do
        [ -n "${command[$name]:-}" ] || continue
        [ "$running" -lt "$jobs" ] || { wait -n; running=$((running - 1)); }
        running=$((running + 1))
        eval "run ${command[$name]}" &
        unset "command[$name]"
    done
    wait
}

for name in "${folders[@]}"; do
    [ -x "$build/test_$name" ] && wanted "$name" "${names[@]}" && begin_program "$name"
done
for word in ${TEST_SUITES:-}; do
    [[ "$known" == *" $word "* ]] || [ "${#picked[@]}" != 0 ] || die "no program that is run has a suite '${word#-}' (\$TEST_SUITES)"
done
# Under a locale whose decimal point is a comma, as a program that embeds the library may have set: what parses or prints numbers.
# Not where $TEST_SUITES is given: the sanitizers have checked the same suites without it.
comma() {
    local dir=$1
    shift
    [ -z "${TEST_SUITES:-}${picked[$dir]:-}" ] && wanted "$dir" "${names[@]}" && begin "$dir-comma" env LOCPATH="$build/locale" DPEXEC_TEST_LOCALE=de_DE.UTF-8 "$build/test_$dir" "$@"
}
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
for script in "${scripts[@]}"; do
    name=$(basename "$script" .sh)
    if [ "$name" != lib ] && wanted "$name" "${names[@]}"; then begin "$name" "$script" "$build"; fi
done
run_all
passed=0
failed=0
expected=("${names[@]}")
if [ $# = 0 ]; then
    expected=("${folders[@]}")
    [ -e "$build/libdpexec_cuda.so" ] || mapfile -t expected < <(printf '%s\n' "${expected[@]}" | grep -vxE 'plugin|nvrtc')
fi
for name in "${expected[@]}"; do
    [[ " ${started[*]} ${left_out[*]} " == *" $name "* ]] && continue
    echo "FAILED: $build/test_$name was not built"
    failed=$((failed + 1))
done
for name in "${started[@]}"; do
    read -r p f <"$logs/$name.counts" || { p=0 f=1; }
    passed=$((passed + p))
    failed=$((failed + f))
done
# longest: sorts lines "SECONDS NAME", and prints ten.
longest() { sort -rn | head | awk '{ printf "%9.1f %s\n", $1, $2 }'; }
if [ ${#started[@]} -gt 3 ]; then
    echo "The longest tests, in seconds of a processor; all take $(cat "$logs"/*.time | awk '{ s += $1 + $2 } END { printf "%.0f", s }'):"
    awk '{ name = FILENAME; sub(/.*\//, "", name); sub(/\.time$/, "", name); print $1 + $2, name }' "$logs"/*.time | longest
    echo "The longest suites:"
    grep -E '^suite .* s of a processor$' "$logs"/* | sed -E 's|^.*/([^/:]*):suite (.*): ([0-9.]+) s of.*|\3 \1:\2|' | longest
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
