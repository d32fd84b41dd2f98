#!/bin/bash
# Whatever the steps at which a run is stopped or crashes, and resumed, each step and each evaluation stands in metrics.jsonl once;
# a run that ended before its first checkpoint is begun again; a folder has one run at a time; a signal ends a run that is still
# reading its data at once.
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-/usr/bin/python3}
check "data" "$python" - "$DIR" <<'PY'
import sys, numpy as np
d = np.load("tests/oracle/data/digits.npz")
np.savez(sys.argv[1] + "/data.npz", **{k: d[k][:30] for k in d})
PY
data=$DIR/data.npz
run=("$dpexec" models/mlp.onnx --data "$data" --val "$data" --loss cross-entropy --batch-size 10 --threads 1 --quiet)
last=7              # steps; an epoch has 3

# "step 3" and "eval 3" for each line of a run's metrics.
lines() { sed -E 's/^\{"step":([0-9]+),"eval_loss".*/eval \1/; s/^\{"step":([0-9]+),.*/step \1/' "$1/metrics.jsonl"; }

# The lines of the folder are those of the folder `whole`, the step's before its evaluation, and evaluations at the steps given.
good_lines() {
    local out=$1
    shift
    { untimed "$DIR/whole"; for s in "$@"; do untimed "$out" | grep -E "^\{\"step\":$s,\"eval_loss\"" | head -1; done; } | sort -u >"$DIR/expected"
    [ -z "$(lines "$out" | sort | uniq -d)" ] && diff <(untimed "$out" | sort) "$DIR/expected" &&
        lines "$out" | awk '{ n = $2 * 2 + ($1 == "eval"); if (n <= before) exit 1; before = n }'
}

# stopped STEP...: a run that ends at each of the steps and is resumed to the last.
stopped() {
    local how=--out stop
    rm -rf "$DIR/run"
    for stop in "$@" $last; do
        "${run[@]}" "${flags[@]}" --steps "$stop" "$how" "$DIR/run" >"$DIR/log" 2>&1 || { cat "$DIR/log"; return 1; }
        how=--resume
    done
    good_lines "$DIR/run" "$@"
}

# crashed STEP LINES: the folder as a crash leaves it, with the checkpoint of STEP as the newest and the first LINES of the metrics.
crashed() {
    local n
    rm -rf "$DIR/run"
    cp -r "$DIR/whole" "$DIR/run"
    rm "$DIR/run/model.onnx"
    for n in $(seq $(($1 + 1)) $last); do rm -r "$DIR/run/checkpoints/step-$(printf %09d "$n")"; done
    head -n "$2" "$DIR/whole/metrics.jsonl" >"$DIR/run/metrics.jsonl"
    "${run[@]}" "${flags[@]}" --steps $last --resume "$DIR/run" >"$DIR/log" 2>&1 || { cat "$DIR/log"; return 1; }
    good_lines "$DIR/run"
}

for evaluates in "" "--eval-every 2"; do
    for saves in "" "--checkpoint-every 1 --keep all"; do
        # shellcheck disable=SC2206
        flags=($evaluates $saves)
        rm -rf "$DIR/whole"
        check "a whole run" "${run[@]}" "${flags[@]}" --steps $last --out "$DIR/whole"
        check "$evaluates $saves: resumed when it was over" stopped $last
        for first in 1 2 3 4 5 6; do
            for second in $(seq $((first + 1)) 6); do
                check "$evaluates $saves: stopped at $first and $second" stopped "$first" "$second"
            done
        done
    done
    total=$(grep -c '' "$DIR/whole/metrics.jsonl")
    for step in $(seq $last); do
        due="step $step"        # with --eval-every the evaluation is written before the checkpoint
        [ -n "$evaluates" ] && [ $((step % 2)) = 0 ] && due="eval $step"
        for n in $(seq "$(lines "$DIR/whole" | grep -nx "$due" | cut -d: -f1)" "$total"); do
            check "$evaluates: crashed with $n lines after the checkpoint of $step" crashed "$step" "$n"
        done
    done
done

