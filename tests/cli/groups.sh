#!/bin/bash
# Parameter groups, clipping and schedules against PyTorch in float64 (tests/cli/groups.py), on 1 and 3 replicas and with every --shard.
. "$(dirname "$0")/lib.sh"

here=tests/cli/groups
python=${PYTHON:-/usr/bin/python3}
train=("$dpexec" train $here/model.onnx --data $here/data.npz --loss cross-entropy --batch-size 4 --threads 1 --no-shuffle --quiet --plain-defaults)

# losses DIR EXPECTED...: those of DIR/metrics.jsonl, to 1e-8.
losses() {
    python3 - "$@" <<'END'
import json, sys
want = list(map(float, sys.argv[2:]))
got = [row["loss"] for row in map(json.loads, open(sys.argv[1] + "/metrics.jsonl")) if "loss" in row]
worst = max(abs(g - w) for g, w in zip(got, want))
print(got, want)
sys.exit(len(got) != len(want) or not worst <= 1e-8)
END
}

# frozen MODEL: of the parameters the stem's alone have the bytes that they had.
frozen() {
    "$python" - "$1" <<'END'
import sys, onnx, onnx.numpy_helper
before, after = ({t.name: onnx.numpy_helper.to_array(t).tobytes() for t in onnx.load(f).graph.initializer}
                 for f in ("tests/cli/groups/model.onnx", sys.argv[1]))
assert sorted(before) == ["body:0.bias", "body:0.weight", "head.bias", "head.weight", "stem.bias", "stem.weight"]
assert all((before[n] == after[n]) == n.startswith("stem.") for n in before)
END
}

# The patterns hold wildcards that no file answers to.
set -f
while IFS='|' read -r name options want; do
    name=${name% }
    for how in "cpu:0" "cpu:0 --replicas 3" "cpu*3" "cpu*3 --shard optimizer" "cpu*3 --shard gradients" "cpu*3 --shard parameters"; do
        [[ $how$options != *--shard*--clip-norm*:[13i]* ]] || continue
        rm -rf "$DIR/run"
        "${train[@]}" --steps 11 --devices $how $options --out "$DIR/run" >"$DIR/log" 2>&1 || cat "$DIR/log"
        check "$name, $how" losses "$DIR/run" $want
        [[ $name != frozen* ]] || check "$name, $how: what is frozen, and that alone, stays" frozen "$DIR/run/model.onnx"
    done
done <$here/torch.txt

# No clip makes a number of a gradient that is NaN.
weights() {
    /usr/bin/python3 - "$@" <<'END'
import sys, numpy, onnx.numpy_helper
want = numpy.load("tests/cli/groups/nan_after.npz")[sys.argv[2]]
got = [onnx.numpy_helper.to_array(t) for t in onnx.load(sys.argv[1]).graph.initializer if t.name == "w"][0]
print(got, want)
numpy.testing.assert_allclose(got, want, 1e-12)
END
}
while read -r name options; do
    for how in "cpu:0" "cpu*3" "cpu*3 --shard parameters"; do
        [[ $how$options != *--shard*:* ]] || continue
        "$dpexec" train $here/nan.onnx --data $here/nan.npz --loss mse --batch-size 4 --threads 1 --quiet --train w --freeze mask --lr 1 \
            --steps 1 $options --devices $how --out "$DIR/nan" >"$DIR/log" 2>&1 || cat "$DIR/log"
        check "NaN, $name, $how" weights "$DIR/nan/model.onnx" "$name"
        rm -rf "$DIR/nan"
    done
done <<'END'
value --clip-value 0.01
value --group w:clip-value=0.01
norm-2 --clip-norm 0.1
norm-3 --clip-norm 0.1:3
norm-inf --clip-norm 0.1:inf
END

