#!/bin/bash
# Training on simulated CUDA devices, where the loss of a step is read while the next one runs: every step has its line, in order,
# evaluations and checkpoints see the parameters of their step, and the step that went wrong is named.
. "$(dirname "$0")/lib.sh"
export DPEXEC_CUDA_PLUGIN=$build/libdpexec_cudasim.so
digits=tests/oracle/data/digits.npz
run=(tests/cli/defaults --optimizer adam --steps 13 -- "$dpexec" models/mlp.onnx --data "$digits" --val "$digits" --metric accuracy --loss cross-entropy --batch-size 10
    --threads 1 --quiet)
gpus=(--devices 'cuda*2' --eval-every 4 --checkpoint-every 3 --keep all --no-best)

# What each line of metrics.jsonl is about: a step, or an evaluation after one.
order() { sed -E 's/^\{"step":([0-9]+),"(e[a-z]*).*/\1 \2/' "$1/metrics.jsonl" | tr '\n' ';'; }

check "a run" "${run[@]}" "${gpus[@]}" --out "$DIR/whole"
lines="1 epoch;2 epoch;3 epoch;4 epoch;4 eval;5 epoch;6 epoch;7 epoch;8 epoch;8 eval;9 epoch;10 epoch;11 epoch;12 epoch;12 eval;13 epoch;13 eval;"
check "its lines: $(order "$DIR/whole")" test "$(order "$DIR/whole")" = "$lines"
check "its checkpoints" test "$(cd "$DIR/whole/checkpoints" && ls -d step-* | tr -d '\n')" = step-000000003step-000000006step-000000009step-000000012step-000000013

# Stopped after a checkpoint and resumed: the same bytes.
check "the first steps" "${run[@]}" "${gpus[@]}" --steps 6 --out "$DIR/begun"
check "the others" "${run[@]}" "${gpus[@]}" --resume "$DIR/begun"
sed -i '/^{"step":6,"eval_loss"/d' "$DIR/begun/metrics.jsonl"       # the evaluation at the end of the first steps
check "the same run" same_run "$DIR/whole" "$DIR/begun"

# Groups of micro-batches, the last of an epoch incomplete.
check "accumulated" "${run[@]}" "${gpus[@]}" --accumulate 2 --out "$DIR/groups"
check "the same lines" test "$(order "$DIR/groups")" = "$lines"

# Call by call the bits are the same; that steps are captured, and algorithms to be measured, is seen where these calls fail.
check "not captured" "${run[@]}" "${gpus[@]}" --no-capture --out "$DIR/calls"
check "the same run" same_run "$DIR/whole" "$DIR/calls"
check "measured" "${run[@]}" "${gpus[@]}" --tune --out "$DIR/tuned"
check "the same run here, where there is nothing to measure" same_run "$DIR/whole" "$DIR/tuned"
DPEXEC_SIM_FAIL=capture_begin:1 says "capture_begin: injected failure" "${run[@]}" --devices cuda --steps 3
DPEXEC_SIM_FAIL=capture_begin:1 check "no capture" "${run[@]}" --devices cuda --steps 3 --no-capture
if grep -q capture_begin "$DIR/check.log"; then fail "captured with --no-capture"; else pass; fi
DPEXEC_SIM_FAIL=tune:1 refused 1 "tune: injected failure" "${run[@]}" --devices cuda --steps 3 --tune
DPEXEC_SIM_FAIL=tune:1 check "not measured" "${run[@]}" --devices cuda --steps 3

# The loss is as the CPU's to the step at which it is no number any more.
refused 1 "the loss of step" "${run[@]}" --devices cpu --optimizer sgd --lr 1e12 --steps 40 --out "$DIR/cpu"
message=$(grep -o 'the loss of step [0-9]* is' "$DIR/refused.err")
refused 1 "$message" "${run[@]}" --devices 'cuda*2' --optimizer sgd --lr 1e12 --steps 40 --out "$DIR/bad"
check "no line behind it" test "$(tail -1 "$DIR/bad/metrics.jsonl" | grep -o '^{"step":[0-9]*')" = "$(tail -1 "$DIR/cpu/metrics.jsonl" | grep -o '^{"step":[0-9]*')"
check "nothing is kept of it" test ! -e "$DIR/bad/model.onnx"
finish
