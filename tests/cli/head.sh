#!/bin/bash
# --head: networks whose last layer gets other outputs train as PyTorch trains them, in float64 (tests/cli/head.py), on 1 and 3 replicas;
# what a run keeps of it; which layers are refused.
. "$(dirname "$0")/lib.sh"
here=tests/cli/head
python=${PYTHON:-/usr/bin/python3}

# alike NAME EXPECTED...: the losses of both runs, to 1e-8.
alike() {
    "$python" - "$DIR" "$@" <<'PY'
import json, sys
want = list(map(float, sys.argv[3:]))
for replicas in "13":
    got = [row["loss"] for row in map(json.loads, open("%s/%s-%s/metrics.jsonl" % (sys.argv[1], sys.argv[2], replicas))) if "loss" in row]
    if len(got) != 8 or len(want) != 8 or not max(abs(g - w) for g, w in zip(got, want)) <= 1e-8:
        sys.exit("%s replicas: %s, expected %s" % (replicas, got, want))
PY
}

common=(--batch-size 10 --no-shuffle --optimizer sgd --lr 0.1 --momentum 0.9 --seed 5 --threads 1)
while read -r name head flags _ want; do
    IFS=, read -ra flags <<<"$flags"
    for replicas in 1 3; do
        "$dpexec" train $here/$name.onnx --data $here/$name.npz --head "$head" "${flags[@]}" "${common[@]}" --steps 8 --dtype float64 \
            --replicas $replicas --out "$DIR/$name-$replicas" >"$DIR/$name.log" 2>&1 || cat "$DIR/$name.log"
    done
    # shellcheck disable=SC2086     # several numbers
    check "$name" alike "$name" $want
done <$here/torch.txt
check "networks" test "$(wc -l <$here/torch.txt)" = 6

# ---- what is said ----
check "the new layer is said" grep -qF "has 4 outputs in place of 10 (--head): new 'fc.weight' [4,8] and 'fc.bias' [4], uniform in +-0.3536" "$DIR/mlp.log"
check "the Softmax is said" grep -qF "is left out, because --loss cross-entropy applies Softmax: the output has scores from here on" "$DIR/mlp.log"
check "the tied weight is said" grep -qF "embed.weight: other nodes read it, too: the new layer has its own, 'head.weight'" "$DIR/tied.log"
says "give the last layer N outputs and new weights" env COLUMNS=200 "$dpexec" train --help
says "fc.weight : float32[4,8]" "$graph_transform" $here/mlp.onnx --head 4 --batch-size 2 --until infer-shapes
check "another seed, other weights" differ <("$graph_transform" $here/mlp.onnx --head 4 --batch-size 2 --until infer-shapes) \
    <("$graph_transform" $here/mlp.onnx --head 4 --batch-size 2 --until infer-shapes --seed 1)
says "new weights of --head" "$graph_transform" $here/mlp.onnx --head 4 --loss cross-entropy --parameters

# ---- what a run keeps: resumed without the flag it goes on, and its model needs no flag ----
net=($here/mlp.onnx --data $here/mlp.npz --loss cross-entropy "${common[@]}" --quiet)
check "whole" "$dpexec" train "${net[@]}" --head 4 --steps 8 --out "$DIR/whole"
check "half" "$dpexec" train "${net[@]}" --head 4 --steps 4 --out "$DIR/half"
cp -r "$DIR/half" "$DIR/again"
check "resumed without the flag" "$dpexec" train "${net[@]}" --steps 8 --resume "$DIR/half"
check "the same model" cmp "$DIR/half/model.onnx" "$DIR/whole/model.onnx"
check "kept in args.json" grep -q '"head": "4"' "$DIR/half/args.json"
check "dpexec resume" "$dpexec" resume "$DIR/again" --steps 8
check "its model" cmp "$DIR/again/model.onnx" "$DIR/whole/model.onnx"
refused 2 "--head was '4', is '5'" "$dpexec" train "${net[@]}" --head 5 --steps 9 --resume "$DIR/half"
check "exported" "$dpexec" export "$DIR/whole" --at last -o "$DIR/exported.onnx"
check "the same file" cmp "$DIR/exported.onnx" "$DIR/whole/model.onnx"
says '"eval_loss"' "$dpexec" eval "$DIR/whole" --data $here/mlp.npz
"$python" -c "
import sys, numpy
numpy.save(sys.argv[2], numpy.load(sys.argv[1])['x'])" $here/mlp.npz "$DIR/x.npy"
check "run" "$dpexec" run "$DIR/whole" --input x="$DIR/x.npy" --out "$DIR/scores"
check "four scores" "$python" -c "
import sys, numpy
sys.exit(numpy.load(sys.argv[1]).shape != (30, 4))" "$DIR/scores/scores.npy"
check "declared in the file" "$python" -c "
import sys, onnx
m = onnx.load(sys.argv[1])
onnx.checker.check_model(m, full_check=True)
sys.exit([d.dim_value for d in m.graph.output[0].type.tensor_type.shape.dim][1] != 4 or 'Softmax' in [n.op_type for n in m.graph.node])" "$DIR/whole/model.onnx"
says "trains 36 parameters in 2 tensors" "$dpexec" train "${net[@]:0:${#net[@]}-1}" --head 4 --freeze '*' --train 'fc.*' --steps 2 --out "$DIR/alone"
check "balanced weights" "$dpexec" train "${net[@]}" --head 4 --class-weights balanced --steps 1

