#!/bin/bash
# Sequences of unequal length against PyTorch (tests/cli/ragged.py), and against themselves (tests/cli/ragged_own.py): an encoder with a key padding mask, whose scores are for each
# position, and convolutions with an input `lengths`, whose scores are for each sequence.
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-/usr/bin/python3}
here=tests/cli/ragged
common=(--loss cross-entropy --dtype float64 --batch-size 4 --lr 0.25 --no-shuffle --steps 10 --threads 1 --quiet --plain-defaults)
encoder=("$dpexec" $here/encoder.onnx "${common[@]}" --data $here/encoder.npz)
words=("$dpexec" $here/words.onnx "${common[@]}" --data $here/words.npz)

# within BOUND A B: lists of as many numbers, each within BOUND of the other's, relatively.
within() {
    awk -v e="$1" -v a="$2" -v b="$3" 'BEGIN { n = split(a, x, " "); m = split(b, y, " "); if (n != m || n != 10) exit 1
        for (i = 1; i <= n; i++) { d = x[i] - y[i]; if (d < 0) d = -d; if (!(d <= e * (y[i] < 0 ? -y[i] : y[i]))) exit 1 } }'
}

# trains NAME DIR COMMAND...: the losses of ten steps are PyTorch's.
trains() {
    local name=$1 run=$DIR/$2
    shift 2
    check "$*" "$@" --out "$run"
    check "losses of $*: $(losses "$run")" within 1e-11 "$(losses "$run")" "$(expected "$name" 3-)"
}

# Batches of 4, 4 and 2: parts are uneven on 3 replicas, and of 5 one is always empty.
for replicas in 1 2 3 5; do
    trains encoder encoder-$replicas "${encoder[@]}" --replicas $replicas
    trains words words-$replicas "${words[@]}" --replicas $replicas
done
# Micro-batches of other lengths than their group's.
trains encoder accumulated "${encoder[@]/#4/2}" --accumulate 2 --replicas 2

# Batches of like lengths, in an order that seed and epoch decide; a run goes on in it, and not in another.
like=(--group-by-length --seed 3)
shuffled=("${encoder[@]/--no-shuffle/--debug}")
for replicas in 1 3; do
    trains encoder-grouped grouped-$replicas "${shuffled[@]}" "${like[@]}" --replicas $replicas
    trains words-grouped grouped-words-$replicas "${words[@]/--no-shuffle/--debug}" "${like[@]}" --replicas $replicas
done
check "grouped, to be resumed" "${shuffled[@]/#10/4}" "${like[@]}" --out "$DIR/like"
refused 2 "group-by-length was 'given', is ''" "${shuffled[@]}" --seed 3 --resume "$DIR/like"
check "grouped, resumed" "${shuffled[@]}" "${like[@]}" --resume "$DIR/like"
check "the bits of groups behind a resume" same_run "$DIR/grouped-1" "$DIR/like"
refused 2 "--group-by-length: no array of the data is of sequences" "$dpexec" models/mlp.onnx --data tests/oracle/data/digits.npz --loss cross-entropy \
    --group-by-length --quiet

# Numbers in the padding of a file, be they none, and how far the file is padded, change nothing; how far batches are, no more than rounding.
for data in zeros nan huge longer; do
    check "padding of $data" "${encoder[@]/%encoder.npz/encoder_$data.npz}" --replicas 3 --out "$DIR/$data"
    check "the bits with padding of $data" same_run "$DIR/encoder-3" "$DIR/$data"
done
check "padded further" "${encoder[@]}" --pad-multiple 16 --replicas 3 --out "$DIR/further"
check "losses when padded further: $(losses "$DIR/further")" within 1e-12 "$(losses "$DIR/further")" "$(losses "$DIR/encoder-3")"
check "other padding" "${encoder[@]}" --padding x=1e30 --padding-mask src_key_padding_mask=x --replicas 3 --out "$DIR/other"
check "the bits with other padding" cmp "$DIR/encoder-3/model.onnx" "$DIR/other/model.onnx"
for number in nan inf; do
    refused 1 "the loss of step 1 is nan" "${encoder[@]}" --padding x=$number
done
check "losses with other padding" within 1e-12 "$(losses "$DIR/other")" "$(losses "$DIR/encoder-3")"

# --pad-to replica: each replica's part is as long as its own longest.  The same losses, whatever is in the padding, in processes too;
# of 10 samples of 42 positions, in batches of 4, 4 and 2, the parts that there are have fewer positions than the batches.
own=(--pad-to replica)
for replicas in 1 2 3 5; do
    trains encoder encoder-own-$replicas "${encoder[@]}" "${own[@]}" --replicas $replicas
    trains words words-own-$replicas "${words[@]}" "${own[@]}" --replicas $replicas
    check "losses of own lengths on $replicas" within 1e-12 "$(losses "$DIR/encoder-own-$replicas")" "$(losses "$DIR/encoder-$replicas")"
