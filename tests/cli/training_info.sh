#!/bin/bash
# A model that says itself how it is trained (training_info), by PyTorch's figures in float64 (tests/cli/training_info.py): on 1 and 3
# replicas, stopped and resumed, and what is exported behind it; and options that leave it nothing to say.
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

# says TEXT ARGUMENTS...: it is refused so.
says() {
    local text=$1
    shift
    ! "$dpexec" train "$@" --steps 1 --quiet --out "$DIR/refused" >"$DIR/log" 2>&1 && grep -qF -- "$text" "$DIR/log" || { cat "$DIR/log"; false; }
}
check "options of other optimizers" says "without: --lr; --clip-norm; --accumulate" "${args[@]}" --lr 1 --clip-norm 1 --accumulate 2
check "a group" says "how all or none of its tensors are updated" "${args[@]:0:3}" --target t --loss mse --batch-size 5 --group 'w:optimizer=file'
python3 -c "" 
check "a model without" says "has no training_info" models/mlp.onnx --data "$here/data.npz" --loss cross-entropy --optimizer file
finish
