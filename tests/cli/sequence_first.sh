#!/bin/bash
# Inputs of shape [time, batch, width] against PyTorch (tests/cli/sequence_first.py): files hold samples first and --batch-size says their
# number, wherever the model has them; the target lies as the scores do.
. "$(dirname "$0")/lib.sh"
here=tests/cli/sequence_first
common=(--batch-size 4 --lr 0.5 --no-shuffle --epochs 1 --threads 1 --quiet --plain-defaults)

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
    trains classes fixed data cross-entropy --batch-input x:-2 --replicas $replicas # from the end
    trains classes unnamed data cross-entropy --batch-input x:-2 --replicas $replicas
    trains classes words data cross-entropy --batch-input x:1 --batch-input target:1 --replicas $replicas
    trains open open data cross-entropy --input-shape x=7,4,5 --replicas $replicas
    trains pooled pooled pooled cross-entropy --replicas $replicas
    trains mse words reals mse --replicas $replicas
done
refused 2 "--batch-input x:-4: the data's array has rank 3" "$dpexec" $here/words.onnx --data $here/data.npz --loss cross-entropy --batch-input x:-4
says "target: split along axis 1 (batch_size)" "$graph_transform" $here/words.onnx --batch-size 4 --loss cross-entropy --class-axis 2 --devices 2 --report
check "whole against divided" "$graph_transform" $here/words.onnx --batch-size 5 --loss cross-entropy --class-axis 2 --devices 3 --verify

# A run takes arrays as the model has them.
check "run" "$dpexec" run $here/words.onnx --input x=$here/x.npy --out "$DIR/out" --threads 1
check "run's scores are [7,10,3]" grep -aq "(7, 10, 3,)" "$DIR/out/scores.npy"

# Predictions have samples first, as data has, also where the model has as many positions as the batch samples; without padding where
# sequences have other lengths.
python=${PYTHON:-/usr/bin/python3}
predict=("$dpexec" eval --threads 1 --quiet)
for how in "words 4" "words 7" "silent 3" "open 7"; do
    # shellcheck disable=SC2086     # a name and a number
    set -- $how
    check "predictions of $1 in batches of $2" "${predict[@]}" $here/"$1".onnx --data $here/data.npz --batch-size "$2" --replicas 3 --predictions "$DIR/$1-$2"
    check "run of $1" "$dpexec" run $here/"$1".onnx --input x=$here/x.npy --out "$DIR/run-$1" --threads 1
    check "they are those of run" "$python" -c "
import numpy as np
a, b = np.load('$DIR/$1-$2/scores.npy'), np.load('$DIR/run-$1/scores.npy')
assert a.shape == (10, 7, 3) and np.abs(a - b.transpose(1, 0, 2)).max() < 1e-6, a.shape"
done
refused 1 "its samples may lie along axis 0 or 1, which both have 7 elements: give another --batch-size" "${predict[@]}" $here/silent.onnx \
    --data $here/data.npz --batch-size 7 --predictions "$DIR/no"
check "sequences" "$python" -c "
import numpy as np
x = np.load('$here/data.npz')['x']; n = np.array([3, 7, 1, 5, 6, 2, 4, 4, 1, 7])
np.savez('$DIR/ragged.npz', **{'x': x, 'x.lengths': n})
for i in (0, 2, 9): np.save('$DIR/x%d.npy' % i, x[i, :n[i], None])"
check "predictions of sequences" "${predict[@]}" $here/open.onnx --data "$DIR/ragged.npz" --batch-size 4 --replicas 2 --predictions "$DIR/ragged"
for i in 0 2 9; do check "sample $i alone" "$dpexec" run $here/open.onnx --input "x=$DIR/x$i.npy" --out "$DIR/alone$i" --threads 1; done
check "they are those of samples alone" "$python" -c "
import numpy as np
y, ends = np.load('$DIR/ragged/scores.npy'), np.load('$DIR/ragged/scores.offsets.npy')
assert y.shape == (40, 3) and ends[-1] == 40 and len(ends) == 11, (y.shape, ends)
for i in (0, 2, 9): assert np.abs(y[ends[i]:ends[i + 1]] - np.load('$DIR/alone%d/scores.npy' % i)[:, 0]).max() < 1e-6, i"

# Of a fixed first axis and an open one without a name either may be the batch.
unsaid="the batch axis of these inputs is ambiguous: 'x' [7,?,5] (--batch-input x:1 if"
refused 1 "$unsaid" "$dpexec" $here/unnamed.onnx "${common[@]}" --data $here/data.npz --loss cross-entropy
refused 1 "$unsaid" "$graph_transform" $here/unnamed.onnx --batch-size 4
check "run without a name" "$dpexec" run $here/unnamed.onnx --input x=$here/x.npy --out "$DIR/out2" --threads 1

refused 1 "hold them along the first axis" "$dpexec" $here/words.onnx "${common[@]}" --data $here/as_the_model.npz --loss cross-entropy
finish
