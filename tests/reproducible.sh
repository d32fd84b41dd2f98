#!/bin/bash
# The same bytes twice: copies the tree to two folders of different depth, builds the library and the programs in both, one of them in
# a folder beside the tree, and compares.  Not part of tests/all.sh, for it builds twice.
#   tests/reproducible.sh [TARGET...]   default: libdpexec dpexec graph-transform static
# $SAME=DIR: a build folder of this tree with CMAKE_BUILD_TYPE=Release stands for the first of the two.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ $# -gt 0 ] || set -- libdpexec dpexec graph-transform static
one=$work/one/source two=$work/a/folder/with/a/longer/name
mkdir -p "$one" "$two"
git -C "$root" ls-files -z | (cd "$root" && xargs -0 cp -P --parents -t "$one")
cp -r "$one/." "$two"
options=(-G Ninja -DCMAKE_BUILD_TYPE=Release -DDPX_CUDA=OFF -DBUILD_TESTING=OFF)
if [ -n "${SAME:-}" ]; then
    first=$SAME
else
    first=$one/build
    cmake -S "$one" -B "$first" "${options[@]}" >/dev/null
    cmake --build "$first" --target "$@" >/dev/null
fi
second=$work/elsewhere
cmake -S "$two" -B "$second" "${options[@]}" >/dev/null
sleep 1     # times that got into a file would differ
LC_ALL=C TZ=Asia/Tokyo cmake --build "$second" --target "$@" >/dev/null
passed=0
failed=0
for file in libdpexec.so dpexec graph-transform libdpexec.a; do
    [ -e "$second/$file" ] || continue
    if cmp "$first/$file" "$second/$file"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ] && [ $passed != 0 ]
