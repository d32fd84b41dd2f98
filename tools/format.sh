#!/bin/sh
# Lays out C and CUDA sources by .clang-format: format.sh [--check] [FILE...]      [all that git knows]
#   --check   changes nothing; prints what differs, exit status 1
# clang-format 14 (Debian 12) lays out some lines unlike other versions, and is asked for by name where there are several.
cd "$(dirname "$0")/.." || exit 2
format=$(command -v clang-format-14 || command -v clang-format) || { echo "format.sh: clang-format is not installed" >&2; exit 2; }
how=-i
[ "${1:-}" != --check ] || { how='-n -Werror'; shift; }
if [ $# = 0 ]; then
    # What a script has written is laid out by the script.
    set -- $(git ls-files '*.c' '*.h' '*.inc' '*.cpp' '*.cu' '*.cuh' | grep -v '^tests/passes/torch_values.h$')
fi
exec "$format" $how "$@"
