#!/bin/bash
# The pieces of C in docs/ compile: each block between ```c and ``` is a whole file of the folder that it is shown for.  And the files
# of the tree that the pages name are there.
. "$(dirname "$0")/lib.sh"
cc=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
found=0
for page in README.md docs/*.md; do
    awk -v to="$DIR/$(basename "$page" .md)" '/^```c$/ { n++; on = 1; next } /^```/ { on = 0 } on { print > (to "-" n ".c") }' "$page"
done
for piece in "$DIR"/*.c; do
    [ -e "$piece" ] || continue
    found=$((found + 1))
    check "$(basename "$piece")" "$cc" -std=c11 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Werror -Wno-unknown-pragmas -fsyntax-only \
        -I. -Iinclude -I"$build/gen" "$piece"
done
check "the pages on operators, passes and backends have one each" test "$found" -ge 3
missing=$(grep -oE '`(graph|recipes|passes|exec|kernels|tools|include|tests|models|bench|cmake|docs)/[a-z][A-Za-z0-9_./-]*`' README.md CONTRIBUTING.md docs/*.md |
    tr -d '`' | while IFS=: read -r page file; do
        case $file in *[A-Z][A-Z]*) continue ;; esac        # NAME stands for a name
        [ -e "$file" ] || echo "$page: there is no $file"
    done)
check "files that the pages name are there: $missing" test -z "$missing"
finish
