#!/bin/bash
# Losses against PyTorch (tests/cli/losses.py): the axis of the classes, where the targets' shape tells it and where it does not, and
# losses of the model's own that say what they weigh, over groups of batches, evaluations and replicas.
. "$(dirname "$0")/lib.sh"
here=tests/cli/losses
common=(--batch-size 4 --lr 0.5 --no-shuffle --epochs 1 --threads 1 --quiet --plain-defaults --input-shape x=4,6)
scores=(--data $here/data.npz --loss cross-entropy)
own=(--data $here/masked.npz --input-shape y=4,6 --loss)

# trains NAME MODEL FLAG...: the losses of the steps are PyTorch's.
trains() {
    local name=$1 model=$2
    shift 2
    rm -rf "$DIR/run"
    check "$model $*" tests/cli/defaults "${common[@]:0:7}" -- "$dpexec" $here/"$model".onnx "${common[@]:7}" --out "$DIR/run" "$@"
    check "losses of $model $*: $(losses "$DIR/run")" near "$(losses "$DIR/run")" "$(expected "$name" 3-)"
}

# As many classes as there are positions, and in the last batch as many samples as nothing else: the symbols tell, in either order.
for replicas in 1 3; do
    trains plain open "${scores[@]}" --replicas $replicas
    trains plain first "${scores[@]}" --replicas $replicas
    trains plain fixed "${scores[@]}" --replicas $replicas --class-axis 2
    trains weights open "${scores[@]}" --replicas $replicas --class-weights $here/class_weights.npy --ignore-index 2 --label-smoothing 0.1
    trains group own_loss "${own[@]}" output:loss --loss-weight count --replicas $replicas --accumulate 2
    trains group own_loss "${own[@]}" output:loss --loss-weight output:count --replicas $replicas --batch-size 8
    trains group own_loss "${own[@]}" outputs --loss-weight count --replicas $replicas --accumulate 2
    check "log variables" test "$(grep -c '"log":{"loss.0":[0-9.e-]*,"count":[0-9.e-]*,"total":[0-9.e-]*}}$' "$DIR/run/metrics.jsonl")" = "$(wc -l <"$DIR/run/metrics.jsonl")"
    trains sum own_loss "${own[@]}" output:total --loss-weight sum --replicas $replicas --accumulate 2
    trains plain open "${scores[@]}" --replicas $replicas --chunk-loss 5
    trains group own_loss "${own[@]}" output:loss --loss-weight count --replicas $replicas --accumulate 2 --chunk-loss 5
    trains sum own_loss "${own[@]}" output:total --loss-weight sum --replicas $replicas --accumulate 2 --chunk-loss 5
done

# Scores in chunks of rows on simulated GPUs, where products add the gradients of chunks up.
if [ -f "$build/libdpexec_cudasim.so" ]; then
    export DPEXEC_CUDA_PLUGIN=$build/libdpexec_cudasim.so
    for devices in "cuda:0" "cuda*2 --replicas 3"; do
        # shellcheck disable=SC2086     # several words
        trains plain open "${scores[@]}" --chunk-loss 5 --devices $devices
        # shellcheck disable=SC2086
        trains group own_loss "${own[@]}" output:loss --loss-weight count --accumulate 2 --chunk-loss 5 --devices $devices
    done
    unset DPEXEC_CUDA_PLUGIN
else
    skip "chunks on simulated GPUs" "not built"
fi

# Outputs that are sequences: each is one log variable, the sum of its means, and a group's loss under its name.
logged() { sed -nE '/log":/{s/.*"(eval_)?loss":([^,]*),.*log":\{([^}]*)\}.*/\2 \3/;s/"[a-z_]*"://g;y/,/ /;p}' "$1" | tr '\n' ' '; }
for flags in "--replicas 1" "--replicas 3" "--devices cpu*2 --replicas 5" "--replicas 3 --group embed:loss=losses"; do
    name=listed
    [[ $flags = *group* ]] && name+=-embed
    rm -rf "$DIR/run"
    # shellcheck disable=SC2086     # several words
    check "lists $flags" "$dpexec" $here/listed.onnx "${common[@]}" "${own[@]}" outputs $flags --out "$DIR/run"
    check "log variables of lists $flags" near "$(logged "$DIR/run/metrics.jsonl")" "$(expected $name 2-)"
