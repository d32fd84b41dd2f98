#!/bin/bash
# --lr-find: the rates and the suggestion are those of Lightning's and fastai's formulas (NumPy), on one process and on two; nothing of
# the training is kept.
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-/usr/bin/python3}
mlp=(models/mlp.onnx --data tests/oracle/data/digits.npz --loss cross-entropy --batch-size 32 --threads 1 --replicas 2 --lr-find)

# agrees RUN STEPS DIVERGED: lr_find.json holds the steps of metrics.jsonl, and what follows from them.
agrees() {
    "$python" - "$@" <<'END'
import json, sys
import numpy as np
run, steps, diverged = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "diverged"
found = json.load(open(run + "/lr_find.json"))
rows = [json.loads(line) for line in open(run + "/metrics.jsonl")]
lr, loss, seen = (np.array(a, float) for a in ([r["lr"] for r in rows], [r["loss"] for r in rows], found["mean"]))
assert np.allclose(found["lr"], lr, rtol=1e-12) and np.allclose(found["loss"], loss, rtol=1e-12), (found, rows)
assert np.allclose(lr, np.geomspace(1e-7, 10, steps)[:len(lr)], rtol=1e-9), lr
mean, smooth = 0, []                    # exponentially weighted, corrected for its start
for i, x in enumerate(loss):
    mean = 0.98 * mean + 0.02 * x
    smooth.append(mean / (1 - 0.98 ** (i + 1)))
assert np.allclose(seen, smooth, rtol=1e-9), seen
over = [i for i in range(2, len(smooth)) if smooth[i] > 4 * min(smooth[:i + 1])]
assert over == ([len(smooth) - 1] if diverged else []) and (diverged or len(loss) == steps), (over, len(loss))
slope = np.gradient(np.array(smooth)[10:-1])
steepest = 10 + np.argmin(slope[:np.argmin(smooth[10:-1]) + 1])
assert found["suggestion"] == lr[steepest], (found["suggestion"], lr[steepest])
print(found["suggestion"], len(loss))
END
}

check 'a range test' "$dpexec" train "${mlp[@]}" --steps 120 --out "$DIR/one"
check 'its suggestion' agrees "$DIR/one" 120 "$(grep -qh diverged "$DIR/one/log.txt" "$DIR/check.log" && echo diverged)"
says 'try --lr ' "$dpexec" train "${mlp[@]}" --steps 120 --out "$DIR/again"
check 'the same curve again' cmp "$DIR/one/lr_find.json" "$DIR/again/lr_find.json"
check 'in two processes' "$dpexec" launch -n 2 -- "${mlp[@]}" --devices cpu:0 --steps 120 --out "$DIR/two"
check 'the curve of two processes' cmp "$DIR/one/lr_find.json" "$DIR/two/lr_find.json"
check 'nothing of the training is kept' test ! -e "$DIR/one/model.onnx" -a ! -e "$DIR/one/checkpoints" -a ! -e "$DIR/one/best.onnx"
check 'the curve in the report' grep -q '"find":{"suggestion":' "$DIR/one/report.html"
check 'other optimizers, an evaluation that is left out' "$dpexec" train "${mlp[@]}" --optimizer adam --lr 0.5 --lr-schedule cosine --val tests/oracle/data/digits.npz \
    --metric accuracy --out "$DIR/adam"
check '100 steps' test "$(grep -c '"loss"' "$DIR/adam/metrics.jsonl")" -le 100
check 'and trained in the same folder' "$dpexec" train "${mlp[@]:0:11}" --steps 2 --quiet --out "$DIR/adam"
refused 2 'leave out --resume' "$dpexec" train "${mlp[@]}" --resume "$DIR/adam"
refused 2 'leave out --epochs' "$dpexec" train "${mlp[@]}" --epochs 3
refused 2 'leave out lr and schedule of --group' "$dpexec" train "${mlp[@]}" --group 'fc1*:lr=0.1'
refused 2 '--steps' "$dpexec" train "${mlp[@]}" --steps 5
finish
