#!/bin/bash
# What torch.nn.DataParallel, DistributedDataParallel and PyTorch-Encoding compute on uneven batches and with empty parts, in float64
# (tests/cli/compat.py): 4 replicas on 1 and on 4 devices, 10 steps, losses and what is left after them to 1e-8.
. "$(dirname "$0")/lib.sh"

here=tests/cli/compat
python=${PYTHON:-/usr/bin/python3}
serve_python

cat >"$DIR/same.py" <<'END'
import json
import sys

import numpy as np
import onnx
from onnx import numpy_helper

stored, run, case, *want = sys.argv[1:]
got = [row["loss"] for row in map(json.loads, open(run + "/metrics.jsonl")) if "loss" in row]
assert len(got) == len(want), (got, want)
worst = max(abs(g - float(w)) for g, w in zip(got, want))
after = np.load(f"tests/cli/compat/{stored}.npz")
left = {t.name: numpy_helper.to_array(t) for t in onnx.load(run + "/model.onnx").graph.initializer}
tensors = [n for n in after.files if n.startswith(case + "/")]
assert len(tensors) in (8, 9)
for n in tensors:
    worst = max(worst, abs(after[n] - left[n.split("/")[1]]).max())
print(worst)
sys.exit(not worst <= 1e-8)
END

