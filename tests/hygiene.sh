#!/bin/sh
# What review would catch, checked by a machine: hygiene.sh [BUILD_DIR]
#   - library folders neither print nor end the process, and have no assert(0) (graph, passes, exec, kernels);
#   - no file of the sources is longer than 800 lines, no function of C or CUDA than 60, no TODO stands in them;
#   - C and CUDA are laid out by .clang-format, and no line of theirs is longer than 120 characters;
#   - at most one operand of an expression adds to a graph (tests/emission_order.py);
#   - no macro of the kernels of host memory is longer than 8 lines: what is longer is a template or a function;
#   - every file of the library and the tools begins with what it does;
#   - files that comments and pages name are there, links of pages lead somewhere, long pages have a table of contents (tests/links.py);
#   - nothing is in the root of the repository but what is named here;
#   - the version of include/dpexec.h is that of CHANGELOG.md and debian/changelog;
#   - what the table of behaviours in docs/reference/semantics.md names is there: files, checks of tests, options, functions;
#   - include/dpexec.h compiles alone, as C11 and, where there is a compiler for it, as C++;
#   - every public function has a comment, and its part of the header the rules of errors and threads (docs/c_reference.py);
#   - the binary interface is the one that tests/abi.txt and cmake/libdpexec.map store (tests/abi.py);
#   - subjects of commits are `scope: imperative`, at most 70 characters long (tests/subjects.sh);
#   - with BUILD_DIR: the library has no variable that can be written but the thread's own and the allocator.
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C.UTF-8       # lines are measured in characters, also on a machine without a locale
build=$1
passed=0
failed=0

# check WHAT OFFENDERS: fails when there are any.
check() {
    if [ -n "$2" ]; then
        printf '%s\n    FAILED: %s\n' "$2" "$1"
        failed=$((failed + 1))
    else
        passed=$((passed + 1))
    fi
}

library=$(find graph passes exec kernels -name '*.[ch]' -o -name '*.inc' | sort)
tools=$(find tools -name '*.[ch]' | sort)
tests=$(find tests -name '*.c' -o -name '*.cpp' | sort)
device=$(find kernels -name '*.cu' -o -name '*.cuh' | sort)
sources=$(find graph passes exec kernels tools include tests models bench cmake -type f \
    \( -name '*.[ch]' -o -name '*.inc' -o -name '*.cu' -o -name '*.cuh' -o -name '*.py' -o -name '*.sh' -o -name '*.cmake' \) 2>/dev/null | sort)

check 'a library does not talk over its host' \
    "$(grep -nE '(^|[^a-zA-Z0-9_])(printf|puts|putchar|perror)\(|fprintf\(std(err|out)' $library)"
