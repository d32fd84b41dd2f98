#!/bin/bash
# A model that says itself how it is trained (training_info), by PyTorch's figures in float64 (tests/cli/training_info.py): on 1 and 3
# replicas, stopped and resumed, and what is exported behind it; and options that leave it nothing to say.  A training that was written
# as such goes as that it was written of.
. "$(dirname "$0")/lib.sh"
here=tests/cli/training_info
args=("$here/net.onnx" --data "$here/data.npz" --loss output:loss --optimizer file --batch-size 5 --no-shuffle --dtype float64 --threads 1)

train() { "$dpexec" train "${args[@]}" --quiet "$@" >"$DIR/log" 2>&1 || cat "$DIR/log"; }

# alike OUT FROM: the losses from that step on, to 1e-12; what is exported holds the trained tensors and nothing of the algorithm.
alike() {
    /usr/bin/python3 - "$DIR/$1" "$here/torch.txt" "$2" <<'END2'
import json, sys
import onnx
from onnx import numpy_helper
folder, want, first = sys.argv[1], [list(map(float, line.split())) for line in open(sys.argv[2])], int(sys.argv[3])
got = [row["loss"] for row in map(json.loads, open(folder + "/metrics.jsonl")) if "loss" in row]
if len(got) != 20 - first or not max(abs(g - w) for g, w in zip(got, want[0][first:])) <= 1e-12:
    sys.exit("%s, expected %s" % (got, want[0][first:]))
graph = onnx.load(folder + "/model.onnx").graph
sums = [numpy_helper.to_array(i).sum(dtype=float) for i in graph.initializer]
if [n.op_type for n in graph.node] != ["MatMul", "Add", "Tanh", "MatMul"] or len(graph.input) != 1 or len(graph.output) != 1:
    sys.exit("exported: %s" % onnx.helper.printable_graph(graph))
if not max(abs(s - w) for s, w in zip(sums, want[1])) <= 1e-5 or len(sums) != 3:
    sys.exit("exported: sums %s, expected %s" % (sums, want[1]))
END2
}

for replicas in 1 3; do
    train --steps 20 --replicas $replicas --out "$DIR/$replicas"
    check "as PyTorch, $replicas replicas" alike $replicas 0
done
train --steps 10 --out "$DIR/stopped"
train --steps 20 --resume "$DIR/stopped" --out "$DIR/resumed"
check "the same behind a resume" alike resumed 10
check "one replica and three compute the same" "$graph_transform" "${args[@]:0:1}" --loss output:loss --optimizer file --batch-size 5 --replicas 3 --verify

# An algorithm that asks for the gradient itself.
mkdir "$DIR/gradient"
/usr/bin/python3 tests/cli/training_info_gradient.py "$DIR/gradient"
for replicas in 1 3; do
    "$dpexec" train "$DIR/gradient/net.onnx" --data "$DIR/gradient/data.npz" --loss output:loss --optimizer file --batch-size 5 --no-shuffle \
        --dtype float64 --threads 1 --steps 10 --replicas $replicas --quiet --out "$DIR/gradient/$replicas" >"$DIR/log" 2>&1 || cat "$DIR/log"
    check "its own gradient, $replicas replicas" /usr/bin/python3 -c '
import json, sys
want = list(map(float, open(sys.argv[1] + "/losses.txt")))
got = [row["loss"] for row in map(json.loads, open(sys.argv[1] + "/" + sys.argv[2] + "/metrics.jsonl")) if "loss" in row]
assert len(got) == 10 and max(abs(g - w) for g, w in zip(got, want)) <= 1e-12, got' "$DIR/gradient" $replicas
done

