#!/bin/bash
# Metrics against scikit-learn's of the whole set (tests/cli/metrics.py): over replicas and processes, batches that end with a smaller
# one, parts without samples, ignored targets, classes that are absent, equal scores.
. "$(dirname "$0")/lib.sh"
here=tests/cli/metrics

# arguments SET LOSS METRIC FLAGS: of a row of expected.txt.
arguments() {
    local model=scores
    [ "$1" = numbers ] && model=values
    args=($here/$model.onnx --loss "$2" --metric "$3" --batch-size 6 --threads 1 --quiet)
    [ "$4" = - ] || args+=("$4")
}

# is EXPECTED METRIC TEXT: what TEXT's last line says of the metric; counts to the digit, numbers within 1e-12.
is() {
    local found
    found=$(printf '%s\n' "$3" | tail -1 | sed -nE "s/.*\"eval_$2\":(\[\[.*\]\]|[^,}]*).*/\1/p")
    case $1 in
    \[*) test "$found" = "$1" ;;
    *) near "$found" "$1" || { [ "$1" = 0.0 ] && [ "$found" = 0 ]; } ;;
    esac || { echo "found $found"; false; }
}

while read -r set loss metric flags value; do
    arguments "$set" "$loss" "$metric" "$flags"
    for replicas in {1..5}; do
        check "$set $metric $replicas" is "$value" "$metric" "$("$dpexec" eval "${args[@]}" --data $here/"$set".npz --replicas $replicas 2>&1)"
    done
done <$here/expected.txt

# Training measures its own samples, as it goes: an epoch that changes nothing, in batches of which the last is smaller, as one step or in
# micro-batches.
while read -r set metric flags; do
    read -r set loss metric ignore value < <(grep "^$set [^ ]* $metric " $here/expected.txt)
    arguments "$set" "$loss" "$metric" "$ignore"
    rm -rf "$DIR/trained"
    # shellcheck disable=SC2086     # several words
    check "train" "$dpexec" "${args[@]}" --data $here/"$set".npz --lr 0 --epochs 2 --out "$DIR/trained" $flags
    check "$set $metric of both epochs, by $flags" test "$(grep -o '"train_[a-z]*.*"train_samples":[0-9]*' "$DIR/trained/metrics.jsonl" | sort | wc -l)" = 2
    check "$set $metric while training, by $flags" is "$value" "$metric" "$(sed 's/"train_/"eval_/g' "$DIR/trained/metrics.jsonl")"
    evaluated=$("$dpexec" eval "${args[@]}" --data $here/"$set".npz)
    check "the loss of the epoch" near "$(tail -1 "$DIR/trained/metrics.jsonl" | grep -o '"train_loss":[^,]*' | cut -d: -f2)" \
        "$(grep -o '"eval_loss":[^,]*' <<<"$evaluated" | cut -d: -f2)"
    check "of all samples" test "$(tail -1 "$DIR/trained/metrics.jsonl" | grep -o '"train_samples":[0-9]*' | cut -d: -f2)" = "$(grep -o '"samples":[0-9]*' <<<"$evaluated" | cut -d: -f2)"
done <<'TRAINED'
absent confusion-matrix --replicas 3
absent mean-iou --replicas 1
ties top-k:2 --replicas 4 --accumulate 2
class_ignored f1:weighted --replicas 2 --accumulate 3
numbers rmse --replicas 5
TRAINED

# A run that goes on in the middle of an epoch, with sums of its metric in the checkpoint; with another metric it measures the rest.
train=("$dpexec" $here/scores.onnx --data $here/absent.npz --loss cross-entropy --ignore-index=-1 --batch-size 3 --lr 0.1 --threads 1 --quiet)
for metric in confusion-matrix mean-iou accuracy; do
    rm -rf "$DIR/through" "$DIR/cut"
    check "through" "${train[@]}" --metric $metric --epochs 2 --out "$DIR/through"
    check "to be cut" "${train[@]}" --metric $metric --steps 2 --out "$DIR/cut"
    check "goes on" "${train[@]}" --metric $metric --epochs 2 --resume "$DIR/cut"
    check "the same bytes with $metric: $(tail -1 "$DIR/cut/metrics.jsonl")" same_run "$DIR/through" "$DIR/cut"
