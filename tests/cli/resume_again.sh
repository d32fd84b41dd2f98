#!/bin/bash
# Runs that are resumed and do not get far: what the run before has written stays, and a checkpoint that cannot be read is no reason
# to begin again.
. "$(dirname "$0")/lib.sh"
"${PYTHON:-/usr/bin/python3}" - "$DIR" <<'PY'
import sys
import numpy as np
r = np.random.default_rng(3)
def write(name, n, label=None):
    target = r.integers(0, 10, n)
    if label is not None:
        target[-1] = label
    np.savez(sys.argv[1] + "/" + name, x=r.standard_normal((n, 64)).astype("f"), target=target)
write("train", 60)
write("val", 200)
write("bad", 200, 77)
write("long", 100000)
PY
run=$DIR/run
# Of a model with a fixed batch, labels are found in the evaluation; else before it.
"${PYTHON:-/usr/bin/python3}" - "$DIR/fixed.onnx" <<'PY'
import sys, onnx
m = onnx.load("models/mlp.onnx")
for v in (m.graph.input[0], m.graph.output[0]):
    v.type.tensor_type.shape.dim[0].dim_value = 10
onnx.save(m, sys.argv[1])
PY
train=("$dpexec" "$DIR/fixed.onnx" --data "$DIR/train.npz" --loss cross-entropy --batch-size 10 --threads 1 --quiet
    --eval-every 3 --checkpoint-every 3)
evaluations() { grep -o '"step":[0-9]*,"eval_loss":[^,}]*' "$1/metrics.jsonl" | tr '\n' ' '; }

# ---- an evaluation that is repeated ----
check "a run" "${train[@]}" --steps 6 --val "$DIR/val.npz" --out "$run"
cp "$run/metrics.jsonl" "$DIR/whole.jsonl"
before=$(evaluations "$run")
refused 2 "bad.npz" "${train[@]}" --steps 9 --val "$DIR/bad.npz" --resume "$run"
check "its line stays when it cannot be repeated" test "$(evaluations "$run")" = "$before"
check "and all lines before it" cmp "$run/metrics.jsonl" "$DIR/whole.jsonl"
"$dpexec" "$DIR/fixed.onnx" --data "$DIR/train.npz" --loss cross-entropy --batch-size 10 --threads 1 --eval-every 3 --checkpoint-every 3 \
    --steps 9 --val "$DIR/long.npz" --resume "$run" 2>"$DIR/said" >/dev/null &
pid=$!
until grep -q 'resumed at step 6' "$DIR/said" || ! kill -0 $pid 2>/dev/null; do sleep 0.01; done
kill -9 $pid
wait $pid 2>/dev/null
check "or when the run is killed while it repeats it" test "$(evaluations "$run")" = "$before"
check "one that is repeated" "${train[@]}" --steps 9 --val "$DIR/val.npz" --resume "$run"
check "a run that is not resumed" "${train[@]}" --steps 9 --val "$DIR/val.npz" --out "$DIR/once"
check "each line stands there once" same_run "$DIR/once" "$run"

# ---- checkpoints that cannot be read ----
# keeps NAME: a run is resumed in vain, and nothing of it is touched.
keeps() {
    cp "$run/metrics.jsonl" "$DIR/whole.jsonl"
    refused 1 "--resume: $run/checkpoints: cannot read: $2" "${train[@]}" --steps 12 --resume "$run"
    check "$1: nothing is begun again" cmp "$run/metrics.jsonl" "$DIR/whole.jsonl"
    refused 1 "$run/checkpoints: cannot read: $2" "${train[@]}" --steps 12 --out "$run"
    check "$1: nor with --out" cmp "$run/metrics.jsonl" "$DIR/whole.jsonl"
}
mv "$run/checkpoints" "$DIR/kept"
rm "$run/model.onnx"
ln -s "$DIR/not-mounted" "$run/checkpoints"
keeps "a link to nothing" "No such file or directory"
rm "$run/checkpoints"
touch "$run/checkpoints"
keeps "a file" "Not a directory"
rm "$run/checkpoints"
ln -s checkpoints "$run/checkpoints"
keeps "a link to itself" "Too many levels of symbolic links"
rm "$run/checkpoints"
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    chmod -R a+rwX "$DIR"
    mkdir -m 0 "$run/checkpoints"
    as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    train=("${as[@]}" "${train[@]}")
    if "${as[@]}" test -x "$dpexec"; then keeps "no permission" "Permission denied"; else skip "permissions" "others cannot run dpexec"; fi
    train=("${train[@]:${#as[@]}}")
    rmdir "$run/checkpoints"
