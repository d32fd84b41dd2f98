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
adafactor | |
adafactor | --lr 0.5 --weight-decay 0.05 --eps2 0.1 --beta2-decay -0.5 --clip-threshold 1.1 --accumulate 2 --clip-norm 0.1 --freeze stem* | lr=0.5 weight_decay=0.05 eps2=0.1 beta2_decay=-0.5 d=1.1 accumulate=2 clip_norm=0.1 frozen=stem
muon | |
muon | --lr 0.02 --adjust-lr original --nesterov=false --ns-steps 3 --accumulate 2 --clip-norm 0.1 | lr=0.02 match=false nesterov=false ns_steps=3 accumulate=2 clip_norm=0.1
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
same 'adafactor, float16, clipped by value' "${digits[@]}" --optimizer adafactor --precision float16 --clip-value 0.01 --no-decay bias --weight-decay 0.1
same 'muon, a mean, a group of its own optimizer' "${fashion[@]}" --optimizer muon --clip-norm 1 --ema 0.9 --group 'conv2*:optimizer=adamw'
same 'muon, float16' "${digits[@]}" --optimizer muon --precision float16

# A convolution's weight is one matrix, and a recurrent cell has one for all gates; the last layer, vectors and embeddings are adamw's.
one=(--loss cross-entropy --batch-size 7 --dtype float64 --steps 1 --checkpoint-every 1 --quiet --no-shuffle --threads 1)
gradient() { check "a step along the gradient" "$dpexec" train "$@" "${one[@]}" --optimizer sgd --lr 1 --momentum 0 --out "$DIR/sgd"; }
muon_step() { check "a step of muon" "$dpexec" train "$@" "${one[@]}" --optimizer muon --out "$DIR/muon"; }
gradient "${fashion[@]:0:3}"
muon_step "${fashion[@]:0:3}"
check "the matrices of convolutions" py tests/cli/optimizers.py first-step models/fashion_cnn.onnx "$DIR/sgd" "$DIR/muon" \
    conv1.weight=flat conv2.weight=flat conv3.weight=flat
rm -r "$DIR/sgd" "$DIR/muon"
check "a recurrent network" "$dpexec" new lstm --vocab 9 --classes 3 --width 8 --seed 1 -o "$DIR/lstm.onnx"
/usr/bin/python3 -c 'import sys, numpy as np
r = np.random.default_rng(1)
np.savez(sys.argv[1], tokens=r.integers(0, 9, (7, 5)), target=r.integers(0, 3, 7), lengths=np.full(7, 5))' "$DIR/lstm.npz"
gradient "$DIR/lstm.onnx" --data "$DIR/lstm.npz"
muon_step "$DIR/lstm.onnx" --data "$DIR/lstm.npz"
check "the matrices of a recurrent cell" py tests/cli/optimizers.py first-step "$DIR/lstm.onnx" "$DIR/sgd" "$DIR/muon" \
    lstm.weight_ih_l0=out_in lstm.weight_hh_l0=out_in
says "20 hidden matrices are updated by muon, 54 other tensors by adamw, with 'embedding.weight', 'position.weight'" "$graph_transform" \
    models/transformer.onnx --loss cross-entropy --optimizer muon --batch-size 2 --report

# The exported weights are the means; --export-weights trained gives those that gradients are taken at.
check 'the point of the gradients' "$dpexec" train "${digits[@]}" --threads 1 --quiet --steps 3 --optimizer schedule-free-adamw \
    --export-weights trained --out "$DIR/trained"
check 'the mean' "$dpexec" train "${digits[@]}" --threads 1 --quiet --steps 3 --optimizer schedule-free-adamw --out "$DIR/mean"
check 'they differ' differ "$DIR/trained/model.onnx" "$DIR/mean/model.onnx"
says 'optimizer  schedule-free-adamw: lr 0.0025, beta1 0.9, beta2 0.999, weight-decay 0' "$dpexec" train "${digits[@]}" --steps 1 --optimizer schedule-free-adamw
refused 2 '--ema: --optimizer schedule-free-adamw averages the parameters itself' "$dpexec" train "${digits[@]}" --optimizer schedule-free-adamw --ema 0.9
refused 2 'give --optimizer schedule-free-adamw' "$dpexec" train "${digits[@]}" --group 'fc*:optimizer=schedule-free-adamw'
finish
