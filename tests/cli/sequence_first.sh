#!/bin/bash
# Inputs of shape [time, batch, width] against PyTorch (tests/cli/sequence_first.py): files hold samples first and --batch-size says their
# number, wherever the model has them; the target lies as the scores do.
. "$(dirname "$0")/lib.sh"
here=tests/cli/sequence_first
common=(--batch-size 4 --lr 0.5 --no-shuffle --epochs 1 --threads 1 --quiet)

# trains NAME MODEL DATA LOSS FLAG...: the losses of the steps, of which the last has fewer samples, and the evaluation are PyTorch's.
trains() {
    local name=$1 model=$here/$2.onnx data=(--data "$here/$3.npz" --loss "$4")
    shift 4
    rm -rf "$DIR/run"
    check "$model $*" "$dpexec" "$model" "${data[@]}" "${common[@]}" --out "$DIR/run" "$@"
    check "losses of $model $*: $(losses "$DIR/run")" near "$(losses "$DIR/run")" "$(expected "$name" 3-)"
    check "evaluation of $model $*" near "$(evaluated "$model" "${data[@]}" --batch-size 4 --threads 1 "$@")" "$(expected "$name" 2)"
}

for replicas in 1 3; do
    trains classes words data cross-entropy --replicas $replicas
    trains classes silent data cross-entropy --replicas $replicas       # the scores' symbol is another
    trains classes fixed data cross-entropy --batch-input x:1 --replicas $replicas
    trains classes unnamed data cross-entropy --batch-input x:1 --replicas $replicas
    trains classes words data cross-entropy --batch-input x:1 --batch-input target:1 --replicas $replicas
    trains open open data cross-entropy --input-shape x=7,4,5 --replicas $replicas
    trains pooled pooled pooled cross-entropy --replicas $replicas
    trains mse words reals mse --replicas $replicas
done
says "target: split along axis 1 (batch_size)" "$graph_transform" $here/words.onnx --batch-size 4 --loss cross-entropy --class-axis 2 --devices 2 --report
check "whole against divided" "$graph_transform" $here/words.onnx --batch-size 5 --loss cross-entropy --class-axis 2 --devices 3 --verify

# A run takes arrays as the model has them.
check "run" "$dpexec" run $here/words.onnx --input x=$here/x.npy --out "$DIR/out" --threads 1
check "run's scores are [7,10,3]" grep -aq "(7, 10, 3,)" "$DIR/out/scores.npy"

# Of a fixed first axis and an open one without a name either may be the batch.
unsaid="the batch is not said: 'x' [7,?,5] (--batch-input x:1 if"
refused 1 "$unsaid" "$dpexec" $here/unnamed.onnx "${common[@]}" --data $here/data.npz --loss cross-entropy
refused 1 "$unsaid" "$graph_transform" $here/unnamed.onnx --batch-size 4
check "run without a name" "$dpexec" run $here/unnamed.onnx --input x=$here/x.npy --out "$DIR/out2" --threads 1

refused 1 "hold them along the first axis" "$dpexec" $here/words.onnx "${common[@]}" --data $here/as_the_model.npz --loss cross-entropy
finish
