#!/bin/bash
# The official tests of the newest ONNX, which come with its wheel: how many pass may only rise, and what does not is known by name.
# Those of Debian's package are check.sh's.  The wheel is in BUILD_DIR/python: tests/interop/install.sh BUILD_DIR.
. "$(dirname "$0")/lib.sh"
if ! cmp -s tests/interop/requirements.txt "$build/python/requirements.txt"; then
    fail "there are no tests of ONNX: tests/interop/install.sh $build installs them"
    finish
fi
data=$("$build/python/bin/python" -c 'import onnx, os; print(os.path.dirname(onnx.__file__) + "/backend/test/data")')
# How many there are; how many pass; how many of them without the interpreter; how many pass with it alone.
all=1905 passed=1880 planned=1803 interpreted=1880

# count FILE NAME...: those numbers of the run.
count() { /usr/bin/python3 -c 'import json, sys; j = json.load(open(sys.argv[1])); print(*(len(j["tests"]) if n == "all" else j[n] for n in sys.argv[2:]))' "$@"; }
# "failed NAME" and "unsupported NAME" of those that do not pass, sorted.
others() {
    /usr/bin/python3 -c 'import json, os, sys
for t in json.load(open(sys.argv[1]))["tests"]:
    if t["outcome"] != "passed": print(t["outcome"], os.path.basename(t["folder"]))' "$1" | sort
}

"$dpexec" check "$data" --training --quiet --json "$DIR/default.json" >/dev/null 2>&1
read -r n p q <<<"$(count "$DIR/default.json" all passed planned)"
check "$n official tests are there, expected $all" test "$n" = $all
check "$p of them pass, at least $passed" test "$p" -ge $passed
check "$q of them are planned, at least $planned" test "$q" -ge $planned
"$dpexec" check "$data" --training --quiet --interpreter --json "$DIR/interpreted.json" >/dev/null 2>&1
read -r p q <<<"$(count "$DIR/interpreted.json" passed planned)"
check "$p pass in the interpreter, at least $interpreted" test "$p" -ge $interpreted
check "of them none is planned" test "$q" = 0
grep -v '^#' tests/cli/check/official.txt | awk '{ print $1, $2 }' | sort >"$DIR/known"
for how in default interpreted; do
    others "$DIR/$how.json" >"$DIR/found"
    check "no other does not pass, $how" diff "$DIR/known" "$DIR/found"
done
finish
