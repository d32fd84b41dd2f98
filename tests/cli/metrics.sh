#!/bin/bash
# Metrics against scikit-learn's of the whole set (tests/cli/metrics.py): over replicas and processes, batches that end with a smaller
# one, parts without samples, ignored targets, classes that are absent, equal scores.
. "$(dirname "$0")/lib.sh"
here=tests/cli/metrics
serve_python

# arguments SET LOSS METRIC FLAGS: of a row of expected.txt.
arguments() {
    local model=scores
    case $1 in
    numbers | far | labels) model=values ;;
    logits | equal | probabilities) model=single ;;
    pairs) model=pair ;;
    esac
    args=($here/$model.onnx --loss "$2" --batch-size 6 --threads 1 --quiet)
    for metric in $3; do args+=(--metric "$metric"); done
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

# All metrics of a set, loss and flag together, at most 16 at once.
while read -r set loss flags; do
    mapfile -t rows < <(grep "^$set $loss [^ ]* $flags " $here/expected.txt)
    for ((first = 0; first < ${#rows[@]}; first += 16)); do
        arguments "$set" "$loss" "$(printf '%s\n' "${rows[@]:first:16}" | cut -d' ' -f3)" "$flags"
        for replicas in {1..5}; do
            found=$("$dpexec" eval "${args[@]}" --data $here/"$set".npz --replicas $replicas 2>&1)
            while read -r _ _ metric _ value; do check "$set $metric $replicas" is "$value" "$metric" "$found"; done < <(printf '%s\n' "${rows[@]:first:16}")
        done
    done
done < <(cut -d' ' -f1,2,4 $here/expected.txt | uniq | sort -u)

# On simulated GPUs.
if [ -f "$build/libdpexec_cudasim.so" ]; then
    while read -r set; do
        mapfile -t rows < <(grep "^$set " $here/expected.txt | grep -v -- --threshold | head -16)
        read -r _ loss _ flags _ <<<"${rows[0]}"
        arguments "$set" "$loss" "$(printf '%s\n' "${rows[@]}" | cut -d' ' -f3)" "$flags"
        found=$(DPEXEC_CUDA_PLUGIN=$build/libdpexec_cudasim.so "$dpexec" eval "${args[@]}" --data $here/"$set".npz --devices 'cuda*2' --replicas 3 2>&1)
        while read -r _ _ metric _ value; do check "$set $metric on GPUs" is "$value" "$metric" "$found"; done < <(printf '%s\n' "${rows[@]}")
    done < <(cut -d' ' -f1 $here/expected.txt | sort -u)
else
    skip "metrics on simulated GPUs" "not built"
fi

# Targets that differ from the scores by axes of one element have the same values, and train the same model.
py -c 'import numpy as n, sys
for name, at in ("logits", n.s_[:, 0]), ("pairs", n.s_[:, None]), ("plain", n.s_[:, None]), ("numbers", n.s_[..., None]):
    d = n.load("tests/cli/metrics/" + name + ".npz")
    n.savez(sys.argv[1] + "/fits_" + name + ".npz", x=d["x"], target=d["target"][at])' "$DIR"
for set in logits pairs plain numbers; do
    mapfile -t rows < <(grep "^$set " $here/expected.txt | grep -v -- --threshold | head -16)
    read -r _ loss _ flags _ <<<"${rows[0]}"
    arguments "$set" "$loss" "$(printf '%s\n' "${rows[@]}" | cut -d' ' -f3)" "$flags"
    for replicas in 1 3; do
        found=$("$dpexec" eval "${args[@]}" --data "$DIR/fits_$set.npz" --replicas $replicas 2>&1)
        while read -r _ _ metric _ value; do check "targets of $set fit, $metric $replicas" is "$value" "$metric" "$found"; done < <(printf '%s\n' "${rows[@]}")
        for data in $here/"$set".npz "$DIR/fits_$set.npz"; do
            check "training, $data" "$dpexec" "${args[@]}" --data "$data" --lr 0.1 --epochs 2 --replicas $replicas --out "$DIR/${data##*/}.$replicas"
        done
        check "trains as $set, $replicas" cmp "$DIR/$set.npz.$replicas/model.onnx" "$DIR/fits_$set.npz.$replicas/model.onnx"
    done
    check "three processes" "$dpexec" launch -n 3 -- train "${args[@]}" --data "$DIR/fits_$set.npz" --lr 0.1 --epochs 2 --out "$DIR/fits_three_$set"
    check "$set in three processes" same_run "$DIR/fits_$set.npz.3" "$DIR/fits_three_$set"
    check "to be cut" "$dpexec" "${args[@]}" --data "$DIR/fits_$set.npz" --lr 0.1 --steps 3 --out "$DIR/fits_cut_$set"
    check "resumed" "$dpexec" "${args[@]}" --data "$DIR/fits_$set.npz" --lr 0.1 --epochs 2 --resume "$DIR/fits_cut_$set"
    check "$set resumed" same_run "$DIR/fits_$set.npz.1" "$DIR/fits_cut_$set"
done

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
numbers mape --replicas 2 --accumulate 2
numbers r2 --replicas 3
far r2 --replicas 1 --accumulate 2
far r2 --replicas 4 --accumulate 3
logits f1 --replicas 2 --accumulate 3
probabilities accuracy --replicas 3
TRAINED

# A run that goes on in the middle of an epoch, with sums of its metric in the checkpoint; with another metric it measures the rest.
train=("$dpexec" $here/scores.onnx --data $here/absent.npz --loss cross-entropy --ignore-index=-1 --batch-size 3 --lr 0.1 --threads 1 --quiet)
for metric in confusion-matrix mean-iou accuracy "accuracy --metric per-class --metric f1:micro --metric top-k:2"; do
    rm -rf "$DIR/through" "$DIR/cut"
    # shellcheck disable=SC2086     # several words
    {
        check "through" "${train[@]}" --metric $metric --epochs 2 --out "$DIR/through"
        check "to be cut" "${train[@]}" --metric $metric --steps 2 --out "$DIR/cut"
        check "goes on" "${train[@]}" --metric $metric --epochs 2 --resume "$DIR/cut"
    }
    check "the same bytes with $metric: $(tail -1 "$DIR/cut/metrics.jsonl")" same_run "$DIR/through" "$DIR/cut"
done
while read -r set metrics; do
    read -r _ loss _ < <(grep "^$set " $here/expected.txt)
    arguments "$set" "$loss" "$metrics" -
    rm -rf "$DIR/through" "$DIR/cut"
    check "through" "$dpexec" "${args[@]}" --data $here/"$set".npz --lr 0.1 --metric mae --epochs 2 --replicas 2 --out "$DIR/through"
    check "to be cut" "$dpexec" "${args[@]}" --data $here/"$set".npz --lr 0.1 --metric mae --steps 2 --replicas 2 --out "$DIR/cut"
    check "goes on" "$dpexec" "${args[@]}" --data $here/"$set".npz --lr 0.1 --metric mae --epochs 2 --replicas 2 --resume "$DIR/cut"
    check "the same bytes with $metrics: $(tail -1 "$DIR/cut/metrics.jsonl")" same_run "$DIR/through" "$DIR/cut"
done <<'SUMS'
labels auc average-precision:7 per-class
far r2 mape
SUMS
rm -rf "$DIR/cut"
check "to be cut" "${train[@]}" --metric f1 --steps 2 --out "$DIR/cut"
check "goes on with another metric" "${train[@]}" --metric accuracy --epochs 1 --resume "$DIR/cut"
samples=$(tail -1 "$DIR/through/metrics.jsonl" | grep -o '"train_samples":[0-9]*' | cut -d: -f2)
check "and measures the rest" grep -q "\"train_samples\":$((samples - 6))\b" <(tail -1 "$DIR/cut/metrics.jsonl")

# Evaluations of some batches: of samples that lie evenly over the set, by NumPy.
py -c 'import numpy as n, sys
d = n.load("tests/cli/metrics/absent.npz")
at = n.arange(12) * len(d["x"]) // 12
assert len(d["x"]) > 12 and len(set(at)) == 12
n.savez(sys.argv[1] + "/evenly.npz", x=d["x"][at], target=d["target"][at])' "$DIR"
arguments absent cross-entropy "confusion-matrix accuracy f1" --ignore-index=-1
val=(--data $here/absent.npz --val $here/absent.npz --lr 0 --steps 2 --eval-every 1)
evaluated() { grep -o '"eval_loss".*' | sed -E 's/,"samples".*|\}$//'; }
for replicas in 1 3; do
    evenly=$("$dpexec" eval "${args[@]}" --data "$DIR/evenly.npz" --replicas $replicas | evaluated)
    check "two batches, $replicas" "$dpexec" "${args[@]}" "${val[@]}" --eval-batches 2 --replicas $replicas --out "$DIR/evenly$replicas"
    check "lie evenly, $replicas: $evenly" test "$(evaluated <"$DIR/evenly$replicas/metrics.jsonl")" = "$(printf '%s\n' "$evenly" "$evenly")"
done
says "--resume: --eval-batches was '2', is '3' from here on" "$dpexec" "${args[@]}" "${val[@]/#2/3}" --eval-batches 3 --resume "$DIR/evenly1"
loud=()
for argument in "${args[@]}"; do [ "$argument" = --quiet ] || loud+=("$argument"); done
for batches in 2 3; do     # 23 samples are three full batches and a smaller one
    says "; evaluates on $here/absent.npz: $((6 * batches)) of 23" "$dpexec" "${loud[@]}" "${val[@]}" --eval-batches $batches --out none
done
check "two batches, three processes" "$dpexec" launch -n 3 -- train "${args[@]}" "${val[@]}" --eval-batches 2 --out "$DIR/evenly_processes"
check "are those of three replicas" same_run "$DIR/evenly3" "$DIR/evenly_processes"
check "more batches than there are" "$dpexec" "${args[@]}" "${val[@]}" --eval-batches 100 --out "$DIR/more"
check "all" "$dpexec" "${args[@]}" "${val[@]}" --out "$DIR/all"
check "are all" same_run "$DIR/all" "$DIR/more"
refused 2 "--eval-batches needs data to evaluate on: give --val or --val-split" "$dpexec" "${args[@]}" --data $here/absent.npz --eval-batches 2

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
3 far r2
3 logits f1:macro
2 probabilities confusion-matrix
2 labels recall
2 pairs f1:1
2 numbers mape
2 far r2
WORLDS

# ---- metrics of an order: in a run by bins, with a bound; in an evaluation from all scores ----
# within LINE BINS: the values by bins in the last line are off by no more than they say, from those in expected.txt.
cat >"$DIR/within.py" <<'PY'
import json, sys
set_, bins, line = sys.argv[1], sys.argv[2], json.loads(sys.argv[3].splitlines()[-1])
for row in open("tests/cli/metrics/expected.txt"):
    name, _, metric, _, value = row.split(" ", 4)
    if name == set_ and metric in ("auc", "average-precision"):
        key = f"eval_{metric}:{bins}" if bins else f"eval_{metric}"
        off, bound = abs(line[key] - float(value)), line.get(key + "_bound", 0)
        assert off <= bound + 1e-12, (metric, off, bound)
        assert bins != "2" or bound > 0.05, (metric, bound)
        assert bins or set_ == "equal" or bound < 0.02, (metric, bound)      # bins cannot tell that scores are equal
PY
for set in logits equal probabilities labels pairs; do
    read -r _ loss _ flags _ < <(grep "^$set [^ ]* auc " $here/expected.txt)
    for bins in "" :2 :5 :64; do
        arguments "$set" "$loss" "auc$bins average-precision$bins" "$flags"
        rm -rf "$DIR/order"
        check "a run, $set by bins$bins" "$dpexec" "${args[@]}" --data $here/"$set".npz --val $here/"$set".npz --lr 0 --steps 1 --replicas 2 --out "$DIR/order"
        check "$set by bins$bins" py "$DIR/within.py" "$set" "${bins#:}" "$(cat "$DIR/order/metrics.jsonl")"
        "$dpexec" "${args[@]}" --data $here/"$set".npz --val $here/"$set".npz --lr 0 --steps 1 --replicas 3 --out "$DIR/order3" >/dev/null 2>&1
        check "$set by bins$bins, three replicas" test "$(grep -o '"eval_auc.*' "$DIR/order/metrics.jsonl")" = "$(grep -o '"eval_auc.*' "$DIR/order3/metrics.jsonl")"
        rm -rf "$DIR/order3"
    done
done
arguments logits bce-logits "auc accuracy" -
check "one process of three replicas" "$dpexec" "${args[@]}" --data $here/logits.npz --val $here/logits.npz --lr 0.1 --epochs 2 --replicas 3 --out "$DIR/order1"
check "three processes" "$dpexec" launch -n 3 -- train "${args[@]}" --data $here/logits.npz --val $here/logits.npz --lr 0.1 --epochs 2 --out "$DIR/order3"
check "the same bytes" same_run "$DIR/order1" "$DIR/order3"
py -c 'import numpy as n, sys; n.savez(sys.argv[1], x=n.ones((4, 1)), target=n.ones((4, 1)))' "$DIR/positive.npz"
check "one class alone has no AUC" test "$("$dpexec" eval "${args[@]}" --data "$DIR/positive.npz" 2>/dev/null | grep -c auc)" = 0
arguments plain cross-entropy auc -
refused 2 "auc and average-precision need two classes or a binary loss, the scores have 5 classes" "$dpexec" eval "${args[@]}" --data $here/plain.npz

# ---- rows by class ----
arguments absent cross-entropy "per-class confusion-matrix" --ignore-index=-1
cat >"$DIR/rows.py" <<'PY'
import json, sys
m = json.loads(sys.argv[1].splitlines()[-1])
rows, t = m["eval_per-class"], m["eval_confusion-matrix"]
for c, row in enumerate(rows):       # of the matrix, which is scikit-learn's
    hits, found, has = t[c][c], sum(r[c] for r in t), sum(t[c])
    p, r = hits / found if found else 0, hits / has if has else 0
    f = 2 * hits / (found + has) if found + has else 0
    assert row["class"] == str(c) and row["support"] == has, row
    assert abs(row["precision"] - p) + abs(row["recall"] - r) + abs(row["f1"] - f) < 1e-12, row
assert len(rows) == len(t) == 5
PY
check "rows by class" py "$DIR/rows.py" "$("$dpexec" eval "${args[@]}" --data $here/absent.npz --replicas 3)"
loud=()
for argument in "${args[@]}"; do [ "$argument" = --quiet ] || loud+=("$argument"); done
args=("${loud[@]}")
says "class         precision  recall      f1  support" "$dpexec" eval "${args[@]}" --data $here/absent.npz
check "a line for each class" test "$(grep -cE '^[0-4] +[01]\.[0-9]{4} +[01]\.[0-9]{4} +[01]\.[0-9]{4} +[0-9]+$' "$DIR/says.log")" = 5
check "at the end of a run" "$dpexec" "${args[@]}" --data $here/absent.npz --val $here/absent.npz --lr 0 --steps 1
check "a line for each, too" test "$(grep -cE '^[0-4] +[01]\.[0-9]{4} +[01]\.[0-9]{4} +[01]\.[0-9]{4} +[0-9]+$' "$DIR/check.log")" = 5

# ---- several metrics ----
arguments logits bce-logits "f1 f1" -
refused 2 "--metric f1 is given twice" "$dpexec" eval "${args[@]}" --data $here/logits.npz
arguments logits bce-logits "f1 nonsense" -
refused 2 "found 'nonsense'" "$dpexec" eval "${args[@]}" --data $here/logits.npz
arguments logits cross-entropy "" -
refused 1 "needs scores of two classes or more: output 'scores' [6,1] has one" "$dpexec" eval "${args[@]}" --data $here/logits.npz
arguments logits bce-logits "f1 top-k" -
refused 2 "--metric top-k needs class scores: it does not go with --loss bce-logits" "$dpexec" eval "${args[@]}" --data $here/logits.npz
arguments numbers mse "r2 f1" -
refused 2 "--metric f1 needs class scores, or a binary loss (bce, bce-logits): it does not go with --loss mse" "$dpexec" eval "${args[@]}" --data $here/numbers.npz
arguments logits bce-logits "auc:1048577" -
refused 2 "--metric auc: expected a whole number from 2 to 1048576, found '1048577'" "$dpexec" eval "${args[@]}" --data $here/logits.npz
arguments logits bce-logits "f1" --threshold=1
refused 2 "--threshold: expected a probability between 0 and 1, found '1'" "$dpexec" eval "${args[@]}" --data $here/logits.npz
arguments plain cross-entropy "f1" --threshold=0.3
refused 2 "--threshold needs a binary loss" "$dpexec" eval "${args[@]}" --data $here/plain.npz
arguments logits bce-logits "f1" --ignore-index=0
refused 2 "--ignore-index needs a loss of class numbers" "$dpexec" eval "${args[@]}" --data $here/logits.npz
arguments logits bce-logits "auc" --threshold=0.3
refused 2 "--metric auc does not have: --threshold" "$dpexec" eval "${args[@]}" --data $here/logits.npz

# Predictions that are no numbers have no r2, also of targets that do not vary.
py -c 'import numpy as n, sys
d = n.load("tests/cli/metrics/numbers.npz")
n.savez(sys.argv[1] + "/constant.npz", x=n.full_like(d["x"][:3], n.nan), target=n.ones_like(d["target"][:3]))' "$DIR"
arguments numbers mse r2 -
check "no r2 of NaN" test "$("$dpexec" eval "${args[@]}" --data "$DIR/constant.npz" 2>"$DIR/log")" = '{"eval_loss":null,"samples":3}'

# Each can be monitored; the first one that is a number is, by default.
arguments logits bce-logits "confusion-matrix auc f1 accuracy" -
val=(--data $here/logits.npz --val $here/logits.npz --lr 0.1 --epochs 2)
says "best epoch 1: eval auc " "$dpexec" "${args[@]}" "${val[@]}"
for monitor in f1 accuracy loss; do says ": eval $monitor " "$dpexec" "${args[@]}" "${val[@]}" --monitor $monitor; done
refused 2 "--monitor r2: the run does not measure it; expected loss or auc or f1 or accuracy" "$dpexec" "${args[@]}" "${val[@]}" --monitor r2
arguments logits bce-logits "recall:macro recall" -
says ": eval recall 0" "$dpexec" "${args[@]}" "${val[@]}" --monitor recall      # not recall:macro, which comes first
arguments logits bce-logits "f1 recall:macro" -
says ": eval recall:macro 0" "$dpexec" "${args[@]}" "${val[@]}" --monitor recall
arguments numbers mse "mape r2" -
val=(--data $here/numbers.npz --val $here/numbers.npz --lr 0.001 --epochs 2)
says ": eval mape " "$dpexec" "${args[@]}" "${val[@]}"
says ": eval r2 " "$dpexec" "${args[@]}" "${val[@]}" --monitor r2

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
refused 2 "give --loss KIND to measure, or --predictions DIR to write predictions" "$dpexec" eval $here/scores.onnx --data $here/plain.npz
refused 2 "--metric accuracy needs --loss" "$dpexec" eval $here/scores.onnx --data $here/plain.npz --metric accuracy --predictions "$DIR/predicted"
refused 2 "--predictions $here/plain.npz: not a folder" "$dpexec" eval $here/scores.onnx --data $here/plain.npz --predictions $here/plain.npz

arguments plain cross-entropy top-k:6 -
refused 2 "--metric top-k:6: the scores have 5 classes" "$dpexec" eval "${args[@]}" --data $here/plain.npz
arguments plain cross-entropy recall:5 -
refused 2 "there is no class 5, the scores have 5 classes" "$dpexec" eval "${args[@]}" --data $here/plain.npz
arguments plain cross-entropy rmse -
refused 2 "--metric rmse needs a target of the output's shape" "$dpexec" eval "${args[@]}" --data $here/plain.npz
arguments absent cross-entropy mean-iou -
refused 1 "-1" "$dpexec" eval "${args[@]}" --data $here/absent.npz
finish
