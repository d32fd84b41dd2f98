#!/bin/bash
# The best model of a run, early stopping, which checkpoints stay, and time limits: the same however the run is stopped and resumed,
# and in any number of processes.
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-/usr/bin/python3}
"$python" - "$DIR" <<'PY'
import sys
import numpy as np
r = np.random.default_rng(3)
x, w = r.standard_normal((200, 64)).astype("f"), r.standard_normal((64, 10))
y = (x @ w + 3 * r.standard_normal((200, 10))).argmax(1)
np.savez(sys.argv[1] + "/train.npz", x=x[:60], target=y[:60])
np.savez(sys.argv[1] + "/val.npz", x=x[120:], target=y[120:])
PY
flags=(models/mlp.onnx --data "$DIR/train.npz" --loss cross-entropy --optimizer adam --lr 0.01 --batch-size 10 --threads 1 --quiet)
val=(--val "$DIR/val.npz" --metric accuracy)
run=("$dpexec" "${flags[@]}" "${val[@]}")       # six steps an epoch

# chosen FOLDER KEY max|min: the step of the first best evaluation in metrics.jsonl.
chosen() {
    "$python" - "$1/metrics.jsonl" "$2" "$3" <<'PY'
import json, sys
evals = [m for m in map(json.loads, open(sys.argv[1])) if "eval_loss" in m]
best = getattr(__builtins__, sys.argv[3])(m[sys.argv[2]] for m in evals)
print(next(m["step"] for m in evals if m[sys.argv[2]] == best), "%.4f" % best)
PY
}
named() { sed -E 's/.*:([0-9]+).*/\1/' "$1/checkpoints/best"; }
checkpoints() { (cd "$1/checkpoints" && echo step-*) | sed 's/step-0*//g'; }
# same_best A B: the best models, the steps they are of, and the newest checkpoints with their notes.
same_best() {
    local newest
    newest=$(cd "$1/checkpoints" && ls -d step-* | tail -1)
    cmp "$1/best.onnx" "$2/best.onnx" && cmp "$1/checkpoints/best" "$2/checkpoints/best" && diff -r "$1/checkpoints/$newest" "$2/checkpoints/$newest"
}

# ---- which model is the best, and when a run stops ----
whole=$DIR/whole
check "stops early" "${run[@]}" --epochs 60 --patience 4 --checkpoint-every 1 --keep all --out "$whole"
tail -1 "$DIR/check.log" >"$DIR/said"
read -r step value < <(chosen "$whole" eval_accuracy max)
last=$(checkpoints "$whole" | awk '{ print $NF }')
check "four evaluations after the best" test "$last" = $((step + 24))
check "the last line" grep -qx "stopped early at epoch $((last / 6)); best epoch $((step / 6)): eval accuracy $value -> $whole/best.onnx" "$DIR/said"
check "the step is named" test "$(named "$whole")" = "$step"
check "as a run that ends there" "$dpexec" "${flags[@]}" --steps "$step" --out "$DIR/there"
check "is the best model" cmp "$DIR/there/model.onnx" "$whole/best.onnx"
check "a run to its end" "${run[@]}" --steps 30 --monitor loss --eval-every 4 --out "$DIR/loss"
cp "$DIR/check.log" "$DIR/said"
read -r step value < <(chosen "$DIR/loss" eval_loss min)
check "its best by the loss" grep -q "^best step $step: eval loss .* -> $DIR/loss/best.onnx\$" "$DIR/said"
check "its last line" test "$(tail -1 "$DIR/said")" = "model: $DIR/loss/model.onnx"
check "the first step of all that is worst" "${run[@]}" --steps 30 --monitor accuracy:min --eval-every 4 --out "$DIR/worst"
check "is named" test "$(named "$DIR/worst") $value" = "$(chosen "$DIR/worst" eval_accuracy min | cut -d' ' -f1) $value"
check "no best" "${run[@]}" --epochs 60 --patience 4 --no-best --out "$DIR/without"
check "and the same end" cmp "$DIR/without/model.onnx" "$whole/model.onnx"
check "without its files" test ! -e "$DIR/without/best.onnx" -a ! -e "$DIR/without/checkpoints/best"
says "stopped early at epoch $((last / 6)); best epoch" "${run[@]}" --epochs 60 --patience 4
check "without a path" grep -q 'eval accuracy [0-9.]*$' "$DIR/says.log"