fi
mv "$DIR/kept" "$run/checkpoints"
check "checkpoints that are there again" "${train[@]}" --steps 12 --val "$DIR/val.npz" --resume "$run"

# What inputs are to batches goes on as it was: a table that is given whole, or rows of it for each sample.
/usr/bin/python3 - "$DIR" <<'END'
import sys
import numpy as np, onnx, onnx.parser
onnx.save(onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 13]> g (float[N,3] x, float[M,3] table) => (float[N,3] y)'
    '<float[3,3] w = {1,2,3,4,5,6,7,8,9}> { h = MatMul(x, w) m = ReduceMean<axes=[0]>(table) y = Add(h, m) }'), f"{sys.argv[1]}/table.onnx")
r = np.random.default_rng(0)
np.savez(f"{sys.argv[1]}/table.npz", x=r.random((8, 3), np.float32), table=r.random((8, 3), np.float32), target=r.random((8, 3), np.float32))
END
table=("$dpexec" "$DIR/table.onnx" --data "$DIR/table.npz" --loss mse --batch-size 4 --threads 1 --quiet)
check "a table" "${table[@]}" --steps 1 --out "$DIR/whole"
check "its rows" "${table[@]}" --steps 1 --out "$DIR/rows" --batch-input x --batch-input table
refused 2 "input 'table' has samples along axis 0 now and was given whole in that run" "${table[@]}" --steps 2 --resume "$DIR/whole" \
    --batch-input x --batch-input table
refused 2 "(--batch-input names the inputs that have samples, NAME:AXIS): input 'table' is given whole now and had samples" "${table[@]}" \
    --steps 2 --resume "$DIR/rows"
check "a table again" "${table[@]}" --steps 2 --resume "$DIR/whole" --batch-input x
check "its rows again" "${table[@]}" --steps 2 --resume "$DIR/rows" --batch-input table --batch-input x

# The target's axis goes on as well, whatever its array is called: y has samples along axis 0, its transpose z along axis 1.
/usr/bin/python3 - "$DIR" <<'END'
import sys
import numpy as np, onnx, onnx.parser
onnx.save(onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 13]> g (float[N,4] x) => (float[N,4] y, float[4,N] z)'
    '<float[4,4] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}> { y = MatMul(x, w) z = Transpose<perm=[1,0]>(y) }'), f"{sys.argv[1]}/turned.onnx")
r = np.random.default_rng(0)
square = r.random((4, 4), np.float32)
np.savez(f"{sys.argv[1]}/turned.npz", x=r.random((4, 4), np.float32), target=square, other=square)
END
turned=("$dpexec" "$DIR/turned.onnx" --data "$DIR/turned.npz" --loss mse --batch-size 4 --threads 1 --quiet)
check "a target" "${turned[@]}" --steps 1 --out "$DIR/turned" --logits z
refused 2 "NAME:AXIS): target 'target' has samples along axis 0 now and had samples along axis 1 in that run" "${turned[@]}" --steps 2 \
    --resume "$DIR/turned" --logits y
refused 2 "target 'other' has samples along axis 0 now and had samples along axis 1 in that run" "${turned[@]}" --steps 2 \
    --resume "$DIR/turned" --logits y --target other
check "a target again" "${turned[@]}" --steps 2 --resume "$DIR/turned" --logits z
finish