check 'a library does not end its host' "$(grep -nE '(^|[^a-zA-Z0-9_])(_?exit|_Exit|abort|quick_exit)\(' $library)"
check 'what cannot happen is an error or an assertion of a condition' "$(grep -nE 'assert\((0|false|!"|NULL)' $library)"
# A tool links the library's archive: a second definition silently takes the place of the first.
check 'a function that is not static is defined in one file (plug-ins stand alone)' \
    "$(echo "$library" $tools | tr ' ' '\n' | grep '\.c$' | grep -v /plugin/ | xargs awk '
    FNR == 1 || /^$/ || /;$/ || /^}/ { head = "" }
    /^[A-Za-z_].*\(/ && head == "" { head = $0 }
    (/^\{$/ || /\) \{ .*\}$/) && head != "" {
        if (head !~ /^static/ && match(head, /[A-Za-z_0-9]+\(/))
            print substr(head, RSTART, RLENGTH - 1), FILENAME
        head = ""
    }' | sort -u | awk '{ files[$1] = files[$1] " " $2 } ++n[$1] == 2 { twice[$1] }
    END { for (name in twice) if (name != "main") print name ":" files[name] }')"
check 'a file of more than 800 lines has a seam' "$(wc -l $sources | awk '$1 > 800 && $2 != "total"')"
# As .clang-format lays them out: a function's braces stand alone in column 0.
check 'a function of more than 60 lines has a seam' "$(echo "$library" "$device" $tools "$tests" | tr ' ' '\n' | xargs awk '
    FNR == 1 { start = 0 }
    /^[a-zA-Z_].*\(/ { name = $0 }
    /^\{$/ { start = FNR }
    /^\}/ { if (start && FNR - start - 1 > 60) print FILENAME ":" start ": " FNR - start - 1 " lines: " name; start = 0 }')"
# A row of a table and the head of a loop are shorter; a body is a template (kernels/each_type.inc) or a function, which
# a debugger steps through and a compiler names the lines of.
check 'a macro of more than 8 lines is a template' "$(awk '
    FNR == 1 { start = 0 }
    /^#define/ { start = FNR; name = $2 }
    start && !/\\$/ { if (FNR - start + 1 > 8) print FILENAME ":" start ": " FNR - start + 1 " lines: " name; start = 0 }' \
    $(find kernels -maxdepth 1 -name '*.h') $(find kernels/ref kernels/cpu -name '*.[ch]' -o -name '*.inc'))"
check 'at most one operand of an expression adds to a graph: C does not say which of two runs first' \
    "$(python3 tests/emission_order.py 2>&1)"
check 'open ends belong to an issue' "$(grep -nwE 'TODO|FIXME|XXX' $sources | grep -v '^tests/hygiene.sh:')"
check 'a local list of problems frees itself: PROBLEMS(name)' "$(grep -nE '^ +Problems [a-z_]+ =' $library $tools)"
check 'what PROBLEMS(name) frees is not freed by hand' "$(awk '
    FNR == 1 || /^}/ { split("", own) }
    match($0, /PROBLEMS\([a-z_]+\);/) { own[substr($0, RSTART + 9, RLENGTH - 11)] }
    match($0, /free\([a-z_]+\.text\)/) && substr($0, RSTART + 5, RLENGTH - 11) in own { print FILENAME ":" FNR ":" $0 }' \
    $library $tools)"
check 'a file begins with what it does' "$(for f in $library $tools; do head -c 2 "$f" | grep -q '/\*' || echo "$f"; done)"
check 'two headers share a guard' "$(grep -rhoE '^#ifndef [A-Z0-9_]+_H$' --include='*.h' graph passes exec kernels tools include tests | sort | uniq -d)"
check 'a line has at most 120 characters' \
    "$(grep -nE '^.{121,}' $library $device $tools include/*.h $tests $(find tests -name '*.h' ! -name torch_values.h) | cut -c 1-100)"
if command -v clang-format-14 >/dev/null || clang-format --version 2>/dev/null | grep -q 'version 14\.'; then
    check 'sources are laid out by .clang-format (tools/format.sh)' "$(tools/format.sh --check 2>&1 | grep 'error:' | cut -c 1-120)"
fi
# Five readers and several writers of text for machines obeyed the locale of the embedding program.
readers=$(echo "$library" $tools | tr ' ' '\n' | grep -v '^graph/base/numtext.c$')
check 'numbers are read without the locale' \
    "$(grep -nE '\<(strto(d|f|ld)|ato(f|l|ll|i))\(|scanf\([^;]*%[0-9]*l?[efgaEFGA]' $readers)"
# What people read may be: errors and warnings, what a tool prints, and all that these files write: tables, labels, ranges of options.
people='exec/api/trainer|exec/device/device_differences|exec/inspect/(check|cluster|picture|profile_(limit|print)|simulate_print|verify)|exec/plan/memory_report'
people="$people|graph/recipes/setting|passes/report_print"
cached='kernels/cuda/plugin/cudnn_attention'      # a key of the process, which is compared with itself
check 'text that machines read is written without the locale' "$(echo $library $tools | tr ' ' '\n' |
    grep -vxE "($people|$cached|graph/base/numtext)\.c" | xargs awk -v sign="[-+ 0#']*" 'BEGIN { RS = "[;{}]" }
    $0 ~ "\"([^\"\\\\]|\\\\.)*%" sign "([0-9]+|[*])?([.]([0-9]+|[*]))?l?[efgaEFGA]([^a-zA-Z]|$)" &&
    !/(FAIL|problems_add|problems_fail|report_note|status_prefix|text_format|progress_(line|log|result)|fprintf\(stderr,|[^a-z_]printf\()/ {
        gsub(/[[:space:]]+/, " "); print FILENAME ":" $0 }')"
check 'letters are letters in every locale' "$(grep -nE '\<(is(alnum|alpha|space|upper|lower|print|punct)|to(lower|upper)|strn?casecmp)\(' $readers)"
# What a tensor takes depends on its layout; rows of a tensor by shape_count() and one element's address are not meant.
check 'bytes of memory are counted by graph/tensor/layout.c' \
    "$(grep -nE '[a-z_]*numel(\([^;]*\))? \* (\([a-z0-9_]+\))?(dtype_size|size\>)|dtype_size\([^;*]*\) \* (\([a-z0-9_]+\))?[a-z_]*numel' \
        $(echo "$library" | grep -v '^graph/tensor/layout.c$'))"
# What a build or a run leaves there is not for others.
root='\.(ci|clang-format|gitignore|git-blame-ignore-revs)|CMakeLists\.txt|(CHANGELOG|CONTRIBUTING|README|SECURITY)\.md|LICENSE|pyproject\.toml'
root="$root|bench|cmake|debian|docs|exec|graph|include|kernels|models|passes|python|tests|tools"
check 'the root of the repository holds what is named in tests/hygiene.sh' \
    "$(git ls-files 2>/dev/null | cut -d/ -f1 | sort -u | grep -vxE "$root")"
check 'a commit has a subject `scope: imperative` of at most 70 characters' "$(tests/subjects.sh)"
version=$(awk '/^#define DPX_VERSION_(MAJOR|MINOR|PATCH) / { printf "%s%s", dot, $3; dot = "." }' include/dpexec.h)
check "CHANGELOG.md and debian/changelog begin with the version of include/dpexec.h, $version" \
    "$(grep -m1 '^## ' CHANGELOG.md | grep -vE "^## $version \([0-9]{4}-[0-9]{2}-[0-9]{2}\)$"; head -1 debian/changelog | grep -v "^dpexec ($version)")"
# Words in capitals stand for any: graph/ops/FAMILY.c.
# Prints, each followed by a NUL, the files whose comments and text are read; there may be no git.
named() { find . -path ./.git -prune -o -path './build*' -prune -o -path ./dist -prune -o -path ./runs -prune -o -type f \( -name '*.[ch]' \
    -o -name '*.inc' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' -o -name '*.sh' -o -name '*.py' -o -name '*.md' -o -name '*.cmake' \
    -o -name CMakeLists.txt \) -print0; }
check 'comments and pages name files that are there' "$(named | xargs -0 grep -ohE \
    '(^|[^a-zA-Z0-9_/.$*-])(graph|passes|exec|kernels|tools|tests|models|cmake|docs|bench|include)/[a-z0-9_/-]+\.(c|h|cpp|cu|cuh|inc|py|sh|md|txt|cmake)\>' \
    | sed -E 's/^[^a-z]//' | sort -u |
    while read -r f; do [ -f "$f" ] || echo "$f, in $(named | xargs -0 grep -lF "$f" | tr '\n' ' ')"; done)"
check 'links lead to pages and headings, and long pages have a table of contents' "$(python3 tests/links.py 2>&1)"
check 'lines end where they end' "$(grep -nE '[[:space:]]+$' $library $device)"

# A row names `FILES` with *checks* of theirs, `--options` and `dpx_functions`.
behaviours=$(sed -n '/^| behaviour | of |/,/^$/p' docs/reference/semantics.md)
# Rows of option tables: { "name", what its value is called or NULL.
options=$(cat exec/train/options.c graph/recipes/*.[ch] $tools | tr '\n\\' '  ' |
    grep -oE '"[a-z-]+", *(NULL|"[^"a-z][^"]*"|"true\|false"|\.metavar)' | sed -E 's/^"([a-z-]+)".*/\1/' | sort -u)
check 'the table of behaviours is there' "$([ "$(echo "$behaviours" | grep -c '^| ')" -gt 90 ] || echo 'docs/reference/semantics.md: no rows found')"
check 'the table of behaviours names files that are not there' \
    "$(echo "$behaviours" | grep -oE '`tests/[^`]*`' | tr -d '`' | sort -u | while read -r f; do [ -f "$f" ] || echo "$f"; done)"
check 'the table of behaviours names checks that its files do not have' "$(echo "$behaviours" | awk -F '`' '{
    for (i = 2; i <= NF; i += 2) {
        if ($i ~ /^tests\//) file = $i
        n = split($(i + 1), part, "*")
        for (k = 2; $i ~ /^tests\// && k <= n; k += 2) print file ":" part[k]
    } }' | while IFS=: read -r f name; do grep -qF -- "$name" "$f" || echo "$f: no check '$name'"; done)"
check 'docs/guide/comparison.md names tests that are not there' "$(grep -oE '^\| [^|]*\|[^|]*\|' docs/guide/comparison.md | cut -d'|' -f3 |
    grep -oE '`[a-z_]+`' | tr -d '`' | sort -u | while read -r t; do [ -e "tests/cli/$t.sh" ] || echo "$t"; done)"
check 'the table of behaviours names options that there are not' \
    "$(echo "$behaviours" | grep -oE '`--[a-z-]+' | sed 's/`--//' | sort -u | while read -r o; do echo "$options" | grep -qx -- "$o" || echo "--$o"; done)"
check 'the table of behaviours names functions that include/dpexec.h does not declare' \
    "$(echo "$behaviours" | grep -oE '`dpx_[a-z_]+' | tr -d '`' | sort -u | while read -r f; do grep -qw -- "$f" include/*.h || echo "$f"; done)"

if [ -f include/dpexec.h ]; then
    header='-fsyntax-only -Wall -Wextra -pedantic -Werror'
    check 'dpexec.h compiles alone' "$(echo '#include "include/dpexec.h"' | ${CC:-cc} -std=c11 $header -I. -x c - 2>&1)"
    if command -v "${CXX:-c++}" >/dev/null; then
        check 'dpexec.h compiles alone as C++' "$(echo '#include "include/dpexec.h"' | ${CXX:-c++} -std=c++11 $header -I. -x c++ - 2>&1)"
    fi
fi

check 'functions of dpexec.h say what they do, their errors and their threads' "$(python3 docs/c_reference.py --check 2>&1)"
check 'the binary interface is the one that is stored' "$(python3 tests/abi.py 2>&1)"
if [ -n "$build" ] && [ -f "$build/libdpexec.so" ]; then
    check 'the library exports the symbols of cmake/libdpexec.map' "$(python3 tests/abi.py "$build" 2>&1)"
fi

# Constants with addresses in them are in .data.rel.ro, thread-local variables in .tbss and .tdata.
if [ -n "$build" ] && [ -f "$build/libcore.a" ] && ! grep -q '^DPX_SANITIZE:STRING=.' "$build/CMakeCache.txt"; then
    check 'two sessions share no variable' "$(objdump -t "$build/libcore.a" | grep -E ' O \.(data|bss)(\.[a-z_0-9]+)?[[:space:]]' |
        grep -v '\.data\.rel\.ro\| host_allocator$')"
fi

printf '\nhygiene: %d passed, %d failed\n' $passed $failed
[ $failed = 0 ]