done
"$dpexec" eval $here/listed.onnx --batch-size 4 --input-shape x=4,6 --threads 1 "${own[@]}" outputs --replicas 3 --quiet >"$DIR/eval"
check "lists evaluated over batches: $(cat "$DIR/eval")" near "$(logged "$DIR/eval")" "$(expected listed-whole 2-)"
check "a list has one name" grep -qE '"eval_log":\{"losses":[0-9.e-]*,"sizes":[0-9.e-]*,"reg_loss":[0-9.e-]*\}' "$DIR/eval"
refused 2 "has no output 'lossed'" "$dpexec" $here/listed.onnx "${common[@]}" "${own[@]}" outputs --group embed:loss=lossed
refused 2 "output 'losses.0' is a loss of group 'embed' and of '*', a turn each: expected one" "$dpexec" $here/listed.onnx "${common[@]}" \
    "${own[@]}" outputs --group embed:loss=losses --group '*:loss=losses.0' --turns
refused 2 "give --class-axis" "$dpexec" $here/fixed.onnx "${common[@]}" "${scores[@]}"
refused 2 "expected an axis from 1 on, or -1" "$dpexec" $here/fixed.onnx "${common[@]}" "${scores[@]}" --class-axis=0
refused 2 "one of its axes from 1 on" "$dpexec" $here/fixed.onnx "${common[@]}" "${scores[@]}" --class-axis 3
refused 2 "--class-axis does not go with --loss mse" "$dpexec" $here/fixed.onnx "${common[@]}" --data $here/data.npz --loss mse --class-axis 2
says "along axis 2, as the targets' shape says" "$dpexec" $here/open.onnx --batch-size 4 --input-shape x=4,6 "${scores[@]}" --steps 1
says "are taken along axis 1" "$graph_transform" $here/fixed.onnx --batch-size 4 --loss cross-entropy --report
says "are taken along axis 1" "$dpexec" $here/fixed.onnx --batch-size 4 --loss cross-entropy --dry-run

# Evaluation over several batches, of which the last is smaller.
eval=(--batch-size 4 --input-shape x=4,6 --threads 1)
check "eval" near "$(evaluated $here/open.onnx "${eval[@]}" "${scores[@]}")" "$(expected plain 2)"
check "eval by weight" near "$(evaluated $here/own_loss.onnx "${eval[@]}" "${own[@]}" output:loss --loss-weight count)" "$(expected group 2)"
check "eval by weight of outputs" near "$(evaluated $here/own_loss.onnx "${eval[@]}" "${own[@]}" outputs --loss-weight count)" "$(expected group 2)"
check "eval of sums" near "$(evaluated $here/own_loss.onnx "${eval[@]}" "${own[@]}" output:total --loss-weight sum)" "$(expected sum 2)"

# What was decided is kept: a run goes on with it, and is evaluated by it, where shapes alone would not tell.
rm -rf "$DIR/run"
check "to be resumed" "$dpexec" $here/fixed.onnx "${common[@]}" "${scores[@]}" --class-axis 2 --steps 2 --out "$DIR/run"
check "resumed" "$dpexec" $here/fixed.onnx --batch-size 4 --lr 0.5 --no-shuffle --epochs 1 --threads 1 --quiet --plain-defaults --input-shape x=4,6 "${scores[@]}" \
    --resume "$DIR/run"
check "losses behind a resume: $(losses "$DIR/run")" near "$(losses "$DIR/run")" "$(expected plain 3-)"
check "eval of a checkpoint" test -n "$(evaluated $here/fixed.onnx "${eval[@]}" "${scores[@]}" --resume "$DIR/run")"
refused 2 "give --class-axis 2" "$dpexec" $here/fixed.onnx "${common[@]}" "${scores[@]}" --class-axis 1 --resume "$DIR/run" --steps 9

