#!/bin/bash
# Changes one operator or constant of a file at a time, builds, and runs tests until one fails: which changes do the tests not see?
#   tests/mutate.sh [OPTION...] FILE|FOLDER...       C files of the product
#     --sample N      N mutants, drawn at random [all]
#     --seed S        another draw [1]
#     --quick         leave out suites of more than 40 seconds: fewer are killed than all tests would kill
#     --tests NAMES   which tests run, as tests/run.sh names them, in this order [the suites that run the mutant's line]
# Prints a line for each mutant: killed and by which test, SURVIVED, same (the object file did not change), or invalid (does not
# compile).  Ends with the survivors, and the share that was killed of the mutants that compile and differ; exit status 1 below 90 %.
# Each suite of each test program runs once in a copy built with --coverage.  A mutant then runs only the suites that run its line:
# first those with the fewest seconds for each mutant that they have killed.  A mutant on a line that no suite runs survives at once.
# Scripts run only if --tests names them.
# Works on a copy of the tree in $MUTATE_WORK [/tmp/dpexec-mutate], and keeps the copy for the next time.  $DPX_SIM_DEVICE is the
# libsim_device.a of another build [compiled].
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
export OMP_NUM_THREADS=1 DPEXEC_RUNS=none DPEXEC_CACHE_DIR=$PWD/build/sim-cache
configure=(cmake -S . -G Ninja -DCMAKE_BUILD_TYPE=Release -DDPX_CUDA=OFF "-DDPX_SIM_DEVICE=${DPX_SIM_DEVICE:-}")
"${configure[@]}" -B build >/dev/null
ninja -C build >build.log

# object FILE: where a build folder has its object.
object() {
    local object=CMakeFiles/core.dir/$1.o
    [ -e "build/$object" ] || object=CMakeFiles/toolbox.dir/$1.o
    echo "$object"
}

# ---- which suites run a line ----

# measure TEST: runs a suite in the copy with coverage; reached/TEST has its .gcda files and the seconds that it took.
measure() {
    local dir=reached/$1
    [ "coverage/test_${1%%:*}" -nt "$dir/seconds" ] || return 0
    rm -rf "$dir"
    mkdir -p "$dir"
    TIMEFORMAT='%U %S'
    { time GCOV_PREFIX=$PWD/$dir GCOV_PREFIX_STRIP=$(tr -cd / <<<"$PWD/coverage" | wc -c) \
        "coverage/test_${1%%:*}" "${1#*:}" >"$dir.log" 2>&1 || true; } 2>"$dir.time"
    awk '{ print $1 + $2 }' "$dir.time" >"$dir/seconds"
}

# Children of tests end by _exit, which would lose what they ran.
measure_all() {
    local program test
    "${configure[@]}" -B coverage "-DCMAKE_C_FLAGS=--coverage -fno-early-inlining" -DCMAKE_EXE_LINKER_FLAGS=-Wl,--defsym=_exit=exit >/dev/null
    ninja -C coverage >build.log
    for program in coverage/test_*; do
        for test in $("$program" --list | cut -d' ' -f1); do measure "${program#*_}:$test"; done
    done
}

# tests_of FILE LINE: the suites that run the line, in order.  A line without code of its own belongs to the one above it.
tests_of() {
    [ -z "$tests" ] || { tr ' ' '\n' <<<"$tests"; return; }
    local notes dir lines=()
    notes=$(object "$1")
    notes=${notes%.o}
    for dir in reached/*/; do
        [ -e "$dir$notes.gcda" ] || continue
        lines+=("$dir$notes.txt")
        [ -e "$dir$notes.txt" ] || {
            ln -sf "$PWD/coverage/$notes.gcno" "$dir$notes.gcno"
            (cd coverage && gcov --stdout "../$dir$notes.gcda") 2>gcov.log | awk -F: -v file="$1" '
                $3 == "Source" { own = substr($4, length($4) - length(file) + 1) == file }
                own && $2 + 0 && $1 !~ /-$/ { print $2 + 0, $1 !~ /[#=%]/ }' >"$dir$notes.txt"
        }
    done
    [ ${#lines[@]} = 0 ] || awk -v line="$2" -v quick="$quick" '
        FILENAME == "killers" { killed[$1]++; next }
        FNR == 1 { split(FILENAME, part, "/"); test = part[2]; above = 0 }
        FILENAME ~ /seconds$/ { seconds[test] = $1; next }
        $1 <= line && $1 > above { above = $1; runs[test] = 0 }
        $1 == above { runs[test] += $2 }
        END { for (t in runs) if (runs[t] && !(quick && seconds[t] > 40)) print seconds[t] / (1 + killed[t]), t }
        ' killers reached/*/seconds "${lines[@]}" | sort -n | cut -d' ' -f2
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
        ninja -C build dpexec graph-transform >>build.log
    fi
    [ ! -e "reached/$1/seconds" ] || read -r seconds <"reached/$1/seconds"
    seconds=${seconds%.*}
    (ulimit -t $((10 * seconds + 10)) && exec timeout $((40 * seconds + 60)) "${command[@]}") >test.log 2>&1
}

# killer: the first test of the list that fails.
killer() {
    local name
    while read -r name; do
        passes "$name" </dev/null || { echo "$name" | tee -a killers; return; }
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

[ -n "$tests" ] || measure_all
: >killers
killed=0 survivors=()
for mutant in "${mutants[@]}"; do
    IFS=: read -r file line column old new <<<"$mutant"
    cp "$file" original.c
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
            verdict="SURVIVED $(wc -l <list) suites"
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