# Before the first checkpoint: begun again by the same command, or by --resume; what there was is kept.
flags=(--steps $last)
attempt() { rm -rf "$DIR/run"; mkdir "$DIR/run"; head -n "$1" "$DIR/whole/metrics.jsonl" >"$DIR/run/metrics.jsonl"; echo '{}' >"$DIR/run/args.json"; }
attempt 3
says "its metrics are now metrics.1.jsonl" "${run[@]}" --steps $last --out "$DIR/run"
check "they are" test "$(grep -c '' "$DIR/run/metrics.1.jsonl")" = 3
check "the arguments too" grep -qx '{}' "$DIR/run/args.1.json"
check "the run is whole" test "$(grep -c '"loss"' "$DIR/run/metrics.jsonl")" = $last
attempt 2
touch "$DIR/run/best.onnx"
check "an earlier best model" "${run[@]}" --steps $last --out "$DIR/run"
check "is kept beside this run's" test -s "$DIR/run/best.onnx" -a -e "$DIR/run/best.1.onnx" -a ! -s "$DIR/run/best.1.onnx"
attempt 2
cp "$DIR/run/metrics.jsonl" "$DIR/run/metrics.1.jsonl"
says "there is no checkpoint yet: the run begins at step 0" "${run[@]}" --steps $last --resume "$DIR/run"
check "beside an earlier one" test -e "$DIR/run/metrics.2.jsonl" -a -e "$DIR/run/model.onnx"
attempt 0
check "nothing was logged" "${run[@]}" --steps $last --out "$DIR/run"
check "nothing is kept aside" test ! -e "$DIR/run/metrics.1.jsonl"
refused 1 "already holds a run" "${run[@]}" --steps $last --out "$DIR/run"
mkdir "$DIR/empty"
refused 1 "there is no run in this folder: begin one with --out" "${run[@]}" --steps $last --resume "$DIR/empty"
cp -r "$DIR/run" "$DIR/other"
refused 1 "already holds a run" "${run[@]}" --steps 9 --resume "$DIR/run" --out "$DIR/other"

# One folder, two runs: the second is told which process has it, whether it begins or resumes, and touches nothing.
timeout 60 "${run[@]}" --steps 100000000 --checkpoint-every 1 --out "$DIR/busy" >"$DIR/log" 2>&1 &
first=$!
for _ in $(seq 1000); do [ -e "$DIR/busy/checkpoints/step-000000003" ] && break; sleep 0.01; done
holder=$(cat "$DIR/busy/.lock")
refused 1 "$holder is training in this folder" "${run[@]}" --steps 5 --out "$DIR/busy"
check "the process is that one" test "$(cut -d' ' -f2 "$DIR/busy/.lock")" = "$(pgrep -P $first || echo $first)"
refused 1 "is training in this folder" "${run[@]}" --steps 5 --resume "$DIR/busy"
kill -KILL "$(cut -d' ' -f2 "$DIR/busy/.lock")"
wait $first 2>/dev/null
check "the lock ends with its process" "${run[@]}" --steps 20000 --resume "$DIR/busy" --epochs 1

# A signal while the data are read: labels that are looked at one by one, as many as take long (the files are holes).
check "many samples" "$python" - "$DIR/many" <<'PY'
import os, sys, numpy as np
os.mkdir(sys.argv[1])
for name, dtype, shape in (("x", "<f4", (1 << 29, 64)), ("target", "<f8", (1 << 29,))):
    with open(f"{sys.argv[1]}/{name}.npy", "wb") as f:
        np.lib.format.write_array_header_1_0(f, dict(descr=dtype, fortran_order=False, shape=shape))
        f.truncate(f.tell() + int(np.prod(shape, dtype=object)) * int(dtype[2]))
PY
for status in 130 143; do
    timeout 20 bash -c 'set -m; "$@" & pid=$!; sleep 0.5; kill -'$((status - 128))' $pid; wait $pid; echo $?' - \
        "$dpexec" models/mlp.onnx --data "$DIR/many" --loss cross-entropy --out "$DIR/early" >"$DIR/status" 2>"$DIR/log"
    check "a signal ends it" grep -qx $status "$DIR/status"
    check "it says so" grep -qx "dpexec: stopped by a signal before the first step" "$DIR/log"
    check "nothing is written" test ! -e "$DIR/early"
done
finish
