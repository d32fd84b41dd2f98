#!/bin/bash
# What a file shows of its tensors, one piece of evidence at a time (evidence.py makes the files): names of producers, training_info, modes of
# batch norms, modules of readers; lists of modules that are broken; and very many of each within a time.
. "$(dirname "$0")/lib.sh"
check "files" "${PYTHON:-/usr/bin/python3}" tests/cli/evidence.py "$DIR"
trained() { "$graph_transform" "$DIR/$1.onnx" --parameters --json 2>/dev/null | grep '"trained": true' | sed 's/.*"name": "\([^"]*\)".*/\1/'; }
tensors() { "$graph_transform" "$DIR/$1.onnx" --until infer-shapes "${@:2}" 2>/dev/null | grep -c '^  const %'; }
are() { diff <(printf '%s\n' "${@:2}" | LC_ALL=C sort) <(trained "$1" | LC_ALL=C sort); }

check "Paddle's names" are paddle linear_0.w_0 linear_0.b_0 create_parameter_0.w_0
variable=StatefulPartitionedCall/vit
check "tf2onnx's names" are tf2onnx $variable/{dense/MatMul,dense/BiasAdd,token}/ReadVariableOp:0
check "training_info" are info second
says "the file says that it is trained" "$graph_transform" "$DIR/info.onnx" --parameters

# The one in training mode takes statistics of the batch, the other keeps its own; both have parameters.
check "mixed modes" are mixed on.weight on.bias off.weight off.bias
train=("$dpexec" train "$DIR/mixed.onnx" --data "$DIR/mixed.npz" --loss mse --lr 0.1 --steps 3 --threads 1 --out "$DIR/mixed")
says "its running statistics stay as they are" "${train[@]}"
check "what became of the statistics" "${PYTHON:-/usr/bin/python3}" - "$DIR" <<'PY'
import sys, numpy as np, onnx
from onnx import numpy_helper as nh
before, after = ({i.name: nh.to_array(i) for i in onnx.load(f"{sys.argv[1]}/{f}").graph.initializer} for f in ("mixed.onnx", "mixed/model.onnx"))
for name in before:
    assert np.array_equal(before[name], after[name]) == name.startswith("off.running"), name
data = np.load(f"{sys.argv[1]}/mixed.npz")["x"].astype(np.float64)
mean = before["on.running_mean"] * 0.9**3 + data.mean(0) * (1 - 0.9**3)     # the same batch three times, momentum 0.9
assert np.abs(mean - after["on.running_mean"]).max() < 1e-6
PY

# What a file need not show is told by its producer and version, with the page that says what to do; of another producer nothing is known.
known="it may have folded BatchNormalization"
says "pytorch 2.9, in evaluation mode: $known" "$dpexec" train "$DIR/older.onnx" --loss mse --batch-size 2 --dry-run
says "(docs/guide/export.md)" "$dpexec" train "$DIR/older.onnx" --loss mse --batch-size 2 --dry-run
for name in stranger modules; do
    "$dpexec" train "$DIR/$name.onnx" --loss mse --batch-size 2 --dry-run >"$DIR/said" 2>&1
    check "$name: nothing of that" test "$(grep -c "$known" "$DIR/said")" = 0
done

# A tensor of one number throughout is several where its readers are different modules; a module that reads its part's is none.
check "a part's weight stays one" test "$(tensors part)" = 1
check "different modules" test "$(tensors modules)" = 2
check "no evidence" test "$(tensors unknown)" = 1
says "--untie 'emb.weight' makes several of it" "$dpexec" train "$DIR/unknown.onnx" --loss mse --batch-size 2 --dry-run
check "as asked" test "$(tensors part --untie 'emb*')" = 2
check "as asked, without evidence" test "$(tensors unknown --untie 'emb.weight')" = 2
refused 2 "matches: 'x'; 'second'" "$graph_transform" "$DIR/info.onnx" --untie x --untie second

for file in "$DIR"/broken*.onnx; do
    name=$(basename "$file" .onnx)
    check "$name: shows nothing" test "$(tensors "$name")" = 1
done
for name in odd_escape odd_double odd_many; do
    check "$name: a module" test "$(tensors "$name")" = 2
    check "$name: its name" grep -qF "it's.weight" <("$graph_transform" "$DIR/$name.onnx" --until infer-shapes 2>/dev/null)
done

# These took minutes while each looked at all others (a second each by now).
for name in filled random twins drops; do
    check "20,000: $name" timeout 60 "$graph_transform" "$DIR/$name.onnx" --until stochastic-depth -o "$DIR/many.txt"
done
finish
