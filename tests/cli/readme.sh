#!/bin/bash
# The commands of README.md that train, evaluate and verify, as they stand there in a fresh clone, print the figures that stand below them.
. "$(dirname "$0")/lib.sh"
page=$(cat README.md)
# Commands stand behind "$ ", with lines that end with a backslash.
commands=$(awk '/^    \$ / { on = 1; sub(/^    \$ /, "") } on { print; on = /\\$/ }' <<<"$page")
check "there are three" test "$(grep -c "^build/" <<<"$commands")" = 3
mkdir "$DIR/clone"
ln -s "$root/models" "$root/tests" "$build" "$DIR/clone"
[ -e "$DIR/clone/build" ] || ln -s "$build" "$DIR/clone/build"
(cd "$DIR/clone" && bash -c "$commands") >"$DIR/said" 2>&1
check "they run" grep -q '^agrees: ' "$DIR/said"
for figure in 'trains [0-9,]+ numbers in [0-9]+ tensors' 'trained [0-9]+ steps' 'best epoch [0-9]+: eval accuracy [0-9.]+' '"eval_accuracy":[0-9.]+' 'difference of [0-9]+ tensors'; do
    check "$figure" test "$(grep -oE "$figure" <<<"$page")" = "$(grep -oE "$figure" "$DIR/said")"
done
finish
