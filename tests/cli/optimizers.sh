#!/bin/bash
# Optimizers that PyTorch 1.13 lacks, against their formulas in NumPy (tests/cli/optimizers.py), to 1e-8 in float64: losses, evaluations
# and the weights that are exported, on parts of a batch, in pieces, in several processes; runs that go on have the same bytes.
. "$(dirname "$0")/lib.sh"
here=tests/cli/groups
serve_python
train=("$dpexec" train $here/model.onnx --data $here/data.npz --val $here/data.npz --eval-every 1 --loss cross-entropy --batch-size 4
    --threads 1 --no-shuffle --quiet --steps 11)

# A line a case: the optimizer, its options, the same for the formulas.
set -f
while IFS='|' read -r name options settings; do
    name=${name// /}
    for how in "cpu:0" "cpu:0 --replicas 3" "cpu*3" "cpu*3 --shard optimizer" "cpu*3 --shard gradients" "cpu*3 --shard parameters"; do
        rm -rf "$DIR/run"
        "${train[@]}" --optimizer "$name" --devices $how $options --out "$DIR/run" >"$DIR/log" 2>&1 || cat "$DIR/log"
        check "$name $options, $how" py tests/cli/optimizers.py "$name" "$DIR/run" $settings
    done
    rm -rf "$DIR/run"
    "$dpexec" launch -n 2 -- "${train[@]:1}" --optimizer "$name" --devices cpu:0 $options --out "$DIR/run" >"$DIR/log" 2>&1 || cat "$DIR/log"
    check "$name $options, two processes" py tests/cli/optimizers.py "$name" "$DIR/run" $settings
done <<'END'
schedule-free-adamw | |
schedule-free-adamw | --lr 0.05 --weight-decay 0.05 --warmup-steps 4 --average-power 1 | lr=0.05 weight_decay=0.05 warmup=4 r=1
schedule-free-adamw | --lr 0.05 --beta1 0.8 --accumulate 2 --clip-norm 0.1 --freeze stem* | lr=0.05 beta1=0.8 accumulate=2 clip_norm=0.1 frozen=stem
END
set +f

# same NAME ARGS...: runs of other devices and of two processes have the bytes of one on one device, and so has one that goes on.
same() {
    local name=$1 devices
    shift
    rm -rf "$DIR/whole" "$DIR/other"
    local run=("$dpexec" train "$@" --threads 1 --replicas 2 --quiet --checkpoint-every 2)
    check "$name" "${run[@]}" --devices cpu:0 --steps 5 --out "$DIR/whole"
    check "$name on two devices" "${run[@]}" --devices 'cpu*2' --steps 5 --out "$DIR/other"
    check "$name: the bytes of two devices" same_run "$DIR/whole" "$DIR/other"
    rm -rf "$DIR/other"
    check "$name, begun" "${run[@]}" --devices cpu:0 --steps 3 --out "$DIR/other"
    check "$name in two processes goes on" "$dpexec" launch -n 2 -- "${run[@]:1}" --devices cpu:0 --steps 5 --resume "$DIR/other"
    check "$name: the bytes of what goes on" cmp "$DIR/whole/model.onnx" "$DIR/other/model.onnx"
    check "$name: the last checkpoint of what goes on" \
        cmp "$DIR/whole/checkpoints/step-000000005/state.safetensors" "$DIR/other/checkpoints/step-000000005/state.safetensors"
}
digits=(models/mlp.onnx --data tests/oracle/data/digits.npz --loss cross-entropy --batch-size 10)
fashion=(models/fashion_cnn.onnx --data tests/oracle/data/fashion.npz --loss cross-entropy --batch-size 7)
same 'schedule-free, float16' "${digits[@]}" --optimizer schedule-free-adamw --precision float16 --no-decay bias --weight-decay 0.1
same 'schedule-free, a group of its own optimizer' "${fashion[@]}" --optimizer schedule-free-adamw --clip-norm 1 --group 'fc*:optimizer=sgd,lr=0.01'

# The exported weights are the means; --export-weights trained gives those that gradients are taken at.
check 'the point of the gradients' "$dpexec" train "${digits[@]}" --threads 1 --quiet --steps 3 --optimizer schedule-free-adamw \
    --export-weights trained --out "$DIR/trained"
check 'the mean' "$dpexec" train "${digits[@]}" --threads 1 --quiet --steps 3 --optimizer schedule-free-adamw --out "$DIR/mean"
check 'they differ' differ "$DIR/trained/model.onnx" "$DIR/mean/model.onnx"
says 'optimizer  schedule-free-adamw: lr 0.0025, beta1 0.9, beta2 0.999, weight-decay 0' "$dpexec" train "${digits[@]}" --steps 1 --optimizer schedule-free-adamw
refused 2 '--ema: --optimizer schedule-free-adamw averages the parameters itself' "$dpexec" train "${digits[@]}" --optimizer schedule-free-adamw --ema 0.9
refused 2 'give --optimizer schedule-free-adamw' "$dpexec" train "${digits[@]}" --group 'fc*:optimizer=schedule-free-adamw'
finish