done
trains encoder accumulated-own "${encoder[@]/#4/2}" "${own[@]}" --accumulate 2 --replicas 2
for data in nan huge; do
    check "own lengths, padding of $data" "${encoder[@]/%encoder.npz/encoder_$data.npz}" "${own[@]}" --replicas 3 --out "$DIR/own-$data"
    check "the bits of own lengths with padding of $data" same_run "$DIR/encoder-own-3" "$DIR/own-$data"
done
check "own lengths in multiples" "${encoder[@]}" "${own[@]}" --pad-multiple 4 --replicas 3 --out "$DIR/own-further"
check "losses of own lengths in multiples" within 1e-12 "$(losses "$DIR/own-further")" "$(losses "$DIR/encoder-3")"
check "own lengths in two processes" together 2 "${encoder[@]:1}" "${own[@]}" --out "$DIR/own-world"
check "the bits of own lengths in two processes" same_run "$DIR/encoder-own-2" "$DIR/own-world"
check "what is computed" "$python" - "$DIR" <<'PY'
import json, sys
# lengths 3 7 1 5 | 6 2 4 4 | 1 9: two replicas 7 5 | 6 4 | 2 9 (at least two), three 7 2 5 | 6 4 4 | 2 9 and one without samples
def computed(run):
    records = [json.loads(line) for line in open(sys.argv[1] + "/" + run + "/metrics.jsonl")]
    return next((p["positions"], p["computed"]) for p in (r.get("padding") for r in records) if p)
tensors = 3     # x, the mask and the target
assert computed("encoder-2") == (42 * tensors, (4 * 7 + 4 * 6 + 2 * 9) * tensors), computed("encoder-2")
assert computed("encoder-own-2") == (42 * tensors, (2 * 7 + 2 * 5 + 2 * 6 + 2 * 4 + 2 + 9) * tensors), computed("encoder-own-2")
assert computed("encoder-own-3") == (42 * tensors, (2 * 7 + 2 + 5 + 2 * 6 + 4 + 4 + 2 + 9) * tensors), computed("encoder-own-3")
PY
check "own lengths, to be resumed" "${encoder[@]/#10/4}" "${own[@]}" --replicas 3 --out "$DIR/own-resumed"
check "a copy of that" cp -r "$DIR/own-resumed" "$DIR/own-changed"
says "--pad-to was 'replica', is 'auto' from here on" "${encoder[@]/--quiet/--debug}" --replicas 3 --resume "$DIR/own-changed"
check "own lengths, resumed" "${encoder[@]}" "${own[@]}" --replicas 3 --resume "$DIR/own-resumed"
check "the bits of own lengths behind a resume" same_run "$DIR/encoder-own-3" "$DIR/own-resumed"

# computed RUN: the positions computed in its first epoch.
computed() { grep -o '"computed":[0-9]*' "$DIR/$1/metrics.jsonl" | head -1 | cut -d: -f2; }

# Positions that are learned, dropout and a mean over what there is, as PyTorch exports them: the numbers that are drawn are those of the
# step's length, so that masks are the same.
dropout=("$dpexec" $here/dropout.onnx "${common[@]}" --data $here/words.npz)
for replicas in 2 3 4; do
    check "dropout of $replicas" "${dropout[@]}" --replicas $replicas --out "$DIR/dropout-$replicas"
    check "dropout of own lengths" "${dropout[@]}" "${own[@]}" --replicas $replicas --out "$DIR/dropout-own-$replicas"
    check "fewer positions of dropout" test "$(computed dropout-own-$replicas)" -lt "$(computed dropout-$replicas)"
    check "losses of dropout of $replicas" within 1e-12 "$(losses "$DIR/dropout-own-$replicas")" "$(losses "$DIR/dropout-$replicas")"
done

# What brings together all positions of a batch keeps the step's length, and says why.
for model in "mean:scales a sum over the batch by a number that follows its length" "norm:measures all positions of a part, padding too"; do
    name=${model%%:*}
    case $name in mean) what=(--loss output:loss --data $here/only.npz);; norm) what=(--loss cross-entropy --data $here/words.npz);; esac
    of=("$dpexec" $here/$name.onnx "${what[@]}" --dtype float64 --batch-size 4 --lr 0.1 --no-shuffle --steps 10 --threads 1 --replicas 3)
    check "$name" "${of[@]}" --quiet --out "$DIR/$name"
    says "${model#*:}" "${of[@]}" "${own[@]}" --out "$DIR/$name-own"
    check "the bits of $name" same_run "$DIR/$name" "$DIR/$name-own"