# Class probabilities (tests/obeyed/soft_* compare them with PyTorch): what they need, and what they do not go with.
soft=(tests/obeyed/soft_labels/model.onnx --batch-size 5 --threads 1)
check "probabilities in parts" "$graph_transform" "${soft[@]:0:3}" --loss cross-entropy --soft-labels --label-smoothing 0.1 --metric perplexity --replicas 3 --verify
check "probabilities as a standard graph" "$graph_transform" "${soft[@]:0:3}" --loss cross-entropy --soft-labels --standard -o "$DIR/soft.onnx"
rm -rf "$DIR/run" "$DIR/soft"
probabilities=("${soft[@]}" --loss cross-entropy)
soft+=(--data tests/obeyed/soft_labels/data.npz --loss cross-entropy)
check "probabilities at once" "$dpexec" "${soft[@]}" --epochs 2 --out "$DIR/soft" --quiet
check "to be resumed" "$dpexec" "${soft[@]}" --epochs 2 --steps 4 --out "$DIR/run" --quiet
check "resumed" "$dpexec" "${soft[@]}" --epochs 2 --resume "$DIR/run" --quiet
check "the same model" cmp "$DIR/soft/model.onnx" "$DIR/run/model.onnx"
refused 2 "--ignore-index 1 does not go with targets that are class probabilities" "$dpexec" "${soft[@]}" --ignore-index 1
refused 2 "--loss nll takes class numbers: --loss cross-entropy takes class probabilities" "$dpexec" "${soft[@]/%cross-entropy/nll}"
refused 1 "expected class probabilities of that shape, or class numbers" "$dpexec" "${probabilities[@]}" --data tests/obeyed/soft_labels/hard.npz --soft-labels
/usr/bin/python3 - "$DIR" <<'END'
import sys
import numpy as np
given = np.load("tests/obeyed/soft_labels/data.npz")
for name, target in {"whole": np.eye(3, dtype=np.int64)[given["target"].argmax(1)], "wide": np.ones((14, 4)), "deep": given["target"][:, :, None]}.items():
    np.savez(f"{sys.argv[1]}/{name}.npz", x=given["x"], target=target)
END
refused 2 "expected class probabilities as floats, or class numbers without that axis" "$dpexec" "${probabilities[@]}" --data "$DIR/whole.npz"
refused 1 "targets of shape [5,4] do not fit the scores of output 'y' [5,3]" "$dpexec" "${probabilities[@]}" --data "$DIR/wide.npz"
refused 2 "has more axes than the model's scores, which have 2" "$dpexec" "${probabilities[@]}" --data "$DIR/deep.npz"

# Where nothing says what a loss weighs, that is said once.
weighs="is weighted by its number of samples"
says "$weighs" "$dpexec" $here/own_loss.onnx "${eval[@]}" "${own[@]}" output:loss --steps 1 --accumulate 2
says "$weighs" "$dpexec" eval $here/own_loss.onnx "${eval[@]}" "${own[@]}" output:loss
"$dpexec" $here/own_loss.onnx "${eval[@]}" "${own[@]}" output:loss --epochs 3 --accumulate 2 --val $here/masked.npz >"$DIR/log" 2>&1
check "once" test "$(grep -c "$weighs" "$DIR/log")" = 1
for quiet in "--accumulate 2 --loss-weight count" "--loss-weight sum --val $here/masked.npz" "--steps 3"; do
    # shellcheck disable=SC2086
    "$dpexec" $here/own_loss.onnx "${eval[@]}" "${own[@]}" output:loss $quiet >"$DIR/log" 2>&1
    check "not said with $quiet" test "$(grep -c "$weighs" "$DIR/log")" = 0
done

# Batch-norm takes statistics of each micro-batch, and that is said with the layers' names.
says "differs from one large batch: 3 layers (" "$dpexec" models/fashion_cnn.onnx --data tests/oracle/data/fashion.npz --loss cross-entropy --batch-size 10 \
    --steps 1 --accumulate 2 --threads 1
check "no batch-norm, nothing said" test "$("$dpexec" models/mlp.onnx --data tests/oracle/data/digits.npz --loss cross-entropy --batch-size 10 --steps 1 \
    --accumulate 2 --threads 1 2>&1 | grep -c "differs from one large batch")" = 0

refused 2 "depends on parameters" "$dpexec" $here/own_loss.onnx "${common[@]}" "${own[@]}" output:loss --loss-weight total
refused 2 "no output 'weights'" "$dpexec" $here/own_loss.onnx "${common[@]}" "${own[@]}" output:loss --loss-weight weights
refused 2 "--loss-weight needs --loss output:NAME" "$dpexec" $here/open.onnx "${common[@]}" "${scores[@]}" --loss-weight sum

refused 2 "--loss-weight sum does not go with --loss outputs" "$dpexec" $here/own_loss.onnx "${common[@]}" "${own[@]}" outputs --loss-weight sum
refused 2 "no output contains 'loss'; the model has 'scores'" "$dpexec" $here/open.onnx "${common[@]}" --data $here/data.npz --loss outputs
says "the sum of outputs, is weighted by its number of samples" "$dpexec" eval $here/own_loss.onnx "${eval[@]}" "${own[@]}" outputs