train=("$dpexec" train --threads 1 --no-shuffle --quiet --lr 0.2 --momentum 0.5 --steps 10)
while IFS='|' read -r name options want; do
    name=${name% }
    options=$here/${options# }
    options=${options//--data /--data $here/}
    options=${options//--class-weights /--class-weights $here/}
    options=${options//--val /--val $here/}
    options=${options//--criterion /--criterion $here/}
    for devices in cpu:0 'cpu*4'; do
        [[ $options$devices != *--reduce-dtype*cpu:0 ]] || continue # nothing crosses devices
        rm -rf "$DIR/run"
        "${train[@]}" --devices "$devices" --replicas 4 $options --out "$DIR/run" >"$DIR/log" 2>&1 || cat "$DIR/log"
        check "$name, $devices" py "$DIR/same.py" after "$DIR/run" "$name" $want
        # What processes of gloo made of it, under DistributedDataParallel itself (tests/cli/compat_gloo.py).
        want_gloo=$(grep "^$name |" $here/gloo.txt | cut -d'|' -f2)
        [ -z "$want_gloo" ] || [ "$devices" = cpu:0 ] || check "$name, $devices: gloo" py "$DIR/same.py" gloo "$DIR/run" "$name" $want_gloo
    done
done <$here/torch.txt
check "cases of gloo" test "$(grep -c . $here/gloo.txt)" = "$(cut -d'|' -f1 $here/torch.txt | grep -cFxf <(cut -d'|' -f1 $here/gloo.txt))"

# An evaluation within an epoch is by the replicas' mean, which is what is exported.
rm -rf "$DIR/run"
check "evaluated within an epoch" "${train[@]/#10/3}" --replicas 4 $here/model.onnx --data $here/data13.npz --loss cross-entropy --batch-size 10 \
    --bn average --val $here/data13.npz --eval-every 1 --out "$DIR/run"
check "by the mean" near "$(grep -o '"eval_loss":[^,}]*' "$DIR/run/metrics.jsonl" | tail -1 | cut -d: -f2)" \
    "$(evaluated "$DIR/run/model.onnx" --data $here/data13.npz --loss cross-entropy --threads 1)"

# Only several copies clamp, in training: one copy adds epsilon, and so does evaluation.
one=("${train[@]}" $here/clamped.onnx --data $here/data13.npz --loss cross-entropy --batch-size 10)
for how in "clamped --replicas 1 --bn-eps clamp" "added --replicas 1 --bn-variance unbiased" "both --replicas 4 --bn-eps clamp --bn-variance population" \
    "parts --replicas 4"; do
    check "$how" "${one[@]}" ${how#* } --out "$DIR/eps-${how%% *}"
done
check "one copy adds" cmp "$DIR/eps-clamped/model.onnx" "$DIR/eps-added/model.onnx"
check "four clamp" differ "$DIR/eps-both/model.onnx" "$DIR/eps-parts/model.onnx"
check "evaluation adds" test "$(evaluated $here/clamped.onnx --data $here/data13.npz --loss cross-entropy --threads 1 --replicas 4)" = \
    "$(evaluated $here/clamped.onnx --data $here/data13.npz --loss cross-entropy --threads 1 --replicas 4 --bn-eps clamp)"

# A sum is divided by the same number: four parts that count, or the two of four that have samples, are a rate of a fourth or a half.
sum=(tests/cli/losses/own_loss.onnx --data tests/cli/losses/masked.npz --loss output:total --loss-weight sum --steps 4 --threads 1 --no-shuffle
    --quiet --replicas 4 --accumulate 2)
for how in "4 all 0.04" "2 all 0.04" "2 filled 0.02"; do
    read -r batch over rate <<<"$how"
    rm -rf "$DIR/sum" "$DIR/mean"
    check "a sum" "$dpexec" train "${sum[@]}" --batch-size $batch --lr 0.01 --out "$DIR/sum"
    check "its mean over $over of 4" "$dpexec" train "${sum[@]}" --batch-size $batch --lr $rate --out "$DIR/mean" --loss-scaling mean-of-means \
        --mean-over $over
    check "the same, $how" cmp "$DIR/sum/model.onnx" "$DIR/mean/model.onnx"
done

# In two processes, and stopped in the middle of an epoch: the sets of all replicas are state.
case="MM, averaged buffers, 13 samples"
want=$(grep "^$case |" $here/torch.txt | cut -d'|' -f3)
options=(--no-shuffle --quiet --threads 1 --lr 0.2 --momentum 0.5 --compat ddp --bn average --batch-size 10)
data=($here/model.onnx --data $here/data13.npz --loss cross-entropy)
rm -rf "$DIR/run"
check "two processes" together 2 train "${data[@]}" "${options[@]}" --replicas 4 --devices 'cpu*2' --steps 10 --out "$DIR/run"
check "$case, in two processes" py "$DIR/same.py" after "$DIR/run" "$case" $want
check "a part of it" "$dpexec" train "${data[@]}" "${options[@]}" --replicas 4 --steps 3 --out "$DIR/cut"
check "goes on" "$dpexec" train "${data[@]}" "${options[@]}" --replicas 4 --steps 10 --resume "$DIR/cut"
check "$case, resumed" cmp "$DIR/run/model.onnx" "$DIR/cut/model.onnx"

# A counter beside the statistics, here one that the model gives out, is no statistic: it is what it was, and changes nothing.
check "a model with a counter" "$python" - $here/model.onnx "$DIR/counted.onnx" <<'END'
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper

m = onnx.load(sys.argv[1])
m.graph.initializer.append(numpy_helper.from_array(np.array(7), "bn.num_batches_tracked"))
m.graph.node.append(helper.make_node("Identity", ["bn.num_batches_tracked"], ["count"]))
m.graph.output.append(helper.make_tensor_value_info("count", onnx.TensorProto.INT64, []))
onnx.save(m, sys.argv[2])
END
check "averaged beside a counter" "$dpexec" train "$DIR/counted.onnx" "${data[@]:1}" "${options[@]}" --replicas 4 --steps 10 --out "$DIR/counter"
check "$case, beside a counter" py "$DIR/same.py" after "$DIR/counter" "$case" $want
check "which is not averaged" py -c "
import onnx
from onnx import numpy_helper
count = [numpy_helper.to_array(t) for t in onnx.load('$DIR/counter/model.onnx').graph.initializer if t.name == 'bn.num_batches_tracked']
assert len(count) == 1 and count[0].dtype == 'int64' and count[0] == 7, count"

# What crosses processes is rounded as what crosses devices is.
case="DDP, compressed to float16, 13 samples"
want=$(grep "^$case |" $here/torch.txt | cut -d'|' -f3)
rm -rf "$DIR/run"
check "rounded" together 2 train "${data[@]}" --no-shuffle --quiet --threads 1 --lr 0.2 --momentum 0.5 --compat ddp --reduce-dtype fp16 \
    --accumulate 2 --batch-size 10 --devices 'cpu*2' --steps 10 --out "$DIR/run"
check "$case, two processes" py "$DIR/same.py" after "$DIR/run" "$case" $want

# Groups of replicas within processes, across two of three, and in all.
case="groups of three, 13 samples"
want=$(grep "^$case |" $here/torch.txt | cut -d'|' -f3)
for how in "2 cpu*2" "4 cpu:0"; do
    rm -rf "$DIR/run"
    check "$how" together ${how% *} train "${data[@]}" --no-shuffle --quiet --threads 1 --lr 0.2 --momentum 0.5 --split chunk --bn-group 3 \
        --batch-size 10 --replicas 4 --devices "${how#* }" --steps 10 --out "$DIR/run"
    check "$case, $how" py "$DIR/same.py" after "$DIR/run" "$case" $want
done

# A first replica that never has samples leaves running statistics as they are.
cat >"$DIR/kept.py" <<'END'
import sys

import onnx
from onnx import numpy_helper

before, after = ({t.name: numpy_helper.to_array(t) for t in onnx.load(f).graph.initializer} for f in sys.argv[1:])
running = [n for n in before if "running" in n]
assert len(running) == 2
assert all((before[n] == after[n]).all() == (n in running) for n in before)
END
rm -rf "$DIR/run"
check "an empty first replica" "$dpexec" train "${data[@]}" --quiet --threads 1 --lr 0.2 --steps 3 --batch-size 10 --devices 'cpu*2' \
    --split 0,1 --bn local --out "$DIR/run"
check "keeps running statistics" py "$DIR/kept.py" $here/model.onnx "$DIR/run/model.onnx"

# Where the first device is the master the bits are those of mirrored parameters, wherever the loss is computed.
options=(--loss-at parts --no-shuffle --quiet --threads 1 --lr 0.2 --optimizer adam --clip-norm 1 --batch-size 5 --steps 10)
for how in "" "--accumulate 2" "--replicas 8" "--compat dp" "--precision bfloat16 --dtype float32"; do
    for strategy in mirrored master; do
        rm -rf "$DIR/$strategy"
        check "$strategy $how" "$dpexec" train "${data[@]}" "${options[@]}" $how --devices 'cpu*4' --strategy $strategy --out "$DIR/$strategy"
    done
    check "master $how is the same" cmp "$DIR/mirrored/model.onnx" "$DIR/master/model.onnx"
done
rm -rf "$DIR/master"
check "master in two processes" together 2 train "${data[@]}" "${options[@]}" $how --devices 'cpu*2' --strategy master --out "$DIR/master"
check "master in two processes is the same" cmp "$DIR/mirrored/model.onnx" "$DIR/master/model.onnx"
rm -rf "$DIR/master"
check "outputs of the last device, which another process has" together 2 train "${data[@]}" "${options[@]}" $how --devices 'cpu*2' \
    --output-device 3 --out "$DIR/master"
check "are the same" cmp "$DIR/mirrored/model.onnx" "$DIR/master/model.onnx"
check "losses too" test "$(losses "$DIR/mirrored")" = "$(losses "$DIR/master")"
"$dpexec" train models/mlp.onnx --dry-run --loss cross-entropy --batch-size 5 --optimizer adam --devices 'cpu*4' --strategy master >"$DIR/plan" 2>/dev/null
check "the first device alone has parameters and moments" test "$(grep -c ' states, 8 B:' "$DIR/plan")" = 3
check "of the others' states there is the count of steps" test "$(grep -c ' states, 201.9 KiB:' "$DIR/plan")" = 1

# The scores go to the output device, which computes the loss of all, and their gradient comes back; the numbers are DataParallel's.
gathers() { "$graph_transform" $here/model.onnx --loss cross-entropy --batch-size 5 --devices 'cpu*4' --bn local "$@" --report; }
says "all-gather of Add_5" gathers --strategy master
says "scatter of gradient of criterion" gathers --strategy master
check "no scores travel" test "$(gathers | grep -c 'all-gather of Add_5')" = 0
check "nor for a metric of the training" test "$(gathers --metric accuracy | grep -c 'all-gather of Add_5')" = 0
says "all-reduce bucket 2 (criterion, criterion)" gathers --metric accuracy
check "nor where that is asked for" test "$(gathers --strategy master --loss-at parts | grep -c 'all-gather of Add_5')" = 0
refused 2 "mean-of-means, which averages the losses of parts" "$dpexec" train "${data[@]}" --loss-at outputs --loss-scaling mean-of-means --steps 1
while IFS='|' read -r name given want; do
    name=${name% } given=$here/${given# }
    for how in "--strategy master" "--strategy master --output-device 2" "--loss-at outputs"; do
        rm -rf "$DIR/run"
        "${train[@]}" --devices 'cpu*4' ${given//--data /--data $here/} $how --out "$DIR/run" >"$DIR/log" 2>&1 || cat "$DIR/log"
        check "$name, $how" py "$DIR/same.py" after "$DIR/run" "$name" $want
    done
    rm -rf "$DIR/run"
    check "$name, two processes" together 2 "${train[@]:1}" --devices 'cpu*2' ${given//--data /--data $here/} --strategy master --output-device 3 --out "$DIR/run"
    check "$name, two processes" py "$DIR/same.py" after "$DIR/run" "$name" $want
done < <(grep "^DP" $here/torch.txt | grep -v compressed)

# Groups over epochs: only the run's last is incomplete, and a run goes on in the middle of an epoch.
case="MM, groups over epochs, 13 samples"
want=$(grep "^$case |" $here/torch.txt | cut -d'|' -f3)
options=(--no-shuffle --quiet --threads 1 --lr 0.2 --momentum 0.5 --compat ddp --accumulate 3 --accumulate-across-epochs --batch-size 10 --replicas 4)
check "3 epochs of 2 batches are 2 steps" "$dpexec" train "${data[@]}" "${options[@]}" --epochs 3 --out "$DIR/epochs"
check "2 steps" test "$(grep -c loss "$DIR/epochs/metrics.jsonl")" = 2
rm -rf "$DIR/epochs"
check "4 epochs" "$dpexec" train "${data[@]}" "${options[@]}" --epochs 4 --out "$DIR/epochs"
check "3 steps, the last of 2 batches" grep -q '"samples":13' <(tail -1 "$DIR/epochs/metrics.jsonl")
check "to a step within an epoch" "$dpexec" train "${data[@]}" "${options[@]}" --steps 3 --out "$DIR/within"
check "goes on within an epoch" "$dpexec" train "${data[@]}" "${options[@]}" --steps 10 --resume "$DIR/within"
check "$case, resumed" py "$DIR/same.py" after "$DIR/within" "$case" $want
refused 2 "--accumulate-across-epochs" "$dpexec" train "${data[@]}" "${options[@]/--accumulate-across-epochs/--drop-last}" --steps 12 \
    --resume "$DIR/within"

# The gradients of fc3 and fc2 fill a bucket of 0.034 MiB, those of fc1 are another.
buckets() { "$graph_transform" models/mlp.onnx --loss cross-entropy --batch-size 5 --devices 'cpu*4' "$@" --report | grep -c ': all-reduce bucket'; }
check "one bucket" test "$(buckets)" = 1
check "two buckets" test "$(buckets --bucket-mb 0.034)" = 2

# The report says what is in force, whatever the order of options.
for said in '--bn sync --compat dp' '--compat dp --bn sync'; do
    says "in force: --split chunk, --bn sync, --loss-scaling exact, --mean-over all" "$graph_transform" $here/model.onnx --loss cross-entropy \
        --batch-size 5 --replicas 4 $said --report
done
says "in force: --split chunk, --bn sync, --loss-scaling mean-of-means, --mean-over filled, --output-device each" "$graph_transform" $here/model.onnx \
    --loss cross-entropy --batch-size 5 --replicas 4 --compat encoding --report

# Under `encoding` outputs stay in the parts of the replicas, 3, 3, 3 and 1 of 10 samples, unless they must be whole.
py -c "
import numpy as np
d = np.load('$here/data13.npz')
np.save('$DIR/x.npy', d['x'][:10])"
outputs=("$dpexec" run $here/model.onnx --input "x=$DIR/x.npy" --threads 1 --quiet)
check "outputs of one" "${outputs[@]}" --out "$DIR/one"
check "outputs in parts" "${outputs[@]}" --replicas 4 --compat encoding --out "$DIR/parts"
check "outputs put together" "${outputs[@]}" --replicas 4 --compat encoding --output-device 0 --out "$DIR/joined"
check "predictions are" "$dpexec" eval $here/model.onnx --data $here/data13.npz --batch-size 10 --replicas 4 --compat encoding --threads 1 --quiet \
    --predictions "$DIR/predicted"
check "the parts are the whole" py -c "
import os
import numpy as np
one, joined, all = (np.load(f'$DIR/{d}/scores.npy') for d in ('one', 'joined', 'predicted'))
assert sorted(os.listdir('$DIR/parts')) == [f'scores@r{r}.npy' for r in range(4)]
parts = [np.load(f'$DIR/parts/scores@r{r}.npy') for r in range(4)]
assert [len(p) for p in parts] == [3, 3, 3, 1]
for y in np.concatenate(parts), joined, all[:10]:
    assert abs(y - one).max() < 1e-13"
finish