done

# A model of six positions has its inputs, and targets, padded to six; one whose positions do not see each other needs no mask.
plain=("${common[@]}" --data $here/short.npz)
check "positions left open" "$dpexec" tests/cli/losses/open.onnx "${plain[@]}" --out "$DIR/open"
check "six positions" "$dpexec" tests/cli/losses/fixed.onnx "${plain[@]}" --class-axis 2 --replicas 2 --out "$DIR/fixed"
check "losses of six positions: $(losses "$DIR/fixed")" within 1e-12 "$(losses "$DIR/fixed")" "$(losses "$DIR/open")"
says "no input of the model gets their lengths" "$dpexec" tests/cli/losses/open.onnx "${plain[@]/--quiet/--debug}"
refused 2 "input 'x' is [?,6], the data's array is of sequences, at most [10,9]" "$dpexec" tests/cli/losses/fixed.onnx "${plain[@]/%short.npz/long.npz}"

# Evaluation of batches of other lengths is that of the whole; the loss counts labels, not positions.
for name in encoder words; do
    loss=$(evaluated $here/$name.onnx --data $here/$name.npz --loss cross-entropy --dtype float64 --batch-size 3 --threads 1)
    check "evaluation of $name: $loss" awk -v a="$loss" -v b="$(expected $name 2)" 'BEGIN { exit !(a - b < 1e-11 && b - a < 1e-11) }'
done

right=$("$dpexec" eval $here/encoder.onnx --data $here/encoder.npz --loss cross-entropy --dtype float64 --batch-size 3 --threads 1 --metric accuracy \
    --replicas 2 --quiet | grep -o '"eval_accuracy":[^,}]*' | cut -d: -f2)
check "accuracy of what there is: $right" awk -v a="$right" -v b="$(expected right 2)" 'BEGIN { exit !(a - b < 1e-12 && b - a < 1e-12) }'

# Processes read their own sequences, and pad them to the longest of all; a run goes on where it stopped.
check "two processes" together 2 "${encoder[@]:1}" --out "$DIR/world"
check "the bits of two processes" same_run "$DIR/encoder-2" "$DIR/world"
check "to be resumed" "${encoder[@]/#10/4}" --out "$DIR/resumed"
check "resumed" "${encoder[@]}" --resume "$DIR/resumed"
check "the bits behind a resume" same_run "$DIR/encoder-1" "$DIR/resumed"
zeros=("${encoder[@]/%encoder.npz/encoder_zeros.npz}")
check "begun with zeros" "${zeros[@]/#10/4}" --out "$DIR/other-file"
check "goes on with other numbers in the padding" "${encoder[@]/%encoder.npz/encoder_nan.npz}" --resume "$DIR/other-file"
check "the bits behind that" same_run "$DIR/encoder-1" "$DIR/other-file"
check "begun to be padded further" "${encoder[@]/#10/4}" --out "$DIR/wider"
says "--resume: --pad-multiple was '1', is '4' from here on" "${encoder[@]/--quiet/--debug}" --pad-multiple 4 --resume "$DIR/wider"
check "losses when padded further behind a resume" within 1e-12 "$(losses "$DIR/wider")" "$(losses "$DIR/encoder-1")"
refused 2 "data by digest was" "${encoder[@]/#10/12}" --padding x=1 --resume "$DIR/resumed"

# Predictions have the positions that there are: those of a sample alone, which nothing pads.
arrays() {
    "$python" -c "
import sys; import numpy as np
d = np.load(sys.argv[1] + '/encoder.npz'); n = np.load(sys.argv[1] + '/encoder_nan.npz'); w = np.load(sys.argv[1] + '/words.npz')
f = dict(x=d['x'], ends=d['x.offsets'], nan=n['x'], lengths=n['x.lengths'], words=w['words'], word_ends=w['words.offsets'])
f['word_lengths'] = np.diff(f['word_ends'])
for i in (0, 4, 9):
    f['x%d' % i] = d['x'][d['x.offsets'][i]:d['x.offsets'][i + 1]][None]
    f['mask%d' % i] = np.zeros(f['x%d' % i].shape[:2], bool)
for k in f: np.save('$DIR/%s.npy' % k, f[k])" $here
}
alike() {
    "$python" - "$DIR" <<'PY'
import sys
import numpy as np
d = sys.argv[1]
load = lambda *p: np.load("/".join((d,) + p))
ends = load("ends.npy")
for run in ("predicted", "run", "run-lengths", "own", "run-own"):
    y = load(run, "scores.npy")
    assert y.shape == (ends[-1], 5) and np.array_equal(load(run, "scores.offsets.npy"), ends), (run, y.shape)
    for i in (0, 4, 9):
        alone = load("alone%d" % i, "scores.npy")[0]
        assert np.abs(y[ends[i]:ends[i + 1]] - alone).max() < 1e-12, (run, i)
assert np.array_equal(load("run", "scores.npy"), load("run-lengths", "scores.npy"))
assert load("told", "scores.npy").shape == (10, 5) and np.array_equal(load("told", "scores.npy"), load("given", "scores.npy"))
PY
}
exact=(--dtype float64 --threads 1 --quiet)
check "arrays" arrays
check "predictions" "$dpexec" eval $here/encoder.onnx --data $here/encoder.npz --batch-size 4 --replicas 3 --predictions "$DIR/predicted" "${exact[@]}"
check "predictions of own lengths" "$dpexec" eval $here/encoder.onnx --data $here/encoder.npz --batch-size 4 --replicas 3 --predictions "$DIR/own" \
    "${own[@]}" "${exact[@]}"