# A loss with an argument, its metric and a schedule: the targets are what the model itself says, so that training starts at a loss of 0.
mkdir "$DIR/images" "$DIR/values"
python3 -m zipfile -e tests/oracle/data/digits.npz "$DIR/images"
"$dpexec" run models/mlp.onnx --input x="$DIR/images/x.npy" --out "$DIR/said" >/dev/null
mv "$DIR/images/x.npy" "$DIR/values"
mv "$DIR"/said/*.npy "$DIR/values/target.npy"
values=(models/mlp.onnx --data "$DIR/values" --loss huber:0.5 --metric mae --batch-size 8 --threads 1)
# The model answers in other batches than it is evaluated in: its sums of up to 128 terms are added in another order, whose rounding grows
# as the root of that number.  A quarter more in every target is an error of that and no more.
mkdir "$DIR/quarter"
ln -s ../values/x.npy "$DIR/quarter"
rounding=$(python3 - "$DIR/values/target.npy" "$DIR/quarter/target.npy" <<'END'
import array, sys
npy = open(sys.argv[1], "rb").read()
head = 10 + int.from_bytes(npy[8:10], "little")
target = array.array("f", npy[head:])
open(sys.argv[2], "wb").write(npy[:head] + array.array("f", [t + 0.25 for t in target]).tobytes())
print(128 ** 0.5 * 2 ** -24 * sum(map(abs, target)) / len(target))
END
)
for targets in "values 0" "quarter 0.25"; do
    set -- $targets
    check "a metric of rounding alone: $targets" test "$("$dpexec" eval "${values[@]/%values/$1}" 2>/dev/null | python3 -c "import json, sys
said = json.loads(sys.stdin.readlines()[-1])
print(said['samples'] == 43 and abs(said['eval_mae'] - $2) < $rounding)")" = True
done
check "huber, mae, one-cycle" "$dpexec" "${values[@]}" --val "$DIR/values" --lr-schedule one-cycle --steps 6 --devices 'cpu*2' --quiet \
    --weight-decay 0.5 --lr 1 --out "$DIR/huber"
check "the metric is reported by its name" grep -q '"eval_mae":[0-9.e-]*[1-9]' "$DIR/huber/metrics.jsonl"
check "huber in parts" "$graph_transform" models/mlp.onnx --batch-size 5 --replicas 3 --loss huber:0.5 --metric mae --verify
refused 2 "--metric mae needs a target of the output's shape" "$graph_transform" models/mlp.onnx --batch-size 5 --loss nll --metric mae

# A loss of logits says so where the model ends with what it applies itself, also behind a change of shape.
/usr/bin/python3 - "$DIR" <<'END'
import sys
import onnx, onnx.parser
for name, made in {"softmax": "p = Softmax<axis=1>(h)", "sigmoid": "s = Sigmoid(h) d = Unsqueeze<axes=[0]>(s) p = Squeeze<axes=[0]>(d)",
                   "log": "p = LogSoftmax<axis=1>(h)", "scores": "s = Sigmoid(h) p = Neg(s)"}.items():
    onnx.save(onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 11]> g (float[N,3] x) => (float[N,3] p) '
        '<float[3,3] w = {1,2,3,4,5,6,7,8,9}> { h = MatMul(x, w) ' + made + ' }'), f"{sys.argv[1]}/{name}.onnx")
END
applied() { "$graph_transform" "$DIR/$1.onnx" --batch-size 4 --loss "$2" --report -o "$DIR/$1.txt" 2>&1; }
check "softmax, twice" grep -q "p: is the result of Softmax .*, but --loss cross-entropy applies Softmax again: expected the scores before" \
    <(applied softmax cross-entropy)
check "sigmoid, twice" grep -q "but --loss bce-logits applies Sigmoid again" <(applied sigmoid bce-logits)
for once in "softmax nll" "log cross-entropy" "scores bce-logits" "sigmoid cross-entropy"; do
    # shellcheck disable=SC2086     # two words
    check "once: $once" sh -c '! grep -q again' <<<"$(applied $once)"
    check "made: $once" test -s "$DIR/${once% *}.txt"
done
# Classes along axis 0, samples along axis 1: no order of ONNX or PyTorch.
"${PYTHON:-/usr/bin/python3}" - "$DIR" <<'END'
import sys
import numpy as np, onnx, onnx.parser
onnx.save(onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g (float[4,8] x) => (float[10,4] y) <float[10,8] w = {' +
    ",".join("0.1" for _ in range(80)) + '}> { t = Transpose<perm = [1, 0]>(x) y = MatMul(w, t) }'), sys.argv[1] + "/first.onnx")
np.savez(sys.argv[1] + "/first.npz", x=np.ones((16, 8), "f"), target=np.arange(16) % 10)
END
refused 1 "axis 1 is the batch's, and axis 0 cannot count classes; expected [N,C,...]" "$dpexec" train "$DIR/first.onnx" --data "$DIR/first.npz" \
    --loss cross-entropy --steps 1 --threads 1 --out none
finish