# ---- data with other classes ----
images=tests/tools/images
for i in 0 1 2; do
    mkdir -p "$DIR/images/class$i"
    cp $images/rgb.png "$DIR/images/class$i"
done
rows=$(printf '1,2,3,4,5,6,%s\n' a b c d e f g h i j k)
printf 'a,b,c,d,e,f,kind\n%s\n' "$rows" >"$DIR/kinds.csv"
says "has 3 classes, but output 'scores' of the model has 10: --head 3 replaces its last layer" "$dpexec" train $here/resnet.onnx \
    --data "images:$DIR/images,size=5" --loss cross-entropy --steps 1 --threads 1
says "(--head)" "$dpexec" train $here/resnet.onnx --data "images:$DIR/images,size=5" --loss cross-entropy --steps 1 --threads 1 --head 3
check "nothing more to say" test "$(grep -c "classes, but output" "$DIR/says.log")" = 0
refused 2 "has 11 classes, but output 'scores' of the model has 10: --head 11 replaces its last layer" "$dpexec" train $here/mlp.onnx \
    --data "csv:$DIR/kinds.csv,target=kind" --loss cross-entropy --steps 1 --threads 1
says "trained 1 step" "$dpexec" train $here/mlp.onnx --data "csv:$DIR/kinds.csv,target=kind" --loss cross-entropy --steps 1 --threads 1 --head 11

# Labels without names are noted.
"$python" -c "
import sys, numpy as np
np.savez(sys.argv[1] + '/three.npz', x=np.ones((9, 6), 'f'), target=np.arange(9) % 3)
np.savez(sys.argv[1] + '/ten.npz', x=np.ones((10, 6), 'f'), target=np.arange(10))" "$DIR"
printf 'a,b,c,d,e,f,kind\n1,2,3,4,5,6,0\n1,2,3,4,5,7,1\n1,2,3,4,5,8,2\n' >"$DIR/numbers.csv"
few=(--loss cross-entropy --steps 1 --threads 1)
hint="has labels 0 to 2, but output 'scores' of the model has scores for 10 classes: --head 3 replaces its last layer"
says "$hint" "$dpexec" train $here/mlp.onnx --data "$DIR/three.npz" "${few[@]}"
says "$hint" "$dpexec" train $here/mlp.onnx --data "csv:$DIR/numbers.csv,target=kind" "${few[@]}"
for how in "three.npz --head 3" "three.npz --quiet" "ten.npz"; do
    check "$how" "$dpexec" train $here/mlp.onnx --data "$DIR/"$how "${few[@]}"
    check "$how: nothing to say" test "$(grep -c "has labels" "$DIR/check.log")" = 0
done

# ---- what is refused ----
refused 2 "--head: expected a number of outputs from 1 to 100000000, or NAME=N, found '0'" "$dpexec" train "${net[@]}" --head 0
refused 2 "found 'fc'" "$dpexec" train "${net[@]}" --head fc
refused 2 "found '=3'" "$dpexec" train "${net[@]}" --head =3
refused 2 "has this name; the last weights are 'fc.weight', 'body.weight'" "$dpexec" train "${net[@]}" --head classifier=10
refused 2 "the model has no output of --logits nothing" "$dpexec" train "${net[@]}" --head 3 --logits nothing
finish