# ---- stopped anywhere, and resumed ----
# crashed STEP: the folder as a crash leaves it that loses all behind the checkpoint of STEP, but not the newer best.onnx.
crashed() {
    local n
    rm -rf "$DIR/crashed"
    cp -r "$whole" "$DIR/crashed"
    rm "$DIR/crashed/model.onnx"
    for n in $(checkpoints "$whole"); do [ "$n" -le "$1" ] || rm -r "$DIR/crashed/checkpoints/step-$(printf %09d "$n")"; done
    "${run[@]}" --epochs 60 --patience 4 --checkpoint-every 1 --keep all --resume "$DIR/crashed" >"$DIR/log" 2>&1 &&
        same_run "$whole" "$DIR/crashed" && same_best "$whole" "$DIR/crashed"
}
best=$(named "$whole")
for at in 1 5 6 $((best - 6)) $((best - 1)) "$best" $((best + 1)) $((last - 1)) "$last"; do check "crashed at $at" crashed "$at"; done
rm "$DIR/crashed/best.onnx"
check "a crash before best.onnx was written" "${run[@]}" --epochs 60 --patience 4 --resume "$DIR/crashed"
check "is made good" same_best "$whole" "$DIR/crashed"
says "stopped early at epoch $((last / 6 + 1));" "${run[@]}" --epochs 60 --patience 5 --resume "$DIR/crashed"

# rolled back: the run that is resumed from before its best takes another way.
crashed 6
for n in $(checkpoints "$whole"); do [ "$n" -le 7 ] || rm -r "$DIR/crashed/checkpoints/step-$(printf %09d "$n")"; done
cp "$DIR/crashed/best.onnx" "$DIR/newer.onnx"
check "rolled back" "${run[@]}" --steps 7 --eval-every 100 --resume "$DIR/crashed"
check "to the best before" test "$(named "$DIR/crashed")" = "$(chosen "$DIR/crashed" eval_accuracy max | cut -d' ' -f1)"
differ "$DIR/newer.onnx" "$DIR/crashed/best.onnx" >/dev/null || fail "best.onnx was not rolled back"
check "into a new folder" "${run[@]}" --epochs 60 --patience 4 --resume "$whole" --out "$DIR/moved"
check "with its best" same_best "$whole" "$DIR/moved"
says "the best model is chosen among later evaluations" "${run[@]}" --epochs 60 --steps $((last + 6)) --monitor loss --resume "$DIR/moved"
check "which is the last" test "$(named "$DIR/moved")" = $((last + 6))

# With other data to evaluate on, earlier evaluations do not count.
"$python" - "$DIR" <<'PY'
import os, sys
import numpy as np
val = np.load(sys.argv[1] + "/val.npz")
np.savez(sys.argv[1] + "/other.npz", x=val["x"][::-1] * 2, target=val["target"])
os.mkdir(sys.argv[1] + "/folder")
for name in val.files:
    np.save(f"{sys.argv[1]}/folder/{name}.npy", val[name])
