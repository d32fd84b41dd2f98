#!/bin/bash
# Changes one operator or constant of a file at a time, builds, and runs tests until one fails: which changes do the tests not see?
#   tests/mutate.sh [OPTION...] FILE|FOLDER...       C files of the product
#     --sample N      N mutants, drawn at random [all]
#     --seed S        another draw [1]
#     --quick         leave out suites of more than 8 seconds and the scripts: fewer are killed than all tests would kill
#     --tests NAMES   which tests run, as tests/run.sh names them, in this order [by the file's folder: see tests_of]
# Prints a line for each mutant: killed and by which test, SURVIVED, same (the object file did not change), or invalid (does not
# compile).  Ends with the survivors, and the share that was killed of the mutants that compile and differ; exit status 1 below 90 %.
# The suite that is called like the file runs first, then those of the folder's programs, the quickest first, then its scripts.
# Works on a copy of the tree in $MUTATE_WORK [/tmp/dpexec-mutate], and keeps the copy for the next time.
set -eu
cd "$(dirname "$0")/.."
sample=() tests='' quick='' files=()
while [ $# != 0 ]; do
    case $1 in
    --sample | --seed) sample+=("$1" "$2") && shift ;;
    --tests) tests=$2 && shift ;;
    --quick) quick=yes ;;
    -*) echo "tests/mutate.sh: unknown option '$1'" >&2 && exit 2 ;;
    *) mapfile -O ${#files[@]} -t files < <(git ls-files -- "$1" | grep '\.c$') ;;
    esac
    shift
done
[ ${#files[@]} != 0 ] || { echo "tests/mutate.sh: no C file is named" >&2; exit 2; }
work=${MUTATE_WORK:-/tmp/dpexec-mutate}
mkdir -p "$work"
git ls-files -z | xargs -0 cp --parents --preserve=mode,timestamps --no-dereference --target-directory "$work"
mapfile -t mutants < <(/usr/bin/python3 tests/mutants.py "${sample[@]}" "${files[@]}")
cd "$work"
command -v ccache >/dev/null && export CMAKE_C_COMPILER_LAUNCHER=ccache
export OMP_NUM_THREADS=1 DPEXEC_CACHE_DIR=$PWD/build/sim-cache
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DDPX_CUDA=OFF >/dev/null
ninja -C build >build.log

# folder_tests FILE: programs and scripts.
folder_tests() {
    case $1 in
    graph/ops/*) echo plans ops onnx passes ;;
    kernels/*) echo ops onnx passes ;;
    graph/onnx/*) echo onnx parameters evidence obeyed ;;
    graph/*) echo graph onnx passes ops ;;
    passes/*) echo plans passes partition groups compat parameters obeyed ;;
    exec/*) echo plans exec api tools usage ;;
    tools/*) echo tools usage data bad_data outputs man ;;
    esac
}

# suites PROGRAM: its suites, the quickest first.  They are timed once; a program prints the time of those that take a second.
suites() {
    [ -s "suites.$1" ] || {
        build/test_"$1" | sed -nE 's/^suite (.*): ([0-9.]+) s of a processor$/\1 \2/p' >times
        build/test_"$1" --list | awk 'FILENAME == "times" { time[$1] = $2; next } { print time[$1] + 0, $1 }' times - | sort -n >"suites.$1"
    }
    cut -d' ' -f2 "suites.$1"
}

# tests_of FILE: all that run for its mutants, in order.
tests_of() {
    [ -z "$tests" ] || { tr ' ' '\n' <<<"$tests"; return; }
    local own name
    own=$(basename "$1" .c)
    for name in $(folder_tests "$1"); do
        [ ! -e "build/test_$name" ] || suites "$name" | grep -x "${own#*_}\|$own" | sed "s/^/$name:/"
    done
    for name in $(folder_tests "$1"); do
        if [ ! -e "build/test_$name" ]; then
            [ -n "$quick" ] || echo "$name"
        else
            suites "$name" >/dev/null
            awk -v quick="$quick" -v name="$name" '!quick || $1 < 8 { print name ":" $2 }' "suites.$name"
        fi
    done
}

# passes NAME: builds what the test needs, and runs it; one that computes for five minutes or waits for fifteen has failed.
passes() {
    local program=test_${1%%:*} command=(tests/run.sh build "$1")
    if [ -e "build/$program" ]; then
        ninja -C build "$program" >>build.log && command=("build/$program")
        [[ $1 != *:* ]] || command=("build/$program" "${1#*:}")
    else
        ninja -C build dpexec graph-transform >>build.log
    fi
    (ulimit -t 300 && exec timeout 900 "${command[@]}") >test.log 2>&1
}

# killer FILE: the first of its tests that fails.
killer() {
    local name
    while read -r name; do
        passes "$name" </dev/null || { echo "$name"; return; }
    done < <(tests_of "$1")
}

# trust NAME: a test that is said to kill must pass without a mutant; asked once.
declare -A trusted=()
trust() {
    [ -z "${trusted[$1]:-}" ] || return 0
    cp original.c "$file"
    passes "$1" || { tail -30 test.log; echo "tests/mutate.sh: $1 fails without a mutant" >&2; exit 2; }
    trusted[$1]=yes
}

killed=0 survivors=()
for mutant in "${mutants[@]}"; do
    IFS=: read -r file line column old new <<<"$mutant"
    cp "$file" original.c
    object=CMakeFiles/core.dir/$file.o
    [ -e "build/$object" ] || object=CMakeFiles/toolbox.dir/$file.o
    cp "build/$object" original.o
    awk -v line="$line" -v column="$column" -v old="$old" -v new="$new" \
        'NR == line { $0 = substr($0, 1, column) new substr($0, column + length(old) + 1) } { print }' original.c >"$file"
    if ! ninja -C build "$object" >build.log 2>&1; then
        verdict=invalid
    elif cmp -s "build/$object" original.o; then
        verdict=same
    else
        by=$(killer "$file")
        if [ -n "$by" ]; then
            trust "$by"
            verdict="killed by $by" killed=$((killed + 1))
        else
            verdict=SURVIVED
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