# The mean of the weights, as it is exported; in pieces, and of a run that goes on, the same bytes.
means() {
    "$python" - "$@" <<'END'
import sys, numpy, onnx.numpy_helper
want = numpy.load("tests/cli/groups/ema.npz")
got = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(sys.argv[1]).graph.initializer}
names = [n for n in want.files if n.startswith(sys.argv[2] + "/")]
assert len(names) == 6
for n in names:
    numpy.testing.assert_allclose(got[n.split("/")[1]], want[n], 1e-9, 1e-10)
END
}
ema=("${train[@]}" --optimizer adamw --weight-decay 0.01 --lr 0.05 --freeze 'stem.*' --ema 0.8)
"${ema[@]}" --export-weights ema --steps 1 --out "$DIR/mean1" >"$DIR/log" 2>&1 || cat "$DIR/log"
check "a mean of one step" means "$DIR/mean1/model.onnx" 1
for how in "cpu:0" "cpu:0 --replicas 3" "cpu*3" "cpu*3 --shard optimizer" "cpu*3 --shard gradients" "cpu*3 --shard parameters"; do
    rm -rf "$DIR/run"
    "${ema[@]}" --export-weights ema --steps 11 --devices $how --out "$DIR/run" >"$DIR/log" 2>&1 || cat "$DIR/log"
    check "a mean, $how" means "$DIR/run/model.onnx" 11
    [ "$how" != "cpu:0 --replicas 3" ] || cp "$DIR/run/model.onnx" "$DIR/mean3"
    [[ $how != cpu\** ]] || check "a mean, $how: the bytes" cmp "$DIR/mean3" "$DIR/run/model.onnx"
done
"${ema[@]}" --replicas 3 --steps 4 --out "$DIR/mean" >"$DIR/log" 2>&1 || cat "$DIR/log"
check "a mean goes on" "${ema[@]}" --replicas 3 --export-weights ema --steps 11 --resume "$DIR/mean"
check "a mean that went on: the bytes" cmp "$DIR/mean3" "$DIR/mean/model.onnx"
# Running statistics have no mean, and are exported as the training has them.
"$python" -c "import numpy as np
rng = np.random.default_rng(3)
np.savez('$DIR/images.npz', x=rng.normal(size=(24, 1, 28, 28)).astype('f4'), target=rng.integers(0, 10, 24))"
for which in trained ema; do
    check "export of a batch-norm's $which" "$dpexec" train models/fashion_cnn.onnx --data "$DIR/images.npz" --loss cross-entropy --batch-size 8 \
        --steps 4 --lr 0.1 --threads 1 --quiet --ema 0.8 --export-weights $which --out "$DIR/export-$which"
done
check "running statistics are the training's" "$python" - "$DIR" <<'END'
import sys, onnx, onnx.numpy_helper
start, trained, ema = ({t.name: onnx.numpy_helper.to_array(t).tobytes() for t in onnx.load(f).graph.initializer}
                       for f in ("models/fashion_cnn.onnx", sys.argv[1] + "/export-trained/model.onnx", sys.argv[1] + "/export-ema/model.onnx"))
assert sum("running" in n for n in start) == 6 and len(start) == 17
for n in start:
    assert start[n] != trained[n] and start[n] != ema[n] and (trained[n] == ema[n]) == ("running" in n), n
END
# Evaluations of a run by the mean are those of its export; of one that goes on, too.
for how in "cpu:0" "cpu*3" "cpu*3 --shard optimizer" "cpu*3 --shard gradients" "cpu*3 --shard parameters" "cpu*2 --strategy master"; do
    rm -rf "$DIR/run"
    for steps in 7 9; do
        [ $steps = 7 ] && into=--out || into=--resume
        "${ema[@]}" --eval-weights ema --export-weights ema --val $here/data.npz --steps $steps --devices $how $into "$DIR/run" >"$DIR/log" 2>&1 ||
            cat "$DIR/log"
        evaluated "$DIR/run/model.onnx" --data $here/data.npz --loss cross-entropy --batch-size 4 --threads 1 >"$DIR/by-export"
        grep -o '"eval_loss":[^,}]*' "$DIR/run/metrics.jsonl" | tail -1 | cut -d: -f2 >"$DIR/by-run"
        check "evaluated by the mean after $steps, $how" near "$(cat "$DIR/by-run")" "$(cat "$DIR/by-export")"
    done