PY
# on SRC: goes on from six steps behind the best of the first run, with SRC for --val.
step=$(named "$whole")
cp -r "$whole" "$DIR/begun"
rm "$DIR/begun/model.onnx"
for n in $(checkpoints "$whole"); do [ "$n" -le $((step + 6)) ] || rm -r "$DIR/begun/checkpoints/step-$(printf %09d "$n")"; done
on() {
    rm -rf "$DIR/half"
    cp -r "$DIR/begun" "$DIR/half"
    "${run[@]/#$DIR\/val.npz/$1}" --steps $((step + 60)) --epochs 60 --keep all --resume "$DIR/half"
}
on "$DIR/folder" >"$DIR/log" 2>&1 || fail "the same samples in other files"
check "nothing to say" test "$(grep -c 'best model is chosen' "$DIR/log")" = 0
check "their best stays" test "$(named "$DIR/half")" = "$(chosen "$DIR/half" eval_accuracy max | cut -d' ' -f1)"
says "--resume: --val has other samples from here on: the best model is chosen among later evaluations" on "$DIR/other.npz"
grep -v "\"step\":\($(seq -s '\|' 1 $((step + 6)))\)," "$DIR/half/metrics.jsonl" >"$DIR/later.jsonl"
mkdir "$DIR/later"
mv "$DIR/later.jsonl" "$DIR/later/metrics.jsonl"
check "the best of the later ones" test "$(named "$DIR/half")" = "$(chosen "$DIR/later" eval_accuracy max | cut -d' ' -f1)"
says "--val has other samples" on "$DIR/val.npz,limit=50"
sed -i -E '/note_xxh3_128/d; s/,?\\"val\\":\\"[^"]*\\"//' "$DIR"/begun/checkpoints/*/manifest.json
on "$DIR/other.npz" >"$DIR/log" 2>&1 || fail "a note of an earlier version"
check "does not tell" test "$(grep -c 'best model is chosen' "$DIR/log")" = 0

# by signals and time limits, as they come
limited=$DIR/limited
how=--out
for _ in $(seq 40); do
    "${run[@]}" --epochs 60 --patience 4 --time-limit 0.02s $how "$limited" >"$DIR/log" 2>&1 || { fail "a time limit"; cat "$DIR/log"; break; }
    how=--resume
    grep -q '^stopped early' "$DIR/log" && break
    grep -q '^stopped by --time-limit 0.02s at step [0-9]* of 360; go on by: dpexec resume ' "$DIR/log" || fail "a time limit is not told"
    [ -s "$limited/model.onnx" ] || fail "a time limit writes no model"
done
check "many time limits" "${run[@]}" --epochs 60 --patience 4 $how "$limited"
check "end alike" same_run "$whole" "$limited"
check "with the same best" same_best "$whole" "$limited"
"${run[@]}" --epochs 60 --patience 4 --out "$DIR/killed" >"$DIR/log" 2>&1 &
pid=$!
for _ in $(seq 2000); do [ "$(grep -c '' "$DIR/killed/metrics.jsonl" 2>/dev/null)" -ge 15 ] 2>/dev/null && break; sleep 0.002; done
kill -TERM $pid
wait $pid 2>/dev/null
check "stopped by a signal" "${run[@]}" --epochs 60 --patience 4 --resume "$DIR/killed"
check "ends alike" same_run "$whole" "$DIR/killed"
check "with the same best, too" same_best "$whole" "$DIR/killed"

# ---- no best ----
mkdir -p "$DIR/early/checkpoints"
cp "$whole/best.onnx" "$whole/metrics.jsonl" "$DIR/early"       # of an attempt that ended before its first checkpoint
cp "$whole/checkpoints/best" "$DIR/early/checkpoints"
says "no best model: the run ended before its first evaluation" "${run[@]}" --epochs 60 --patience 4 --time-limit 0.000001s --out "$DIR/early"
check "there is none" test ! -e "$DIR/early/best.onnx" -a ! -e "$DIR/early/checkpoints/best" -a -s "$DIR/early/best.1.onnx" -a -s "$DIR/early/model.onnx"
check "goes on to one" "${run[@]}" --epochs 60 --patience 4 --resume "$DIR/early"
check "and ends alike" same_best "$whole" "$DIR/early"
cp -r "$DIR/crashed" "$DIR/late"
says "no best model: the run ended before its first evaluation" "${run[@]}" --epochs 90 --monitor loss --time-limit 0.000001s --resume "$DIR/late"
check "by another monitor" test ! -e "$DIR/late/best.onnx" -a ! -e "$DIR/late/checkpoints/best"
"$python" - "$DIR" <<'PY'
import sys
import numpy as np
np.savez(sys.argv[1] + "/one_class.npz", x=np.ones((6, 64), "f"), target=np.full((6, 10), np.nan))
PY
refused 1 "the evaluation loss of step 12 is nan" "$dpexec" "${flags[@]}" --epochs 2 --val "$DIR/one_class.npz"
check "no number at all" grep -qx "no best model: eval loss was never a finite number" "$DIR/refused.out"

# ---- a run's folder elsewhere, by its own flags ----
check "to be moved" "${run[@]}" --epochs 60 --patience 4 --steps $((best + 6)) --out "$DIR/here"
mkdir "$DIR/deep"
mv "$DIR/here" "$DIR/deep/there"
check "resumed there" "$dpexec" resume "$DIR/deep/there" --steps 360 --quiet
check "ends as if it had stayed" same_run "$whole" "$DIR/deep/there"
check "with its best" same_best "$whole" "$DIR/deep/there"
check "to be left" "${run[@]}" --epochs 60 --patience 4 --steps $((best + 6)) --out "$DIR/left"
check "goes on in another" "${run[@]}" --epochs 60 --patience 4 --resume "$DIR/left" --out "$DIR/taken"
check "with the best of before" same_best "$whole" "$DIR/taken"
check "beside its newest" test "$(checkpoints "$DIR/taken")" = "$best $last"

# ---- a part of --data to evaluate on ----
split=("$dpexec" "${flags[@]}" --val-split 0.3 --metric accuracy --epochs 60 --patience 3 --checkpoint-every 1e)
check "a part of --data" "${split[@]}" --out "$DIR/part"
tail -1 "$DIR/check.log" >"$DIR/said"
read -r step value < <(chosen "$DIR/part" eval_accuracy max)
ended=$(checkpoints "$DIR/part" | awk '{ print $NF }')
per_epoch=$(grep -c '"epoch":1,' "$DIR/part/metrics.jsonl")
check "its patience" test "$ended" = $((step + 3 * per_epoch))
check "its last line" grep -qx "stopped early at epoch $((ended / per_epoch)); best epoch $((step / per_epoch)): eval accuracy $value -> $DIR/part/best.onnx" "$DIR/said"
check "its checkpoints" test "$(checkpoints "$DIR/part")" = "$(printf '%s\n' "$step" $((ended - per_epoch)) "$ended" | sort -un | paste -sd' ')"
how=--out
for _ in $(seq 40); do
    "${split[@]}" --time-limit 0.02s $how "$DIR/parts" >"$DIR/log" 2>&1 || { fail "a time limit beside --val-split"; cat "$DIR/log"; break; }
    how=--resume
    grep -q '^stopped early' "$DIR/log" && break
done
check "to the end of a part" "${split[@]}" $how "$DIR/parts"
check "however it is stopped" same_run "$DIR/part" "$DIR/parts"
check "its best" same_best "$DIR/part" "$DIR/parts"

# ---- several processes ----
check "three replicas" "${run[@]}" --replicas 3 --epochs 60 --patience 3 --keep 1 --out "$DIR/one"
for level in none optimizer; do
    check "three processes, $level" "$dpexec" launch -n 3 -- train "${flags[@]}" "${val[@]}" --shard $level --epochs 60 --patience 3 --keep 1 \
        --out "$DIR/three-$level"
    check "the same run, $level" same_run "$DIR/one" "$DIR/three-$level"
    check "the same best, $level" same_best "$DIR/one" "$DIR/three-$level"
    check "the same checkpoints, $level" test "$(checkpoints "$DIR/one")" = "$(checkpoints "$DIR/three-$level")"
done
check "three, stopped" "$dpexec" launch -n 3 -- train "${flags[@]}" "${val[@]}" --shard optimizer --epochs 60 --patience 3 --keep 1 --time-limit 0.01s --out "$DIR/stopped"
check "and resumed" "$dpexec" launch -n 3 -- train "${flags[@]}" "${val[@]}" --shard optimizer --epochs 60 --patience 3 --keep 1 --resume "$DIR/stopped"
check "the same run in three" same_run "$DIR/one" "$DIR/stopped"
check "the same best in three" same_best "$DIR/one" "$DIR/stopped"

# ---- groups of batches that go on in the next epoch: no checkpoint within one ----
check "across epochs" "${run[@]}" --accumulate 4 --accumulate-across-epochs --epochs 8 --checkpoint-every 1e --out "$DIR/across"
check "has its best" test "$(named "$DIR/across")" = "$(chosen "$DIR/across" eval_accuracy max | cut -d' ' -f1)"

# ---- checkpoints that stay ----
check "two and the best" "${run[@]}" --steps 60 --checkpoint-every 5 --out "$DIR/kept"
best=$(named "$DIR/kept")
check "are left" test "$(checkpoints "$DIR/kept")" = "$(printf '%s\n' "$best" 55 60 | sort -un | paste -sd' ')"
cp -r "$DIR/kept/checkpoints/step-000000055" "$DIR/kept/checkpoints/step-000000003"
check "goes on" "${run[@]}" --steps 75 --checkpoint-every 5 --keep 1 --resume "$DIR/kept"
best=$(named "$DIR/kept")
check "what others put there stays" test "$(checkpoints "$DIR/kept")" = "$(printf '%s\n' 3 "$best" 75 | sort -un | paste -sd' ')"
check "each epoch" "$dpexec" "${flags[@]}" --epochs 4 --checkpoint-every 2e --keep all --out "$DIR/epochs"
check "has its checkpoint" test "$(checkpoints "$DIR/epochs")" = "12 24"
check "every few milliseconds" "$dpexec" "${flags[@]}" --epochs 20 --checkpoint-every 0.001s --keep 4 --out "$DIR/often"
check "the newest stay" test "$(checkpoints "$DIR/often" | wc -w)" = 4

# ---- a checkpoint of an earlier version knows no best ----
check "a short run" "${run[@]}" --steps 12 --no-best --out "$DIR/old"
sed -i -E '/note_xxh3_128/d; s/,\\"best\\":\{[^}]*\}//' "$DIR"/old/checkpoints/*/manifest.json
rm "$DIR/old/checkpoints/.saved"
grep -q best "$DIR"/old/checkpoints/*/manifest.json && fail "the note still has its best"
check "goes on without one" "${run[@]}" --steps 24 --resume "$DIR/old"
check "and finds one" test "$(named "$DIR/old")" -gt 0
sed -i -E '/note_xxh3_128/d; s/(\\"best\\":.*\\"since\\":)[0-9]+/\1-3/' "$DIR"/old/checkpoints/*/manifest.json
refused 1 "the note's best evaluation is none of" "${run[@]}" --steps 30 --resume "$DIR/old"

