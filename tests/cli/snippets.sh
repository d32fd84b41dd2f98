#!/bin/bash
# The pieces of C in docs/ compile: each block between ```c and ``` is a whole file of the folder that it is shown for.  So does the
# example at the top of dpexec.h, in a function that returns a status.  And the files of the tree that the pages name are there.
. "$(dirname "$0")/lib.sh"
cc=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
found=0
mapfile -t pages < <(find docs -name '*.md' | sort)
for page in README.md "${pages[@]}"; do
    awk -v to="$DIR/$(basename "$page" .md)" '/^```c$/ { n++; on = 1; next } /^```/ { on = 0 } on { print > (to "-" n ".c") }' "$page"
done
{
    printf '#include "dpexec.h"\nint complain(const char *why), next_batch(dpx_tensor *batch), example(dpx_tensor *batch);\n'
    printf 'int example(dpx_tensor *batch)\n{\ndpx_result result;\n'
    sed -n '/^ \*\//q; s/^ \*     //p; /\*\/$/q' include/dpexec.h
    printf 'return 0;\n}\n'
} >"$DIR/dpexec.h.c"
check "dpexec.h begins with an example" grep -q dpx_trainer_create "$DIR/dpexec.h.c"
for piece in "$DIR"/*.c; do
    [ -e "$piece" ] || continue
    found=$((found + 1))
    check "$(basename "$piece")" "$cc" -std=c11 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Werror -Wno-unknown-pragmas -fsyntax-only \
        -I. -Iinclude -I"$build/gen" "$piece"
done
check "the pages on operators, passes and backends and dpexec.h have one each" test "$found" -ge 4
missing=$(grep -oE '`(graph|recipes|passes|exec|kernels|tools|include|tests|models|bench|cmake|docs)/[a-z][A-Za-z0-9_./-]*`' README.md CONTRIBUTING.md "${pages[@]}" |
    tr -d '`' | while IFS=: read -r page file; do
        case $file in *[A-Z][A-Z]*) continue ;; esac        # NAME stands for a name
        [ -e "$file" ] || echo "$page: there is no $file"
    done)
check "files that the pages name are there: $missing" test -z "$missing"
finish