# Several steps in an iteration, and first values that a graph computes.
mkdir "$DIR/steps"
/usr/bin/python3 tests/cli/training_info_steps.py "$DIR/steps"
by_file=(--loss output:loss --optimizer file --batch-size 5)
go() {
    local model=$1 out=$2
    shift 2
    rm -rf "$DIR/steps/$out"
    tests/cli/defaults "${by_file[@]}" -- "$dpexec" train "$DIR/steps/$model.onnx" --data "$DIR/steps/data.npz" --no-shuffle --dtype float64 --threads 1 --quiet \
        --out "$DIR/steps/$out" "$@" >"$DIR/log" 2>&1 || cat "$DIR/log"
}
# as_numpy OUT COLUMN FROM: the losses of that step of each iteration, from that iteration on.
as_numpy() {
    /usr/bin/python3 -c '
import json, sys
folder, out, column, first = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
want = [float(line.split()[column]) for line in open(folder + "/steps.txt")][first:]
got = [row["loss"] for row in map(json.loads, open(folder + "/" + out + "/metrics.jsonl")) if "loss" in row]
assert len(got) == len(want) and max(abs(g - w) for g, w in zip(got, want)) <= 1e-12, (got, want)' "$DIR/steps" "$@"
}
for replicas in 1 3; do
    go steps first --steps 10 --replicas $replicas
    check "two steps an iteration, $replicas replicas" as_numpy first 0 0
    go steps second --steps 10 --replicas $replicas --loss output:training_info.1/loss
    check "the second's loss, $replicas replicas" as_numpy second 1 0
done
go steps stopped --steps 4
go steps resumed --steps 10 --resume "$DIR/steps/stopped"
check "first values are those of a run, not of a resume" as_numpy resumed 0 4
"$graph_transform" "$DIR/steps/steps.onnx" "${by_file[@]}" --dtype float64 --training-info -o "$DIR/steps/again.onnx"
go again again --steps 10
check "steps and first values, written and read" as_numpy again 0 0

# drawn OUT OTHER: the first loss of both is the same; the exported f, which nothing updates, was drawn as its file says.
drawn() {
    /usr/bin/python3 -c '
import json, sys
import onnx
from onnx import numpy_helper
rows = [[json.loads(line)["loss"] for line in open(sys.argv[1] + "/" + out + "/metrics.jsonl") if "loss" in json.loads(line)] for out in sys.argv[2:]]
assert all(abs(a - b) <= 1e-12 * abs(a) for a, b in zip(*rows)), rows
held = {i.name: numpy_helper.to_array(i) for i in onnx.load(sys.argv[1] + "/" + sys.argv[2] + "/model.onnx").graph.initializer}
f = held["f"].ravel()
assert f.min() >= -0.25 and f.max() <= 0.125 and abs(f.mean() + 0.0625) < 0.02 and len(set(f)) > 1000, f' "$DIR/steps" "$@"
}
for replicas in 1 3; do
    go random drawn-$replicas --steps 3 --replicas $replicas
done
check "first values are drawn, the same on any number of replicas" drawn drawn-1 drawn-3
"$graph_transform" "$DIR/steps/random.onnx" "${by_file[@]}" --dtype float64 --training-info -o "$DIR/steps/again.onnx"
go again drawn-again --steps 3
check "they are drawn anew from what is written" drawn drawn-1 drawn-again
go random other --steps 3 --seed 7
differ() { ! drawn drawn-1 other; }
check "another seed draws others" differ
go random w --steps 1 --seed 7
weights() {
    /usr/bin/python3 -c '
import sys
import onnx
from onnx import numpy_helper
w = {i.name: numpy_helper.to_array(i) for i in onnx.load(sys.argv[1]).graph.initializer}["w"].ravel()
assert abs(w.mean() - 0.5) < 0.05 and 0.04 < w.std() < 0.12 and len(set(w)) > 2000, (w.mean(), w.std())' "$1"
}
check "normally" weights "$DIR/steps/w/model.onnx"

# says TEXT ARGUMENTS...: it is refused so.
says() {
    local text=$1
    shift
    ! "$dpexec" train "$@" --steps 1 --quiet --out "$DIR/refused" >"$DIR/log" 2>&1 && grep -qF -- "$text" "$DIR/log" || { cat "$DIR/log"; false; }
}
check "options of other optimizers" says "leave out: --lr; --clip-norm; --accumulate" "${args[@]}" --lr 1 --clip-norm 1 --accumulate 2
check "a group" says "how all or none of its tensors are updated" "${args[@]:0:3}" --target t --loss mse --batch-size 5 --group 'w:optimizer=file'
check "a model without" says "has no training_info" models/mlp.onnx --data "$here/data.npz" --loss cross-entropy --optimizer file

# losses OUT OTHER: those of both are the same, to rounding.
losses() {
    /usr/bin/python3 - "$DIR/$1" "$DIR/$2" <<'END2'
import json, sys
a, b = [[row["loss"] for row in map(json.loads, open(folder + "/metrics.jsonl")) if "loss" in row] for folder in sys.argv[1:]]
if len(a) != 4 or len(b) != 4 or not max(abs(x - y) / abs(x) for x, y in zip(a, b)) <= 1e-12:
    sys.exit("%s, expected %s" % (b, a))
END2
}

