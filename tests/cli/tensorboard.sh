#!/bin/bash
# --tensorboard: TensorBoard's own reader finds each number once, after interruptions and of several processes, too, the graph and images.
# TensorBoard is in BUILD_DIR/python: tests/interop/install.sh BUILD_DIR.
. "$(dirname "$0")/lib.sh"
if ! cmp -s tests/interop/requirements.txt "$build/python/requirements.txt"; then
    fail "no TensorBoard: tests/interop/install.sh $build installs it"
    finish
fi
data=tests/oracle/data/digits.npz
flags=(models/mlp.onnx --data $data --val $data --loss cross-entropy --metric accuracy --clip-norm 5 --batch-size 10 --threads 1 --quiet)
events() { "$build/python/bin/python" -W ignore tests/cli/events.py "$1"; }
check "a run" "$dpexec" "${flags[@]}" --epochs 4 --tensorboard --out "$DIR/whole"
check "its events" events "$DIR/whole"
check "without the flag" "$dpexec" "${flags[@]}" --epochs 4 --out "$DIR/plain"
check "the same run" same_run "$DIR/plain" "$DIR/whole"
check "and no events" test ! -e "$DIR/plain/tensorboard"

# ---- gradients, beside PyTorch's ----
gradients=(models/mlp.onnx --data $data --loss cross-entropy --optimizer sgd --momentum 0 --lr 0.1 --batch-size 10 --no-shuffle --dtype float64
    --steps 3 --threads 1 --quiet)
same_histograms() { "$build/python/bin/python" -W ignore tests/cli/events_gradients.py same "$1" "$2"; }
compare() { "$build/python/bin/python" -W ignore tests/cli/events_gradients.py compare "$1"; }
while read -r name flag; do
    # shellcheck disable=SC2086     # several flags, or none
    check "gradients, $name" "$dpexec" train "${gradients[@]}" $flag --tensorboard --out "$DIR/$name"
    check "$name: are PyTorch's" compare "$DIR/$name"
    # shellcheck disable=SC2086
    check "$name: without the flag" "$dpexec" train "${gradients[@]}" $flag --out "$DIR/$name plain"
    check "$name: the same run" same_run "$DIR/$name" "$DIR/$name plain"
done <<END
one
clipped --clip-norm 1e9
devices --devices cpu*2
optimizer --devices cpu*2 --shard optimizer
gradients --devices cpu*2 --shard gradients
parameters --devices cpu*2 --shard parameters
END
check "gradients, accumulated" "$dpexec" train "${gradients[@]/#10/5}" --accumulate 2 --tensorboard --out "$DIR/accumulated"
check "accumulated: are PyTorch's" compare "$DIR/accumulated"
check "gradients of two processes" "$dpexec" launch -n 2 -- train "${gradients[@]}" --tensorboard --out "$DIR/processes"
check "of both: are PyTorch's" compare "$DIR/processes"
for what in gradients parameters; do
    check "$what in pieces, two processes" "$dpexec" launch -n 2 -- train "${gradients[@]}" --shard $what --tensorboard --out "$DIR/pieces $what"
    check "$what in pieces: are PyTorch's" compare "$DIR/pieces $what"
    check "$what in pieces: distributions of whole ones" same_histograms "$DIR/processes" "$DIR/pieces $what"
done
check "pieces, accumulated" "$dpexec" train "${gradients[@]/#10/5}" --devices 'cpu*2' --shard gradients --accumulate 2 --tensorboard --out "$DIR/pieces accumulated"
check "pieces, accumulated: are PyTorch's" compare "$DIR/pieces accumulated"
check "in 16 bits" "$dpexec" train "${flags[@]}" --precision bfloat16 --epochs 1 --tensorboard --out "$DIR/narrow"

fashion=tests/oracle/data/fashion.npz
check "a run on images" "$dpexec" models/fashion_cnn.onnx --data $fashion --val $fashion --loss cross-entropy --metric accuracy --clip-norm 5 \
    --batch-size 10 --threads 1 --quiet --epochs 2 --tensorboard --out "$DIR/images"
check "without the flag" "$dpexec" models/fashion_cnn.onnx --data $fashion --val $fashion --loss cross-entropy --metric accuracy --clip-norm 5 \
    --batch-size 10 --threads 1 --quiet --epochs 2 --out "$DIR/images plain"
check "the same run" same_run "$DIR/images" "$DIR/images plain"
check "its events have the worst images" test "$(events "$DIR/images")" = "25 images"
check "stopped" "$dpexec" "${flags[@]}" --epochs 4 --steps 7 --tensorboard --out "$DIR/half"
check "resumed" "$dpexec" "${flags[@]}" --epochs 4 --tensorboard --resume "$DIR/half"
check "each step once" events "$DIR/half"
check "one file" test "$(find "$DIR/half/tensorboard" -type f | wc -l)" = 1
check "three processes" "$dpexec" launch -n 3 -- train "${flags[@]}" --epochs 2 --tensorboard --out "$DIR/three"
check "each step once, by rank 0" events "$DIR/three"
refused 2 "--tensorboard needs a folder, but --out none writes nothing" "$dpexec" "${flags[@]}" --tensorboard --out none
finish
