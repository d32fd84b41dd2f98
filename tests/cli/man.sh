#!/bin/bash
# Help, man pages and args.json come from one table: each command's pages hold the same flags, and what was built is what the tools say.
. "$(dirname "$0")/lib.sh"

# flags_of FILE: the flags that a help text or a man page lists, one a line.
flags_of() { sed -n -e 's/\\-/-/g' -e 's/^\(\.B \|  \)\(--\?[a-z][a-z0-9-]*\).*/\2/p' "$1" | sort -u; }

"$dpexec" --help >"$DIR/usage"
commands=$(sed -n 's/^  \([a-z]*\)  .*/\1/p' "$DIR/usage")
check "there are commands" test "$(echo "$commands" | wc -l)" -ge 5
for command in $commands; do
    "$dpexec" $command --help >"$DIR/help"
    "$dpexec" $command --man >"$DIR/page"
    flags_of "$DIR/help" >"$DIR/in_help"
    flags_of "$DIR/page" | grep -vxE -- '--(help|man)' >"$DIR/in_page"
    check "$command has flags or none" test -s "$DIR/help"
    check "$command: help and man page list the same" diff "$DIR/in_help" "$DIR/in_page"
    check "$command: the page that was built is current" cmp "$DIR/page" "$build/man/dpexec-$command.1"
    check "dpexec(1) names $command" grep -q "^\.B $command " "$build/man/dpexec.1"
    if command -v groff >/dev/null; then
        groff -man -Tutf8 -ww -z "$DIR/page" >"$DIR/warnings" 2>&1
        check "$command: roff without warnings" test ! -s "$DIR/warnings"
    else
        skip "$command: roff" "groff is not installed"
    fi
done
"$graph_transform" --man >"$DIR/page"
check "graph-transform: the page that was built is current" cmp "$DIR/page" "$build/man/graph-transform.1"

# Pages of the C functions (docs/c_reference.py).
if command -v python3 >/dev/null; then
    check "C functions: pages are made" python3 docs/c_reference.py --man "$DIR/man3"
    check "C functions: the pages that were built are current" diff -r "$DIR/man3" "$build/man3"
    sed -n 's/^function \([a-z0-9_]*\):.*/\1/p' tests/abi.txt | sort >"$DIR/functions"
    check "each exported function has a page" bash -c "(cd '$DIR/man3' && ls) | sed 's/\.3$//' | sort | comm -13 - '$DIR/functions' | tee /dev/stderr | (! grep -q .)"
    check "the page of a step" grep -q 'One thread at a time for a trainer' "$DIR/man3/dpx_train_step.3"
    if command -v groff >/dev/null; then
        groff -man -Tutf8 -ww -z "$DIR"/man3/dpx_*[!d].3 "$DIR/man3/dpexec.3" >"$DIR/warnings" 2>&1
        check "C functions: roff without warnings: $(head -2 "$DIR/warnings")" test ! -s "$DIR/warnings"
    fi
fi

# What the check of comments says of a header that says too little.
mkdir -p "$DIR/tree/docs"
cp -r include "$DIR/tree"
cp docs/c_reference.py "$DIR/tree/docs"
sed -i -e 's|^/\* Reads an ONNX file, .*||' -e 's|^ \* Threads: any thread at any time\. \*/|*/|' "$DIR"/tree/include/*.h
python3 "$DIR/tree/docs/c_reference.py" --check >"$DIR/said"
check "a function without a comment is found" grep -q '^dpx_model_load has no comment' "$DIR/said"
check "a part without rules is found" grep -q "^dpx_devices: its part of the header, 'devices', says no errors or threads" "$DIR/said"
# The reference has a row for each flag, a page that explains it, and no flag that is not there.
check "each flag has a page, and pages name no others: $(/usr/bin/python3 docs/reference/flags.py "$build" 2>&1 >"$DIR/flags.md")" \
    /usr/bin/python3 docs/reference/flags.py "$build"
check "docs/reference/flags.md is what docs/reference/flags.py writes" diff docs/reference/flags.md "$DIR/flags.md"

# Every option of a run is in args.json, by the name that the help has; also those that the command line derives.
"$dpexec" models/mlp.onnx --data tests/oracle/data/digits.npz --loss cross-entropy --batch-size 10 --steps 1 --threads 1 --quiet --out "$DIR/run"
"$dpexec" train --help >"$DIR/help"
"$graph_transform" --help >"$DIR/shared"
comm -12 <(flags_of "$DIR/help") <(flags_of "$DIR/shared") | sed 's/^--//' | grep -vxE 'debug|class-weights' | { cat; printf "%s\n" evaluation loader-threads samples total-steps; } |
    sort >"$DIR/options"    # flags of each are of one of them alone, but for two
check "the run has options" test "$(wc -l <"$DIR/options")" -ge 30
sed -n '/"options": {/,/}/s/^ *"\([a-z0-9-]*\)": .*/\1/p' "$DIR/run/args.json" | grep -vx options | sort >"$DIR/in_json"
check "args.json holds them all" diff "$DIR/options" "$DIR/in_json"
finish
