#!/bin/bash
# Changes one operator or constant of a file at a time, builds, and runs tests until one fails: which changes do the tests not see?
#   tests/mutate.sh [OPTION...] FILE|FOLDER...       C files of the product
#     --sample N      N mutants, drawn at random [all]
#     --seed S        another draw [1]
#     --most SECONDS  leave out scripts that take longer: fewer are killed than all tests would kill
#     --again LOG     of the same draw only those that the output in LOG calls survivors: without --most, or after tests were added
#     --tests NAMES   which tests run, as tests/run.sh names them, in this order [the tests that run the mutant's line]
# Prints a line for each mutant: killed and by which test, SURVIVED, same (the object file did not change), or invalid (does not
# compile).  Ends with the survivors, and the share that was killed of the mutants that compile and differ; exit status 1 below 90 %.
# Each suite of each test program, and each script of tests/cli, runs once in a copy built with --coverage.  A mutant then runs only
# the tests that run its line: first those with the fewest seconds for each mutant that they have killed.  A mutant on a line that no
# test runs survives at once.  A script must fail twice to kill, for it may wait for others on a busy machine.
# Works on a copy of the tree in $MUTATE_WORK [/tmp/dpexec-mutate], and keeps the copy for the next time.  $MUTATE_MAP is another such
# copy, which has run the tests with coverage; several runs can share it.
# $DPX_SIM_DEVICE is the libsim_device.a of another build [compiled]; $DPX_ONNX_TESTS are the official tests of conformance [none].
set -eu
cd "$(dirname "$0")/.."
sample=() tests='' most='' again='' files=()
while [ $# != 0 ]; do
    case $1 in
    --sample | --seed) sample+=("$1" "$2") && shift ;;
    --tests) tests=$2 && shift ;;
    --most) most=$2 && shift ;;
    --again) again=$(realpath "$2") && shift ;;
    -*) echo "tests/mutate.sh: unknown option '$1'" >&2 && exit 2 ;;
    *) mapfile -O ${#files[@]} -t files < <(git ls-files -- "$1" | grep '\.c$') ;;
    esac
    shift
done
[ ${#files[@]} != 0 ] || { echo "tests/mutate.sh: no C file is named" >&2; exit 2; }
work=${MUTATE_WORK:-/tmp/dpexec-mutate}
mkdir -p "$work"
git ls-files -z | cut -zd/ -f1 | sort -zu | (cd "$work" && xargs -0 rm -rf)      # files that the tree has no longer
git ls-files -z | xargs -0 cp --parents --preserve=mode,timestamps --no-dereference --target-directory "$work"
mapfile -t mutants < <(/usr/bin/python3 tests/mutants.py "${sample[@]}" "${files[@]}" |
    awk -F: -v again="$again" '
        BEGIN { while (again && (getline line <again) > 0) if (split(line, part, ": SURVIVED") > 1) survived[part[1]] = 1 }
        !again || $1 ":" $2 ": " $4 " -> " ($5 == "" ? "(nothing)" : $5) in survived')
cd "$work"
command -v ccache >/dev/null && export CMAKE_C_COMPILER_LAUNCHER=ccache
export OMP_NUM_THREADS=1 DPEXEC_RUNS=none DPEXEC_CACHE_DIR=$PWD/build/sim-cache
configure=(cmake -S . -G Ninja -DCMAKE_BUILD_TYPE=Release -DDPX_CUDA=OFF "-DDPX_SIM_DEVICE=${DPX_SIM_DEVICE:-}"
    "-DDPX_ONNX_TESTS=${DPX_ONNX_TESTS:-}")
"${configure[@]}" -B build >/dev/null
ninja -C build >build.log
[ -e build/python ] || tests/interop/install.sh build >build.log
MUTATE_MAP=${MUTATE_MAP:-} map=${MUTATE_MAP:-$PWD}

# object FILE: where a build folder has its object.
object() {
    local object=CMakeFiles/core.dir/$1.o
    [ -e "build/$object" ] || object=CMakeFiles/toolbox.dir/$1.o
    echo "$object"
}

# ---- which suites run a line ----

# measure TEST PROGRAM COMMAND...: runs a test in the copy with coverage, if its program is new; reached/TEST has its .gcda files and
# the seconds that it took.
measure() {
    local dir=reached/$1 program=$2
    shift 2
    [ "$program" -nt "$dir/seconds" ] || return 0
    rm -rf "$dir"
    mkdir -p "$dir"
    TIMEFORMAT='%U %S'
    { time GCOV_PREFIX=$PWD/$dir GCOV_PREFIX_STRIP=$(tr -cd / <<<"$PWD/coverage" | wc -c) \
        timeout 1200 "$@" >"$dir.log" 2>&1 || true; } 2>"$dir.time"
    awk '{ print $1 + $2 }' "$dir.time" >"$dir/seconds"
}

# Children of tests end by _exit, which would lose what they ran.
measure_all() {
    local program test script waiting=0
    "${configure[@]}" -B coverage "-DCMAKE_C_FLAGS=--coverage -fno-early-inlining -D_exit=exit" >/dev/null
    ninja -C coverage >build.log
    ln -sfn ../build/python coverage/python
    for program in coverage/test_*; do
        for test in $("$program" --list | awk 'NF == 2 { print $1 }'); do beside measure "${program#*_}:$test" "$program" "$program" "$test"; done
    done
    for script in tests/cli/*.sh; do
        test=$(basename "$script" .sh)
        [ "$test" = lib ] || beside measure "$test" coverage/dpexec "$script" "$PWD/coverage"
    done
    wait
}

# beside COMMAND...: runs it while the script goes on, one more at a time than there are processors, for some wait.
beside() {
    [ "$waiting" -le "$(env -u OMP_NUM_THREADS nproc)" ] || { wait -n; waiting=$((waiting - 1)); }
    waiting=$((waiting + 1))
    "$@" &
}

# tests_of FILE LINE: the suites that run the line, in order.  A line without code of its own belongs to the one above it.
tests_of() {
    [ -z "$tests" ] || { tr ' ' '\n' <<<"$tests"; return; }
    local notes dir lines=()
    notes=$(object "$1")
    notes=${notes%.o}
    for dir in "$map"/reached/*/; do
        [ -e "$dir$notes.gcda" ] && [ -e "${dir}seconds" ] || continue
        lines+=("$dir$notes.txt")
        [ -e "$dir$notes.txt" ] || {
            ln -sf "$map/coverage/$notes.gcno" "$dir$notes.gcno"
            (cd "$map" && gcov --stdout "$dir$notes.gcda") 2>gcov.log | awk -F: -v file="$1" '
                $3 == "Source" { own = substr($4, length($4) - length(file) + 1) == file }
                own && $2 + 0 && $1 !~ /-$/ { print $2 + 0, $1 !~ /[#=%]/ }' >lines
            grep -qs . lines || { echo "tests/mutate.sh: gcov finds no line of $1: $(head -1 gcov.log)" >&2; exit 2; }
            mv lines "$dir$notes.txt"
        }
    done
    [ ${#lines[@]} = 0 ] || awk -v line="$2" -v most="$most" '
        FILENAME == "killers" { killed[$1]++; next }
        FNR == 1 { test = FILENAME; sub(/.*\/reached\//, "", test); sub(/\/.*/, "", test); above = 0 }
        FILENAME ~ /seconds$/ { seconds[test] = $1; next }
        $1 <= line && $1 > above { above = $1; runs[test] = 0 }
        $1 == above { runs[test] += $2 }
        END { for (t in runs) if (runs[t] && !(most && t !~ /:/ && seconds[t] > most + 0)) print seconds[t] / (1 + killed[t]), t }
        ' killers "$map"/reached/*/seconds "${lines[@]}" | sort -n | cut -d' ' -f2
}

# passes TEST: builds what the test needs, and runs it; one that computes ten times as long as it should has failed.
passes() {
    local program=test_${1%%:*} command=(tests/run.sh build "$1") seconds=90
    if [ -e "build/$program" ]; then
        [[ $linked == *" $program "* ]] || ninja -C build "$program" >>build.log || exit 2
        linked+="$program "
        command=("build/$program")
        [[ $1 != *:* ]] || command=("build/$program" "${1#*:}")
    else
        [[ $linked == *" tools "* ]] || ninja -C build dpexec graph-transform libdpexec >>build.log || exit 2
        linked+='tools '
    fi
    [ ! -e "$map/reached/$1/seconds" ] || read -r seconds <"$map/reached/$1/seconds"
    seconds=${seconds%.*}
    (ulimit -t $((10 * seconds + 10)) && exec timeout $((40 * seconds + 60)) "${command[@]}") >test.log 2>&1
}

# killer: the first test of the list that fails.
killer() {
    local name
    while read -r name; do
        passes "$name" </dev/null && continue
        [[ $name == *:* ]] || ! passes "$name" </dev/null || continue
        echo "$name" | tee -a killers
        return
    done <list
}

# trust NAME: a test that is said to kill must pass without a mutant; asked once.
declare -A trusted=()
trust() {
    [ -z "${trusted[$1]:-}" ] || return 0
    cp original.c "$file"
    linked=' '
    passes "$1" || { tail -30 test.log; echo "tests/mutate.sh: $1 fails without a mutant" >&2; exit 2; }
    trusted[$1]=yes
}

[ -n "$tests$MUTATE_MAP" ] || measure_all
: >killers
killed=0 survivors=()
for mutant in "${mutants[@]}"; do
    IFS=: read -r file line column old new <<<"$mutant"
    cp "$file" original.c
    trap 'cp original.c "$file"' EXIT
    object=$(object "$file")
    cp "build/$object" original.o
    awk -v line="$line" -v column="$column" -v old="$old" -v new="$new" \
        'NR == line { $0 = substr($0, 1, column) new substr($0, column + length(old) + 1) } { print }' original.c >"$file"
    if ! ninja -C build "$object" >build.log 2>&1; then
        verdict=invalid
    elif cmp -s "build/$object" original.o; then
        verdict=same
    else
        tests_of "$file" "$line" >list
        linked=' '      # programs that have the mutant
        by=$(killer)
        if [ -n "$by" ]; then
            trust "$by"
            verdict="killed by $by" killed=$((killed + 1))
        else
            verdict="SURVIVED $(wc -l <list) tests"
            [ -s list ] || verdict='SURVIVED: no test runs this line'
            survivors+=("$mutant")
        fi
    fi
    echo "$file:$line: $old -> ${new:-(nothing)}: $verdict"
    cp original.c "$file"
    ninja -C build "$object" >build.log
done
tried=$((killed + ${#survivors[@]}))
echo "Survivors:"
for mutant in "${survivors[@]}"; do
    IFS=: read -r file line column old new <<<"$mutant"
    echo "$file:$line: $old -> ${new:-(nothing)} in$(sed -n "${line}p" "$file" | sed 's/^ */ /')"
done
echo "$killed of $tried mutants killed"
[ $((10 * killed)) -ge $((9 * tried)) ]
