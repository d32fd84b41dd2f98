#!/bin/bash
# Trains every case of the PyTorch oracle (tests/oracle) and compares losses, learning rates, final weights and the evaluation of
# the exported model.  Needs python3-numpy and python3-onnx for the comparison.
#   tests/cli/oracle.sh [BUILD_DIR [CASE...]]     DTYPE=float64 for the other precision
. "$(dirname "$0")/lib.sh"
shift
serve_python
compare="py tests/oracle/compare.py"
heavy='resnet20|transformer|unet|exported_'     # in float64 they run on the reference kernels

run_case() {
    local name=$1 dtype=$2 out=$DIR/$1-$2
    local -a args
    mapfile -t args < <($compare --args "$name")
    if ! "$dpexec" "${args[@]}" --dtype "$dtype" --threads 1 --quiet --out "$out" >"$DIR/log" 2>&1; then
        fail "$name $dtype: dpexec: $(tail -1 "$DIR/log")"
        return
    fi
    mapfile -t args < <($compare --eval-args "$name")
    [ ${#args[@]} = 0 ] ||
        "$dpexec" eval "$out/model.onnx" "${args[@]}" --threads 1 --quiet >"$out/eval.json" 2>"$DIR/log" ||
        fail "$name $dtype: dpexec eval: $(tail -1 "$DIR/log")"
    if $compare "$name" "$out" "$dtype" >"$DIR/log" 2>&1; then pass; else fail "$name $dtype"; cat "$DIR/log"; fi
    rm -rf "$out"
}

if [ $# = 0 ]; then
    mapfile -t cases < <($compare --list)
else
    cases=("$@")
fi
for name in "${cases[@]}"; do
    run_case "$name" "${DTYPE:-float32}"
    [ $# != 0 ] || [ -n "${DTYPE:-}" ] || [[ $name =~ $heavy ]] || run_case "$name" float64
done
finish
