#!/bin/bash
# What graph-transform exports it reads again: the text of the graph is the same at every stage, partitioned or not, with layouts and
# types of a GPU too.  Such a file is no model, and is refused where one is needed.
. "$(dirname "$0")/lib.sh"

# reread NAME MODEL OPTION...: the graph as text, and the text of its export.
reread() {
    local name=$1 model=$2
    shift 2
    check "$name: text" "$graph_transform" "models/$model.onnx" "$@" -o "$DIR/$name.txt"
    check "$name: export" "$graph_transform" "models/$model.onnx" "$@" -o "$DIR/$name.onnx"
    check "$name: reread" "$graph_transform" "$DIR/$name.onnx" -o "$DIR/$name.again.txt"
    check "$name: the same" cmp "$DIR/$name.txt" "$DIR/$name.again.txt"
}

train=(--loss cross-entropy --batch-size 5)
for model in mlp fashion_cnn transformer; do
    reread "${model}_autodiff" $model "${train[@]}" --until autodiff
    reread "${model}_optimizer" $model "${train[@]}" --optimizer adamw --weight-decay 0.1 --until add-optimizer
    reread "${model}_whole" $model "${train[@]}" --momentum 0.9 --replicas 3 --devices 'cpu*2'
    reread "${model}_gpus" $model "${train[@]}" --optimizer adam --clip-norm 1 --precision float16 --devices 'cuda*2@tests/devices/h100.json'
done
reread sums fashion_cnn "${train[@]}" --accumulate 2 --bn local --replicas 2
reread inference fashion_cnn --batch-size 4 --replicas 2

# An exported step can be exported again, drawn and reported.
step=$DIR/mlp_whole.onnx
check "export again" "$graph_transform" "$step" -o "$DIR/again.onnx"
check "the second export says the same" "$graph_transform" "$DIR/again.onnx" -o "$DIR/again.txt"
check "the second export is the same" cmp "$DIR/mlp_whole.txt" "$DIR/again.txt"
refused 2 "it is shown as it is, without: --until; --batch-size; --loss" "$graph_transform" "$step" "${train[@]}" --until partition
refused 2 "--verify partitions a model; this one is a step that was exported" "$graph_transform" "$step" --verify
refused 1 "the model is a step that graph-transform exported" "$dpexec" "$step" --data tests/oracle/data/digits.npz --loss cross-entropy
refused 1 "the model is a step that graph-transform exported" "$dpexec" run "$step" --out "$DIR/none"
refused 1 "the model is a step that graph-transform exported" "$dpexec" run "$step" --dry-run
refused 1 "the model is a step that graph-transform exported" "$dpexec" "$step" --loss cross-entropy --batch-size 5 --dry-run
finish