# ---- a plateau follows the monitor ----
check "follows accuracy" "${run[@]}" --epochs 30 --monitor accuracy --lr-schedule plateau:0.5:2 --out "$DIR/level"
check "as MODE max does" "${run[@]}" --epochs 30 --lr-schedule plateau:0.5:2:0.0001:rel:0:0:max --out "$DIR/mode"
check "the same rates" same_run "$DIR/level" "$DIR/mode"
check "lower in the end" test "$(grep -o '"lr":[^,]*' "$DIR/level/metrics.jsonl" | sort -u | wc -l)" -gt 2

rates() { grep -o '"lr":[^,]*' "$1/metrics.jsonl"; }
check "without --monitor" "${run[@]}" --epochs 30 --lr-schedule plateau:0.5:2 --out "$DIR/by-default"
check "as with it" same_run "$DIR/level" "$DIR/by-default"
check "the loss" "${run[@]}" --epochs 30 --lr-schedule plateau:0.5:2 --monitor loss --out "$DIR/by-loss"
check "is MODE min" "${run[@]}" --epochs 30 --lr-schedule plateau:0.5:2:0.0001:rel:0:0:min --out "$DIR/min"
check "of the same rates" test "$(rates "$DIR/by-loss")" = "$(rates "$DIR/min")"
differ "$DIR/level/model.onnx" "$DIR/by-loss/model.onnx" >/dev/null || fail "loss and accuracy lower the rate alike"
check "before plateaus followed metrics" "${run[@]}" --epochs 9 --lr-schedule plateau:0.5:2 --monitor loss --out "$DIR/earlier"
check "a run goes on" "${run[@]}" --epochs 30 --lr-schedule plateau:0.5:2 --resume "$DIR/earlier"
check "with the loss" test "$(rates "$DIR/by-loss")" = "$(rates "$DIR/earlier")"
loud=()
for argument in "${run[@]}"; do [ "$argument" = --quiet ] || loud+=("$argument"); done
says "lr-schedule plateau, which follows the eval accuracy" "${loud[@]}" --epochs 1 --lr-schedule plateau --out none
says "lr-schedule plateau, which follows the eval loss" "${loud[@]}" --epochs 1 --lr-schedule plateau --monitor loss --out none
says "lr-schedule plateau, which follows the eval perplexity" "${loud[@]}" --metric perplexity --epochs 1 --lr-schedule plateau --monitor perplexity --out none
says "lr-schedule plateau, which follows the train loss" "$dpexec" "${flags[@]/--quiet/--no-shuffle}" --epochs 1 --lr-schedule plateau --out none
refused 2 "its MODE is for metrics that should fall, and it follows accuracy, which should rise: give another --monitor, or max" \
    "${run[@]}" --metric perplexity --lr-schedule plateau:0.5:2:0.0001:rel:0:0:min-metric
refused 2 "its MODE is for metrics that should rise, and it follows perplexity, which should fall: give another --monitor, or min-metric" \
    "${run[@]}" --metric perplexity --monitor perplexity --group '*:schedule=plateau:0.5:2:0.0001:rel:0:0:max'

# ---- what is refused ----
refused 2 "without --val nothing is evaluated, and no best model chosen: leave out: --monitor; --patience; --no-best" \
    "$dpexec" "${flags[@]}" --monitor loss --patience 3 --no-best
refused 2 "--monitor f1: the run does not measure it; expected loss or accuracy" "${run[@]}" --monitor f1
refused 2 "--checkpoint-every: expected steps (500), epochs (1e) or a time (90s, 10m, 2h), found '5x'" "${run[@]}" --checkpoint-every 5x --out "$DIR/none"
refused 2 "--time-limit: expected a time (90s, 10m, 2h), found '90'" "${run[@]}" --time-limit 90
refused 2 "--keep: expected a whole number from 1, or all, found '0'" "${run[@]}" --keep 0
finish