done
rm -rf "$DIR/cut"
check "to be cut" "${train[@]}" --metric f1 --steps 2 --out "$DIR/cut"
check "goes on with another metric" "${train[@]}" --metric accuracy --epochs 1 --resume "$DIR/cut"
samples=$(tail -1 "$DIR/through/metrics.jsonl" | grep -o '"train_samples":[0-9]*' | cut -d: -f2)
check "and measures the rest" grep -q "\"train_samples\":$((samples - 6))\b" <(tail -1 "$DIR/cut/metrics.jsonl")

# In worlds, whose processes read their parts, beside training that changes nothing: all processes are told the same.
while read -r size set metric; do
    read -r set loss metric flags value < <(grep "^$set [^ ]* $metric " $here/expected.txt)
    arguments "$set" "$loss" "$metric" "$flags"
    rm -rf "$DIR/world"
    check "world of $size" "$dpexec" launch -n "$size" -- train "${args[@]}" --data $here/"$set".npz --val $here/"$set".npz --lr 0 --steps 1 --out "$DIR/world"
    check "$set $metric in a world of $size" is "$value" "$metric" "$(cat "$DIR/world/metrics.jsonl")"
done <<'WORLDS'
2 absent confusion-matrix
3 absent mean-iou
4 ties top-k:2
5 class_ignored f1:weighted
3 numbers rmse
WORLDS

# Sums of micro-batches are the group's; nothing that counts is said to be so.
arguments absent cross-entropy f1 --ignore-index=-1
check "micro-batches" "$dpexec" "${args[@]}" --data $here/absent.npz --replicas 3 --accumulate 3 --epochs 1
check "partitioned as whole" "$graph_transform" $here/scores.onnx --batch-size 5 --replicas 3 --loss cross-entropy --metric confusion-matrix --verify
for metric in mean-iou top-k accuracy confusion-matrix perplexity; do
    arguments none cross-entropy $metric --ignore-index=-1
    check "nothing counts: $metric" test "$("$dpexec" eval "${args[@]}" --data $here/none.npz)" = '{"eval_loss":null,"samples":3}'
done

# Predictions, in the order of the data, whatever the batches and their parts, with targets and a loss or without; the model's scores are
# its input.  A number is no prediction of samples.
for flags in "--replicas 1 --batch-size 23" "--replicas 3 --batch-size 6" "--replicas 5 --batch-size 2 --loss cross-entropy --metric top-k:2"; do
    rm -rf "$DIR/predicted"
    # shellcheck disable=SC2086
    check "predictions $flags" "$dpexec" eval $here/scores.onnx --data $here/plain.npz --threads 1 --quiet --predictions "$DIR/predicted" $flags
    check "scores $flags" /usr/bin/python3 -c "import numpy as n; x, y = n.load('$here/plain.npz')['x'], n.load('$DIR/predicted/scores.npy')
assert x.shape == y.shape and x.dtype == y.dtype and (x == y).all()"
done
check "what is no prediction of samples is told" "$dpexec" eval tests/api/own_losses.onnx --data tests/api/own_losses.npz --threads 1 --batch-size 5 \
    --loss output:loss --predictions "$DIR/own" --replicas 2
says "output 'acc' has no axis of samples: it is not written" "$dpexec" eval tests/api/own_losses.onnx --data tests/api/own_losses.npz \
    --threads 1 --batch-size 5 --loss output:loss --predictions "$DIR/own"
check "and the rest is written" test "$(cd "$DIR/own" && echo *)" = "box_loss.npy scores.npy"
refused 2 "give --loss KIND, which is measured, or --predictions DIR" "$dpexec" eval $here/scores.onnx --data $here/plain.npz
refused 2 "--metric accuracy goes with a --loss" "$dpexec" eval $here/scores.onnx --data $here/plain.npz --metric accuracy --predictions "$DIR/predicted"
refused 2 "--predictions $here/plain.npz: is no folder" "$dpexec" eval $here/scores.onnx --data $here/plain.npz --predictions $here/plain.npz

arguments plain cross-entropy top-k:6 -
refused 2 "--metric top-k:6: the scores have 5 classes" "$dpexec" eval "${args[@]}" --data $here/plain.npz
arguments plain cross-entropy recall:5 -
refused 2 "there is no class 5, the scores have 5 classes" "$dpexec" eval "${args[@]}" --data $here/plain.npz
arguments plain cross-entropy rmse -
refused 2 "--metric rmse needs a target of the output's shape" "$dpexec" eval "${args[@]}" --data $here/plain.npz
arguments absent cross-entropy mean-iou -
refused 1 "-1" "$dpexec" eval "${args[@]}" --data $here/absent.npz
finish