done
"${ema[@]}" --export-weights ema --val $here/data.npz --steps 9 --out "$DIR/other" >"$DIR/log" 2>&1
grep -o '"eval_loss":[^,}]*' "$DIR/other/metrics.jsonl" | tail -1 | cut -d: -f2 >"$DIR/by-weights"
check "evaluated by the mean and by the weights" differ "$DIR/by-weights" "$DIR/by-run"
pieces=("${ema[@]}" --eval-weights ema --val $here/data.npz --eval-every 2 --shard optimizer --steps 7)
"${pieces[@]}" --devices 'cpu*2' --out "$DIR/pieces" >"$DIR/log" 2>&1 || cat "$DIR/log"
check "two processes evaluate the mean" "$dpexec" launch -n 2 -- "${pieces[@]:1}" --devices cpu:0 --out "$DIR/pieces-2"
check "two processes evaluate the mean: the same run" same_run "$DIR/pieces" "$DIR/pieces-2"
# A checkpoint that was written before the evaluation of its step: that is done first, and what it reads is no parameter.
early=("${ema[@]}" --eval-weights ema --val $here/data.npz --checkpoint-every 1 --epochs 3)
"${early[@]}" --out "$DIR/mean-whole" >"$DIR/log" 2>&1 || cat "$DIR/log"
cp -r "$DIR/mean-whole" "$DIR/mean-cut"
rm -rf "$DIR/mean-cut/model.onnx" "$DIR"/mean-cut/checkpoints/step-*[4-9]
check "evaluated by the mean before the first step goes on" "${early[@]}" --resume "$DIR/mean-cut"
check "evaluated by the mean before the first step: the bytes" cmp "$DIR/mean-whole/model.onnx" "$DIR/mean-cut/model.onnx"
refused 2 "--eval-weights ema needs --ema" "${train[@]}" --steps 1 --eval-weights ema
refused 2 "--export-weights ema needs --ema" "${train[@]}" --steps 1 --export-weights ema

# Each group's norm is logged.
for how in "cpu:0" "cpu*3 --shard parameters"; do
    rm -rf "$DIR/run"
    "${train[@]}" --steps 11 --lr 0.5 --clip-norm 0.2 --group 'body:*:clip-norm=0.05' --group 'stem.bias:lr=0.5' --devices $how --out "$DIR/run" >"$DIR/log" 2>&1 || cat "$DIR/log"
    check "the groups' norms, $how" python3 -c "import json
rows = [json.loads(line) for line in open('$DIR/run/metrics.jsonl')]
want = [list(map(float, line.split())) for line in open('$here/norms.txt')]
assert len(rows) == len(want) == 11
for row, (rest, body) in zip(rows, want):
    assert abs(row['grad_norm'] - rest) < 1e-9 and abs(row['group_norm'][0] - body) < 1e-9 and row['group_norm'][1:] == [None], row"
done

# There is no norm where values are clipped: no number of all, and null of a group.
"${train[@]}" --steps 3 --lr 0.5 --clip-value 0.03 --out "$DIR/by-value" >"$DIR/log" 2>&1 || cat "$DIR/log"
"${train[@]}" --steps 3 --lr 0.5 --clip-norm 0.2 --group 'body:*:clip-norm=0.05' --group 'head*:clip-value=0.03' --out "$DIR/by-both" >"$DIR/log" 2>&1 ||
    cat "$DIR/log"
check "no norm where values are clipped" python3 -c "import json
value, both = ([json.loads(line) for line in open('$DIR/by-%s/metrics.jsonl' % name)] for name in ('value', 'both'))
assert len(value) == len(both) == 3
assert all('loss' in row and 'grad_norm' not in row and 'group_norm' not in row for row in value), value
assert all(row['grad_norm'] > 0 and row['group_norm'][0] > 0 and row['group_norm'][1:] == [None] for row in both), both"

