#!/bin/bash
# --no-decay leaves scales and biases without weight decay: the same bytes as groups that name them, and PyTorch's losses.
# With several optimizers, replicas, accumulated batches, beside --group, and resumed.  Needs python3-numpy, python3-onnx.
. "$(dirname "$0")/lib.sh"
"${PYTHON:-/usr/bin/python3}" tests/cli/no_decay.py "$DIR"
train=(tests/cli/defaults --batch-size 12 --epochs 2 --threads 1 --dtype float64 --weight-decay 0.3 -- "$dpexec" "$DIR/net.onnx" --data "$DIR/data.npz"
    --loss cross-entropy --quiet)
norm=(--group 'bn.*:weight-decay=0' --group 'ln.*:weight-decay=0')
bias=(--group '*.bias:weight-decay=0')

# same NAME FLAG... -- GROUP...: a run with the flags writes the model of a run with the groups, and not that of one without either.
same() {
    local name=$1 flags=()
    shift
    while [ "$1" != -- ]; do flags+=("$1"); shift; done
    shift
    rm -rf "$DIR/by_kind" "$DIR/by_name"
    check "$name: a run" "${train[@]}" "${flags[@]}" --out "$DIR/by_kind"
    check "$name: a run by groups" "${train[@]}" "${flags_without[@]}" "$@" --out "$DIR/by_name"
    check "$name: the same model" cmp "$DIR/by_kind/model.onnx" "$DIR/by_name/model.onnx"
}

for optimizer in adamw sgd lion adam lamb; do
    for how in "" "--replicas 3" "--accumulate 2"; do
        flags_without=(--optimizer $optimizer --lr 0.01 $how)
        same "$optimizer $how norm,bias" "${flags_without[@]}" --no-decay norm,bias -- "${norm[@]}" "${bias[@]}"
        [ -z "$how" ] || continue
        same "$optimizer norm" "${flags_without[@]}" --no-decay norm -- "${norm[@]}"
        same "$optimizer bias" "${flags_without[@]}" --no-decay bias -- "${bias[@]}"
    done
    check "$optimizer: without the flag" "${train[@]}" "${flags_without[@]}" --out "$DIR/all.$optimizer"
    check "$optimizer: another model" differ "$DIR/by_kind/model.onnx" "$DIR/all.$optimizer/model.onnx"
done
# The losses of PyTorch with groups of its own (tests/cli/no_decay_torch.py).
while read -r optimizer kinds want; do
    for how in "" "--replicas 3"; do
        rm -rf "$DIR/run"
        check "$optimizer $kinds $how: a run" "${train[@]}" --no-shuffle --optimizer $optimizer --lr 0.01 --no-decay $kinds $how --out "$DIR/run"
        check "$optimizer $kinds $how: PyTorch's losses" near "$(losses "$DIR/run")" "$want"
    done
done <tests/cli/no_decay/torch.txt
# Norms that the file has in single operators, of PyTorch's exporter.
for opset in 13 16; do
    check "opset $opset has no norms" test -z "$(grep -aoE '(Layer|Group)Normalization' tests/cli/no_decay/formulas$opset.onnx)"
    while read -r kind names; do
        "$graph_transform" tests/cli/no_decay/formulas$opset.onnx --loss cross-entropy --batch-size 4 --no-decay $kind --parameters >"$DIR/table"
        check "opset $opset, $kind" test "$(sed -n 's/ .*no weight decay$//p' "$DIR/table" | sort | paste -sd ' ')" = "$names"
    done <tests/cli/no_decay/formulas.names
done
while read -r optimizer kinds want; do
    for how in "" "--replicas 3"; do
        rm -rf "$DIR/run"
        check "formulas, $optimizer $kinds $how: a run" "${train[@]/#$DIR\/net.onnx/tests/cli/no_decay/formulas13.onnx}" --no-shuffle \
            --optimizer $optimizer --lr 0.01 --no-decay $kinds $how --out "$DIR/run"
        check "formulas, $optimizer $kinds $how: PyTorch's losses" losses "$DIR/run" $want
    done
done <tests/cli/no_decay/formulas.txt
# Beside groups: a parameter keeps its group's rate.
flags_without=(--optimizer adamw --lr 0.01)
same "a group" "${flags_without[@]}" --no-decay bias --group 'fc.*:lr=0.02' -- --group 'fc.bias:lr=0.02,weight-decay=0' --group 'fc.*:lr=0.02' "${bias[@]}"
# A resumed run.
rm -rf "$DIR/whole" "$DIR/half"
check "a whole run" "${train[@]}" "${flags_without[@]}" --no-decay norm,bias --out "$DIR/whole"
check "a half" "${train[@]}" "${flags_without[@]}" --no-decay norm,bias --epochs 1 --out "$DIR/half"
check "the rest" "$dpexec" resume "$DIR/half" --epochs 2
check "the same model" cmp "$DIR/whole/model.onnx" "$DIR/half/model.onnx"
refused 2 "--no-decay was 'norm,bias', is 'norm'" "$dpexec" resume "$DIR/half" --epochs 3 --no-decay norm

"$graph_transform" "$DIR/net.onnx" --loss cross-entropy --batch-size 4 --no-decay norm,bias --parameters >"$DIR/table"
check "the table says which" test "$(sed -n 's/ .*no weight decay$//p' "$DIR/table" | sort | paste -sd ' ')" = "bn.bias bn.weight conv.bias fc.bias fc2.bias ln.bias ln.weight"
"$graph_transform" "$DIR/deform.onnx" --loss cross-entropy --batch-size 4 --no-decay bias --parameters >"$DIR/table"
check "biases behind other inputs" test "$(sed -n 's/ .*no weight decay$//p' "$DIR/table" | sort | paste -sd ' ')" = "deform.bias gru.bias"
refused 2 "--no-decay: expected norm, bias or norm,bias, found 'norms'" "${train[@]}" --no-decay norms
refused 2 "found 'norm,'" "${train[@]}" --no-decay norm,
finish