check "run with own lengths" "$dpexec" run $here/encoder.onnx --input "x=$DIR/nan.npy" --input "x.lengths=$DIR/lengths.npy" --out "$DIR/run-own" \
    --replicas 4 "${own[@]}" "${exact[@]}"
check "run by offsets" "$dpexec" run $here/encoder.onnx --input "x=$DIR/x.npy" --input "x.offsets=$DIR/ends.npy" --out "$DIR/run" "${exact[@]}"
check "run by lengths" "$dpexec" run $here/encoder.onnx --input "x.lengths=$DIR/lengths.npy" --input "x=$DIR/nan.npy" --out "$DIR/run-lengths" \
    "${exact[@]}"
for i in 0 4 9; do
    check "sample $i alone" "$dpexec" run $here/encoder.onnx --input "x=$DIR/x$i.npy" --input "src_key_padding_mask=$DIR/mask$i.npy" \
        --out "$DIR/alone$i" "${exact[@]}"
done
of_words=(run $here/words.onnx --input "words=$DIR/words.npy" --input "words.offsets=$DIR/word_ends.npy" "${exact[@]}")
check "an input is told" "$dpexec" "${of_words[@]}" --out "$DIR/told"
check "the same input is given" "$dpexec" "${of_words[@]}" --input "lengths=$DIR/word_lengths.npy" --out "$DIR/given"
check "predictions are the positions that there are" alike
refused 2 "--input y.offsets: there is no --input y" "$dpexec" "${of_words[@]}" --input "y.offsets=$DIR/ends.npy" --out "$DIR/no"
refused 2 "--mask is for sequences" "$dpexec" run $here/encoder.onnx --input "x=$DIR/x0.npy" --mask mask --out "$DIR/no"

# What is told, and what is refused.
loud=("${encoder[@]/--quiet/--debug}")
says "--data $here/encoder.npz: the sequences of 'x': input 'src_key_padding_mask' gets 1 at their padding" "${loud[@]/#10/1}"
says "the sequences of 'words': input 'lengths' gets their lengths" "${words[@]/--quiet/--debug}" --lengths lengths=words
says "along axis 2, as the targets' shape says" "${loud[@]/#10/1}"
says "--data $here/encoder.npz: sequences have 8 lengths, each compiles a program, and 4 are kept" "${loud[@]}" --programs 4
says "8 lengths, each combination of lengths over the replicas compiles a program, and 32 are kept" "${loud[@]}" "${own[@]}"
"${loud[@]}" --programs 4 --pad-multiple 3 >"$DIR/log" 2>&1 # 3, 6 and 9
check "three lengths are few" test "$(grep -c "programs are kept" "$DIR/log")" = 0
refused 1 "sample 3: " "${encoder[@]/%encoder.npz/encoder_bad.npz}" --replicas 2
refused 2 "--loss mse cannot leave out" "${encoder[@]/#cross-entropy/mse}"
refused 2 "--padding mask=1: no input or target of that name has sequences" "${encoder[@]}" --padding mask=1
refused 2 "--padding x=far: expected NAME=VALUE, a number" "${encoder[@]}" --padding x=far
refused 2 "'words' is int64, which has no such number" "${words[@]}" --padding words=0.5
refused 2 "a target of classes is padded with --ignore-index" "${encoder[@]}" --padding target=0
refused 2 "--mask m: the model has no such input" "${encoder[@]}" --mask m
refused 2 "no sequences of that name ('y' with 'y.offsets' or 'y.lengths')" "${encoder[@]}" --padding-mask src_key_padding_mask=y
refused 2 "has rank 1, but --mask gives rank 2" "${words[@]}" --mask lengths
refused 2 "expected a whole number from 1" "${encoder[@]}" --pad-multiple 0
finish