# Each group's rate is logged; a run that is resumed ends with the same bytes; another group is another run.
one=(--lr 0.3 --lr-schedule step:3:0.5 --group "body:*:optimizer=adamw,lr=0.02,schedule=exponential:0.9")
"${train[@]}" "${one[@]}" --steps 9 --out "$DIR/whole" >"$DIR/log" 2>&1
"${train[@]}" "${one[@]}" --steps 4 --out "$DIR/cut" >"$DIR/log" 2>&1
check "goes on" "${train[@]}" "${one[@]}" --steps 9 --resume "$DIR/cut"
check "the same bytes" cmp "$DIR/whole/model.onnx" "$DIR/cut/model.onnx"
check "the groups' rates" python3 -c "import json
rows = [json.loads(line) for line in open('$DIR/cut/metrics.jsonl')]
for k, row in enumerate(rows):
    assert abs(row['lr'] - 0.3 * 0.5 ** (k // 3)) < 1e-15, row
    assert len(row['group_lr']) == 1 and abs(row['group_lr'][0] - 0.02 * 0.9 ** k) < 1e-15, row
assert len(rows) == 9"
refused 2 "--group" "${train[@]}" --lr 0.3 --lr-schedule step:3:0.5 --group "body:*:lr=0.02" --steps 12 --resume "$DIR/cut"
printf '# the body\n\n  body:*:optimizer=adamw,lr=0.02,schedule=exponential:0.9\n' >"$DIR/groups"
check "a file" "${train[@]}" --lr 0.3 --lr-schedule step:3:0.5 --groups "$DIR/groups" --steps 9 --out "$DIR/file"
check "a file says the same" cmp "$DIR/whole/model.onnx" "$DIR/file/model.onnx"
check "the table names the group" grep -q "body:0.weight.*group 1, 'body:\*'" <("$graph_transform" $here/model.onnx --parameters "${one[@]}")
check "the report names the group" grep -q 'body:[*]: group 1: tensors updated by adamw: 2$' <("$graph_transform" $here/model.onnx --report --batch-size 4 --loss cross-entropy "${one[@]}")
check "in parts" "$graph_transform" $here/model.onnx --batch-size 5 --replicas 3 --loss cross-entropy "${one[@]}" --verify

# Groups with losses of their own (their numbers: tests/api/own_updates.c).
own=(tests/api/own_updates.onnx --batch-size 5 --loss outputs --group 'a.*:loss=a_square,optimizer=adamw' --group 'b.*:loss=b_loss')
check "the report names the group's loss" grep -q 'a.[*]: group 1: tensors updated by adamw for loss a_square: 2$' <("$graph_transform" "${own[@]}" --report)
check "own losses, in parts" "$graph_transform" "${own[@]}" --replicas 3 --verify

# A schedule that follows evaluations: PyTorch's rates; a run that was stopped goes on with what it had observed, and evaluates no more
# for having been stopped.
plateaus=$(sed -n 's/^plateaus |\(.*\)|.*/\1/p' $here/torch.txt)
"${train[@]}" $plateaus --steps 11 --out "$DIR/level" >"$DIR/log" 2>&1 || cat "$DIR/log"
check "the rates on a plateau" python3 -c "import json
rows = [row for row in map(json.loads, open('$DIR/level/metrics.jsonl')) if 'lr' in row]
want = [list(map(float, line.split())) for line in open('$here/rates.txt')]
assert len(rows) == len(want) == 11 and want[-1][0] < 0.3 and want[-1][1] < 0.4
for row, (all, body) in zip(rows[1:], want):
    assert abs(row['lr'] - all) < 1e-15 and abs(row['group_lr'][0] - body) < 1e-15, row"
for steps in 3 6 9; do
    rm -rf "$DIR/cut"
    "${train[@]}" $plateaus --steps $steps --out "$DIR/cut" >"$DIR/log" 2>&1 || cat "$DIR/log"
    check "on a plateau, goes on after $steps" "${train[@]}" $plateaus --steps 11 --resume "$DIR/cut"
    check "on a plateau, after $steps: the same run" same_run "$DIR/level" "$DIR/cut"
done
ends=(--lr 2 --momentum 0.8 --lr-schedule plateau:0.5:0:0.05 --val $here/data.npz --epochs 7 --checkpoint-every 1 --devices 'cpu*2')
"${train[@]}" "${ends[@]}" --out "$DIR/epochs" >"$DIR/log" 2>&1 || cat "$DIR/log"
check "the rate falls" python3 -c "import json
rows = [json.loads(line) for line in open('$DIR/epochs/metrics.jsonl')]
assert min(row['lr'] for row in rows if 'lr' in row) <= 0.5, rows"
check "two processes on a plateau" "$dpexec" launch -n 2 -- "${train[@]:1}" "${ends[@]/cpu\*2/cpu:0}" --out "$DIR/world"
check "two processes on a plateau: the same run" same_run "$DIR/epochs" "$DIR/world"
for last in 3 6 8 12; do
    rm -rf "$DIR/cut"
    cp -r "$DIR/epochs" "$DIR/cut"
    rm "$DIR/cut/model.onnx"
    for at in $(seq $((last + 1)) 21); do rm -rf "$DIR/cut/checkpoints/step-$(printf %09d "$at")"; done
    check "epochs' ends, goes on after $last" "${train[@]}" "${ends[@]}" --resume "$DIR/cut"
    check "epochs' ends, after $last: the same run" same_run "$DIR/epochs" "$DIR/cut"
done
# Without evaluations it follows the training losses of whole epochs, which a run that goes on in one has from its checkpoint.
falling=$(sed -n 's/^plateau-of-training |\(.*\)|.*/\1/p' $here/torch.txt)
"${train[@]}" $falling --steps 11 --checkpoint-every 4 --out "$DIR/fall" >"$DIR/log" 2>&1 || cat "$DIR/log"
check "the rate falls by the training losses" python3 -c "import json
rates = [json.loads(line)['lr'] for line in open('$DIR/fall/metrics.jsonl')]
assert rates[0] == 1.5 and rates[-1] == 1.5 * 0.25, rates"
for last in 4 8; do
    rm -rf "$DIR/cut"
    cp -r "$DIR/fall" "$DIR/cut"
    rm -rf "$DIR/cut/model.onnx" "$DIR/cut/checkpoints/step-000000011"
    [ $last = 8 ] || rm -r "$DIR/cut/checkpoints/step-000000008"
    check "by the training losses, goes on after $last" "${train[@]}" $falling --steps 11 --checkpoint-every 4 --resume "$DIR/cut"
    check "by the training losses, after $last: the same run" same_run "$DIR/fall" "$DIR/cut"
done
# A metric that should fall is the loss's mirror: of perplexity, e to the loss, by no threshold the same.
"${train[@]}" --lr 2 --momentum 0.8 --lr-schedule plateau:0.5:0:0 --val $here/data.npz --eval-every 1 --steps 11 --out "$DIR/by-loss" >"$DIR/log" 2>&1
"${train[@]}" --lr 2 --momentum 0.8 --lr-schedule plateau:0.5:0:0:rel:0:0:min-metric --metric perplexity --val $here/data.npz --eval-every 1 \
    --steps 11 --out "$DIR/by-metric" >"$DIR/log" 2>&1 || cat "$DIR/log"
check "a metric that should fall" cmp "$DIR/by-loss/model.onnx" "$DIR/by-metric/model.onnx"
says "--resume: --metric was 'accuracy', is 'f1' from here on" "${train[@]}" ${plateaus/accuracy/f1} --steps 12 --resume "$DIR/level"
says "--resume: --eval-every was '1', is '2' from here on" "${train[@]}" ${plateaus/every 1/every 2} --steps 14 --resume "$DIR/level"
refused 1 "follows the metric, which is not one number" "${train[@]}" ${plateaus/accuracy/confusion-matrix} --steps 1
refused 2 "plateau follows evaluations: give --val or --val-split" "${train[@]}" --steps 1 --metric accuracy --group 'body*:schedule=plateau:0.1:1:0:rel:0:0:max'
refused 2 "--metric perplexity should fall, and its MODE is for metrics that should rise: give min-metric" "${train[@]}" --steps 1 --val $here/data.npz --metric perplexity --lr-schedule plateau:0.1:1:0:rel:0:0:max
refused 2 "--metric accuracy should rise, and its MODE is for metrics that should fall: give max" "${train[@]}" --steps 1 --val $here/data.npz --metric accuracy --group 'body*:schedule=plateau:0.1:1:0:rel:0:0:min-metric'
refused 2 "follows a metric: give --metric" "${train[@]}" --steps 1 --val $here/data.npz --lr-schedule plateau:0.1:1:0:rel:0:0:max

# A gradient that is no number stays one, by whatever it is clipped: the slope of sqrt(p * p) at 0.
"$python" - "$DIR/slope" <<'END'
import sys
import numpy as np
from onnx import TensorProto as T, helper as h, numpy_helper, save
rng = np.random.default_rng(0)
weight, p = rng.normal(size=(6, 4)).astype("f4"), np.float32([[0.5, 0, 0.5, 0]])
nodes = [h.make_node(*n) for n in (("MatMul", ["x", "w"], ["a"]), ("Mul", ["p", "p"], ["q"]), ("Sqrt", ["q"], ["s"]), ("Add", ["a", "s"], ["y"]))]
graph = h.make_graph(nodes, "slope", [h.make_tensor_value_info("x", T.FLOAT, ["N", 6])], [h.make_tensor_value_info("y", T.FLOAT, ["N", 4])],
                     [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(p, "p")])
save(h.make_model(graph, opset_imports=[h.make_opsetid("", 13)], ir_version=7), sys.argv[1] + ".onnx")
np.savez(sys.argv[1] + ".npz", x=rng.normal(size=(8, 6)).astype("f4"), target=rng.integers(0, 4, 8))
END
for clip in "" "--clip-value 0.1" "--clip-norm 1" "--clip-norm 1:3" "--clip-norm 1:inf"; do
    for replicas in 1 3; do
        rm -rf "$DIR/run"
        "$dpexec" train "$DIR/slope.onnx" --data "$DIR/slope.npz" --loss cross-entropy --batch-size 8 --steps 1 --threads 1 --quiet \
            --replicas $replicas $clip --out "$DIR/run" >"$DIR/log" 2>&1
        check "no number, ${clip:-not clipped}, $replicas replicas" "$python" - "$DIR/run/model.onnx" "$clip" <<'END'
import sys
import numpy as np
import onnx
from onnx import numpy_helper
value = {t.name: np.isnan(numpy_helper.to_array(t)) for t in onnx.load(sys.argv[1]).graph.initializer}
everywhere = "norm" in sys.argv[2]      # a norm is one number of all
assert (value["p"] == [[everywhere, True, everywhere, True]]).all() and (value["w"] == everywhere).all(), value
END
    done
done

# What is wrong is said.
echo 'body:*:rate=1' >"$DIR/wrong"
refused 2 "$DIR/wrong:1" "${train[@]}" --steps 1 --groups "$DIR/wrong"
refused 2 "cannot read" "${train[@]}" --steps 1 --groups "$DIR/absent"
refused 2 "there is no key 'rate', but lr, schedule, optimizer, loss, clip-norm, clip-value, " "${train[@]}" --steps 1 --group 'body*:rate=1'
refused 2 "expected PATTERN:KEY=VALUE" "${train[@]}" --steps 1 --group 'body*'
refused 2 "lr is given twice" "${train[@]}" --steps 1 --group 'body*:lr=1,lr=2'
refused 2 "lr: expected a number" "${train[@]}" --steps 1 --group 'body*:lr=x'
refused 2 "optimizer sgd does not have: beta1" "${train[@]}" --steps 1 --group 'body*:beta1=0.5'
refused 2 "schedule: expected one of" "${train[@]}" --steps 1 --group 'body*:schedule=steep'
refused 2 "matches no parameter that is trained (near it: 'body:0.weight', 'body:0.bias')" "${train[@]}" --steps 1 --group 'bodies.*:lr=1'
refused 2 "matches only parameters of groups before it" "${train[@]}" --steps 1 --group 'body*:lr=1' --group 'body:0.w*:lr=2'
refused 2 "--clip-norm and --clip-value do not go together" "${train[@]}" --steps 1 --clip-norm 1 --clip-value 1
refused 2 "clip-norm and clip-value do not go together" "${train[@]}" --steps 1 --group 'body*:clip-norm=1,clip-value=1'
refused 2 "needs whole gradients" "${train[@]}" --steps 1 --clip-norm 1:inf --devices 'cpu*2' --shard optimizer
refused 2 "expected X, X:P" "${train[@]}" --steps 1 --clip-norm 1:0.5

# A run of a version in which no optimizer had defaults of its own (tests/cli/groups/before) goes on with those of then.
before=(tests/cli/groups/model.onnx --data $here/data.npz --loss cross-entropy --batch-size 4 --threads 1 --group 'head*:optimizer=adamw,lr=0.001')
plain=("$dpexec" train "${before[@]}" --plain-defaults)
cp -r $here/before "$DIR/before"
cp -r $here/before "$DIR/resumed"
check "flags given again" "$dpexec" train "${before[@]}" --quiet --steps 6 --resume "$DIR/before"
check "flags that are stored" "$dpexec" resume "$DIR/resumed" --steps 6
check "one as the other" same_run "$DIR/before" "$DIR/resumed"
check "it has no momentum" grep -q '"momentum": "0"' "$DIR/before/args.json"
check "its rate" grep -q '"lr": "0.01"' "$DIR/before/args.json"
check "plain defaults from the beginning" "${plain[@]}" --quiet --steps 6 --out "$DIR/plain"
check "the same losses" diff <(grep -o '"loss":......' "$DIR/before/metrics.jsonl") <(grep -o '"loss":......' "$DIR/plain/metrics.jsonl")
check "others now" "$dpexec" train "${before[@]}" --quiet --steps 6 --out "$DIR/own"
check "momentum now" grep -q '"momentum": "0.9"' "$DIR/own/args.json"
refused 2 "--plain-defaults was 'false', is 'true'" "${plain[@]}" --steps 7 --resume "$DIR/own"
says "sgd: lr 0.01, momentum 0.9, weight-decay 0" "$dpexec" train "${before[@]}" --steps 1
says "sgd: lr 0.01, momentum 0, weight-decay 0" "$dpexec" train "${before[@]}" --steps 1 --compat dp
says "adam: lr 0.001, beta1 0.9, beta2 0.999, weight-decay 0" "$dpexec" train "${before[@]:0:5}" --threads 1 --optimizer adam --steps 1
says "adamw: lr 0.001, beta1 0.9, beta2 0.999, weight-decay 0.01" "$dpexec" train "${before[@]:0:5}" --threads 1 --optimizer adamw --steps 1
says "lion: lr 0.0001, beta1 0.9, beta2 0.99, weight-decay 0" "$dpexec" train "${before[@]:0:5}" --threads 1 --optimizer lion --steps 1
says "adam, adamw 0.001; lamb, lars 0.01; lion 0.0001;" env COLUMNS=200 "$dpexec" train --help
finish