/usr/bin/python3 -c '
import sys
import numpy as np
r = np.random.RandomState(1)
np.savez(sys.argv[1], image=r.normal(size=(12, 1, 28, 28)).astype(np.float32), target=r.randint(0, 10, 12))' "$DIR/images.npz"
run=(--data "$DIR/images.npz" --batch-size 6 --no-shuffle --steps 4 --dtype float64 --threads 1 --quiet)
for optimizer in 'sgd --momentum 0.9 --nesterov' 'adam --weight-decay 0.01'; do
    what=(--loss cross-entropy --optimizer $optimizer --lr 0.003)
    "$graph_transform" models/fashion_cnn.onnx "${what[@]}" --batch-size 6 --dtype float64 --training-info -o "$DIR/step.onnx"
    "$dpexec" train models/fashion_cnn.onnx "${what[@]}" "${run[@]}" --out "$DIR/given" >"$DIR/log" 2>&1 || cat "$DIR/log"
    for replicas in 1 3; do
        "$dpexec" train "$DIR/step.onnx" --loss output:loss --optimizer file "${run[@]}" --replicas $replicas --out "$DIR/read" \
            >"$DIR/log" 2>&1 || cat "$DIR/log"
        check "written and read, $optimizer, $replicas replicas" losses given read
        rm -r "$DIR/read"
    done
    rm -r "$DIR/given"
done
/usr/bin/python3 -c '
import sys
import numpy as np
r = np.random.RandomState(1)
np.savez(sys.argv[1], x=r.normal(size=(12, 64)).astype(np.float32), target=r.randint(0, 10, 12))' "$DIR/rows.npz"
"$graph_transform" models/mlp.onnx "${what[@]}" --batch-size 6 --dtype float64 --training-info --standard -o "$DIR/standard.onnx"
"$dpexec" train models/mlp.onnx "${what[@]}" "${run[@]/%images.npz/rows.npz}" --out "$DIR/given" >"$DIR/log" 2>&1 || cat "$DIR/log"
"$dpexec" train "$DIR/standard.onnx" --loss output:loss --optimizer file "${run[@]/%images.npz/rows.npz}" --out "$DIR/read" \
    >"$DIR/log" 2>&1 || cat "$DIR/log"
check "written in operators of ONNX and read" losses given read
check "which they are" /usr/bin/python3 -c '
import sys, onnx
found = {n.op_type for n in onnx.load(sys.argv[1]).training_info[0].algorithm.node if n.domain}
assert found == {"Decided"}, found' "$DIR/standard.onnx"
check "the model of such a file runs" "$dpexec" eval "$DIR/step.onnx" --loss cross-entropy --data "$DIR/images.npz" --batch-size 4
another() {
    "$graph_transform" $here/net.onnx --loss mse --logits y --target t --batch-size 5 --training-info -o "$DIR/mse.onnx" &&
        ! "$dpexec" train "$DIR/mse.onnx" --loss output:loss --optimizer file --data $here/data.npz --batch-size 4 --steps 1 --quiet \
            --out "$DIR/other" >"$DIR/log" 2>&1 && grep -qF "exported for batches of 5 and does not work for 4" "$DIR/log" || { cat "$DIR/log"; false; }
}
check "another batch is refused" another
# unwritten TEXT ARGUMENTS...: graph-transform says so.
unwritten() {
    local text=$1
    shift
    ! "$graph_transform" models/mlp.onnx --training-info "$@" >"$DIR/log" 2>&1 && grep -qF -- "$text" "$DIR/log" || { cat "$DIR/log"; false; }
}
check "a loss is needed" unwritten "give --loss" -o "$DIR/x.onnx" --batch-size 4
check "one replica" unwritten "of one replica, found 2" -o "$DIR/x.onnx" --loss cross-entropy --batch-size 4 --replicas 2
check "one learning rate" unwritten "expected --lr-schedule constant" -o "$DIR/x.onnx" --loss cross-entropy --batch-size 4 --lr-schedule exponential:0.9
check "a name of ONNX" unwritten "give -o FILE.onnx" -o "$DIR/x.txt" --loss cross-entropy
finish
