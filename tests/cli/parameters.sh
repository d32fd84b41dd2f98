#!/bin/bash
# What is trained: found in files of exporters as named_parameters() says (tests/cli/parameters/make.py), overruled, listed, kept.
. "$(dirname "$0")/lib.sh"

files=tests/cli/parameters
digits=tests/oracle/data/digits.npz
trained() { grep '"trained": true' | sed 's/.*"name": "\([^"]*\)".*/\1/' | LC_ALL=C sort; }

for model in "$files"/*.onnx; do
    "$graph_transform" "$model" --parameters --json 2>&1 | trained >"$DIR/found.txt"
    LC_ALL=C sort "${model%.onnx}.txt" >"$DIR/expected.txt"
    check "$model: what named_parameters() says" diff "$DIR/expected.txt" "$DIR/found.txt"
done

# Overruled: patterns, and a list that decides alone.
"$graph_transform" "$files/tokens.legacy.onnx" --parameters --json --freeze '*' --train 'fc.*' --train bank --freeze fc.bias | trained \
    >"$DIR/found.txt"
check "the longer pattern decides" diff <(printf 'bank\nfc.weight\n') "$DIR/found.txt"
printf '# the head\nout.weight\n' >"$DIR/head.txt"
"$graph_transform" "$files/tokens.legacy.onnx" --parameters "--parameters=$DIR/head.txt" --json | trained >"$DIR/found.txt"
check "a list decides alone" diff <(echo out.weight) "$DIR/found.txt"
echo nowhere.weight >"$DIR/wrong.txt"
refused 2 "'nowhere.weight'" "$graph_transform" "$files/tokens.legacy.onnx" --parameters "--parameters=$DIR/wrong.txt"
seq -f 'lost%g.weight' 40 >"$DIR/wrong.txt"
refused 2 "'lost16.weight'; and 24 more" "$graph_transform" "$files/tokens.legacy.onnx" --parameters "--parameters=$DIR/wrong.txt"
refused 2 "--train 'nothing*' matches no tensor" "$graph_transform" "$files/tokens.legacy.onnx" --parameters --train 'nothing*'
refused 2 "does not go with: --verify" "$graph_transform" "$files/tokens.legacy.onnx" --parameters --verify
refused 2 "cannot read" "$dpexec" train models/mlp.onnx --data x.npz --loss mse --parameters "$DIR/absent.txt"

# A run says it, a run that goes on is given the same list, and what it exports is trained on with the same parameters.
names=$("$graph_transform" models/mlp.onnx --parameters --json | trained)
echo "$names" | head -n 2 >"$DIR/two.txt"
echo "$names" | head -n 3 >"$DIR/three.txt"
train=("$dpexec" train models/mlp.onnx --data "$digits" --loss cross-entropy --batch-size 32)
"${train[@]}" --steps 2 --out "$DIR/run" --parameters "$DIR/two.txt" >"$DIR/run.log" 2>&1
says "trains 17,226 parameters in 6 tensors" "$dpexec" models/mlp.onnx \
    --data tests/oracle/data/digits.npz --loss cross-entropy --steps 1 --threads 1
check "a run says what it trains" grep -q "trains .* parameters in 2 tensors; 4 constants are fixed" "$DIR/run.log"
refused 1 "the checkpoint is of another run" "${train[@]}" --steps 3 --resume "$DIR/run" --parameters "$DIR/three.txt"
head -n 1 "$DIR/two.txt" >"$DIR/one.txt"
refused 2 "parameters of digest" "${train[@]}" --steps 3 --resume "$DIR/run" --parameters "$DIR/one.txt"
cp "$DIR/two.txt" "$DIR/same.txt"
check "the same list elsewhere" "${train[@]}" --steps 3 --resume "$DIR/run" --parameters "$DIR/same.txt"
"$graph_transform" "$DIR/run/model.onnx" --parameters --json | trained >"$DIR/found.txt"
check "the export remembers" diff "$DIR/two.txt" "$DIR/found.txt"
says "4 constants are fixed, all because the run that wrote this file fixed them; --train '*' trains all" \
    "$graph_transform" "$DIR/run/model.onnx" --parameters
check "and can be overruled" "$graph_transform" "$DIR/run/model.onnx" --parameters --train '*'

# A pattern that names running statistics alone trains no numbers, and lets training update them where a shorter --freeze of the same names
# would keep them; one that matches the node keeps them in any case.
for freed in "--freeze bn*.running* --train bn1.running*" "--freeze bn2* --train *running*" "--freeze *"; do
    set -f
    # shellcheck disable=SC2086
    check "statistics by $freed" "$dpexec" train models/fashion_cnn.onnx --data tests/oracle/data/fashion.npz --loss cross-entropy --batch-size 10 \
        --steps 2 --threads 1 --quiet --out "$DIR/freed" --train '*weight' $freed
    set +f
    "${PYTHON:-/usr/bin/python3}" - models/fashion_cnn.onnx "$DIR/freed/model.onnx" >"$DIR/moved.txt" <<'END'
import sys
import numpy as np, onnx
from onnx import numpy_helper
before, after = ({i.name: numpy_helper.to_array(i) for i in onnx.load(f).graph.initializer} for f in sys.argv[1:])
print(*(n for n in sorted(before) if "running" in n and n in after and not np.array_equal(before[n], after[n])))
END
    case $freed in
        *bn1*) moved='bn1.running_mean bn1.running_var' ;;
        *bn2*) moved='bn1.running_mean bn1.running_var bn3.running_mean bn3.running_var' ;;
        *) moved='' ;;
    esac
    check "moves those: $freed" test "$(cat "$DIR/moved.txt")" = "$moved"
    rm -r "$DIR/freed"
done

# What the loss does not reach: what the forward pass never uses is told from what it uses for another output, by name and shape with the
# node where the way ends; none of it is updated, not by momentum or decay either, on any number of replicas.
"${PYTHON:-/usr/bin/python3}" - "$DIR" <<'END'
import sys
import numpy as np, onnx
from onnx import TensorProto as T, helper as h, numpy_helper
rng = np.random.default_rng(3)
gemm = lambda name, out: h.make_node("Gemm", ["x", name + ".weight", name + ".bias"], [out], name=name)
nodes = [gemm("fc", "y"), gemm("aux", "aux"), gemm("pick", "p"), h.make_node("ArgMax", ["p"], ["k"], name="choose", axis=1, keepdims=0)]
tensors = {n + ".weight": (4, 3) for n in ("fc", "aux", "pick")} | {n + ".bias": (3,) for n in ("fc", "aux", "pick")} | {"idle.weight": (5, 2)}
info = h.make_tensor_value_info
graph = h.make_graph(nodes, "reach", [info("x", T.DOUBLE, ["N", 4])],
                     [info("y", T.DOUBLE, ["N", 3]), info("aux", T.DOUBLE, ["N", 3]), info("k", T.INT64, ["N"])],
                     [numpy_helper.from_array(rng.normal(size=s), n) for n, s in tensors.items()])
onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), sys.argv[1] + "/reach.onnx")
np.savez(sys.argv[1] + "/reach.npz", x=rng.normal(size=(5, 4)), target=rng.integers(0, 3, 5))
END
reach=("$dpexec" train "$DIR/reach.onnx" --data "$DIR/reach.npz" --loss cross-entropy --batch-size 5 --steps 3 --threads 1 --lr 0.1)
cat >"$DIR/unmoved.py" <<'END'
import sys
import onnx
from onnx import numpy_helper
before, after = ({t.name: numpy_helper.to_array(t) for t in onnx.load(f).graph.initializer} for f in sys.argv[1:])
assert sorted(after) == sorted(before)
assert all((after[n] == before[n]).all() == (not n.startswith("fc.")) for n in after)
END
for how in "--replicas 1 --momentum 0.9" "--devices cpu*2 --replicas 3 --momentum 0.9" "--replicas 2 --optimizer adamw" "--devices cpu*2 --shard parameters"; do
    rm -rf "$DIR/reached"
    "${reach[@]}" $how --weight-decay 0.5 --out "$DIR/reached" >"$DIR/log" 2>&1
    check "what the loss does not reach stays, $how" "${PYTHON:-/usr/bin/python3}" "$DIR/unmoved.py" "$DIR/reach.onnx" "$DIR/reached/model.onnx"
    grep '^dpexec: warning' "$DIR/log" >"$DIR/found.txt"
    check "what the loss does not reach, $how" diff - "$DIR/found.txt" <<'END'
dpexec: warning: idle.weight: shape [5,2]: the forward pass does not use it
dpexec: warning: aux.weight: shape [4,3]: used, but not for the loss: its path ends at Gemm aux (output 'aux')
dpexec: warning: pick.weight: shape [4,3]: the path to the loss ends at ArgMax choose (output 'k')
dpexec: warning: aux.bias: shape [3]: used, but not for the loss: its path ends at Gemm aux (output 'aux')
dpexec: warning: pick.bias: shape [3]: the path to the loss ends at ArgMax choose (output 'k')
END
done
rm -rf "$DIR/reached"
check "nothing hangs in two processes" together 2 "${reach[@]:1}" --replicas 3 --momentum 0.9 --weight-decay 0.5 --out "$DIR/reached"
check "nor does it move there" "${PYTHON:-/usr/bin/python3}" "$DIR/unmoved.py" "$DIR/reach.onnx" "$DIR/reached/model.onnx"
"${reach[@]}" --freeze 'idle.*' --freeze 'aux.*' --freeze 'pick.*' >"$DIR/log" 2>&1
check "of what is frozen nothing is said" test "$(grep -c '^dpexec: warning' "$DIR/log")" = 0

# A causal mask that is called bias, as GPT-2's is, is no parameter: zeros and ones that a comparison reads.  Other numbers there are warned of.
"${PYTHON:-/usr/bin/python3}" - "$DIR" <<'END'
import sys
import numpy as np, onnx, onnx.parser
from onnx import numpy_helper
for file, bias in (("mask", np.tri(4)), ("limits", np.tri(4) / 3)):
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (double[N,T,4] x) => (double[N,T] y) {
            zero = Constant<value = double {0}>()
            low = Constant<value = double {-1000}>()
            begin = Constant<value_ints = [0, 0]>()
            axes = Constant<value_ints = [1, 2]>()
            queries = MatMul(x, weight)
            keys = Transpose<perm = [0, 2, 1]>(x)
            scores = MatMul(queries, keys)
            end = Shape<start = 1>(scores)
            rows = Slice(bias, begin, end, axes)
            hidden = Equal(rows, zero)
            kept = Where(hidden, low, scores)
            y = ReduceMax<axes = [2], keepdims = 0>(kept)
        }""")
    model.graph.initializer.extend([numpy_helper.from_array(np.eye(4) / 7, "weight"), numpy_helper.from_array(bias[None], "bias")])
    onnx.save(model, f"{sys.argv[1]}/{file}.onnx")
rng = np.random.default_rng(5)
np.savez(sys.argv[1] + "/mask.npz", x=rng.normal(size=(5, 4, 4)), target=rng.integers(0, 4, 5))
END
for file in mask limits; do
    "$dpexec" train "$DIR/$file.onnx" --data "$DIR/mask.npz" --loss cross-entropy --batch-size 5 --steps 1 2>&1 | grep 'warning' >"$DIR/$file.txt"
done
check "a mask called bias is not warned of" diff /dev/null "$DIR/mask.txt"
check "a bias that only a comparison reads is" grep -q "bias: shape \[1,4,4\]: not trained: the path to the loss ends at Equal" "$DIR/limits.txt"

# A parameter of one element, which nothing but its name tells, of a model in float64.
"${PYTHON:-/usr/bin/python3}" - "$DIR" <<'END'
import sys
import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper
graph = h.make_graph([h.make_node("Add", ["x", "w"], ["a"]), h.make_node("Sin", ["a"], ["b"]), h.make_node("ReduceSum", ["b"], ["loss"], keepdims=0)], "one",
                     [h.make_tensor_value_info("x", T.DOUBLE, ["n", 1])], [h.make_tensor_value_info("loss", T.DOUBLE, [])],
                     [numpy_helper.from_array(np.array([[0.25]]), "w")])
onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), sys.argv[1] + "/one.onnx")
np.savez(sys.argv[1] + "/one.npz", x=np.arange(5.0).reshape(5, 1))
END
echo w >"$DIR/one.txt"
one() {
    "$dpexec" train "$DIR/one.onnx" --data "$DIR/one.npz" --loss output:loss --batch-size 5 --steps 1 --lr 1 --parameters "$DIR/one.txt" --out "$DIR/one" &&
        "${PYTHON:-/usr/bin/python3}" -c '
import sys, numpy as np, onnx
from onnx import numpy_helper
w = numpy_helper.to_array(onnx.load(sys.argv[1]).graph.initializer[0])
assert w.dtype == np.float64 and abs(w.item() - (0.25 - np.cos(np.arange(5) + 0.25).sum())) < 1e-14, w' "$DIR/one/model.onnx"
}
check "one number in float64" one

# A checkpoint says which parameters its run trained: what another file, or another rule, decides otherwise is named, and flags bring it back.
"${PYTHON:-/usr/bin/python3}" - "$DIR" <<'END'
import sys
import onnx
from onnx import helper as h
model = onnx.load("models/mlp.onnx")
names = [i.name for i in model.graph.initializer]
for file, fixed in (("all", []), ("fewer", ["fc1.weight"])):
    h.set_model_props(model, {f"dpexec.parameter:{n}": "fixed" if n in fixed else "trained" for n in names})
    onnx.save(model, f"{sys.argv[1]}/{file}.onnx")
END
settings=(--data "$digits" --loss cross-entropy --batch-size 32 --threads 1 --momentum 0.9)
all=("$dpexec" train "$DIR/all.onnx" "${settings[@]}")
fewer=("$dpexec" train "$DIR/fewer.onnx" "${settings[@]}")
"${all[@]}" --steps 2 --out "$DIR/all.run" >"$DIR/log" 2>&1
"${fewer[@]}" --steps 2 --out "$DIR/fewer.run" >"$DIR/log" 2>&1
cp -r "$DIR/all.run" "$DIR/all.copy"
refused 1 "'fc1.weight' was trained in that run and is fixed now (--train 'fc1.weight' trains it)" "${fewer[@]}" --steps 3 --resume "$DIR/all.run"
refused 1 "no 'fc1.weight': it is trained now and was not in that run (--freeze 'fc1.weight' keeps it fixed)" \
    "${all[@]}" --steps 3 --resume "$DIR/fewer.run"
says "--freeze was '', is 'fc1.weight' from here on" "${all[@]}" --steps 3 --resume "$DIR/fewer.run" --freeze fc1.weight
check "trained as before by a flag" "${fewer[@]}" --steps 3 --resume "$DIR/all.run" --train fc1.weight
check "trained as before" "${all[@]}" --steps 3 --resume "$DIR/all.copy"
# --freeze of what that run trained is refused before anything but log.txt is written, also where no optimizer keeps a state beside the parameter.
for optimizer in "--momentum 0.9" "--momentum 0" "--optimizer adam"; do
    plain=("$dpexec" train "$DIR/all.onnx" "${settings[@]:0:8}" $optimizer)
    rm -rf "$DIR/frozen.run" "$DIR/frozen.copy"
    "${plain[@]}" --steps 2 --out "$DIR/frozen.run" >"$DIR/log" 2>&1
    cp -r "$DIR/frozen.run" "$DIR/frozen.copy"
    refused 2 "'fc1.weight' was trained in that run, but --freeze 'fc1.weight' fixes it now" \
        "${plain[@]}" --steps 3 --resume "$DIR/frozen.run" --freeze fc1.weight
    check "nothing is written ($optimizer)" diff -r -x log.txt "$DIR/frozen.run" "$DIR/frozen.copy"
    refused 1 "'fc1.weight' was trained in that run and is fixed now (--train 'fc1.weight' trains it)" \
        "$dpexec" train "$DIR/fewer.onnx" "${settings[@]:0:8}" $optimizer --steps 3 --resume "$DIR/frozen.run"
done
check "the same bytes" cmp "$DIR/all.run"/checkpoints/step-000000003/state.safetensors "$DIR/all.copy"/checkpoints/step-000000003/state.safetensors

# Weights that the file holds as integers are floats in checkpoints: a run that goes on is the run that was never stopped.
integers=tests/obeyed/qdq_integer_weights
quantised=("$dpexec" train "$integers/model.onnx" --data "$integers/data.npz" --loss mse --batch-size 2 --lr 0.03 --momentum 0.9 --threads 1)
"${quantised[@]}" --steps 6 --out "$DIR/whole" >"$DIR/log" 2>&1
"${quantised[@]}" --steps 3 --out "$DIR/halves" >"$DIR/log" 2>&1
check "goes on from floats of integer weights" "${quantised[@]}" --steps 6 --resume "$DIR/halves"
check "the same floats" cmp "$DIR/whole"/checkpoints/step-000000006/state.safetensors "$DIR/halves"/checkpoints/step-000000006/state.safetensors
check "the same integers" cmp "$DIR/whole/model.onnx" "$DIR/halves/model.onnx"
aware=("$dpexec" train tests/obeyed/qdq_off/model.onnx --data tests/obeyed/qdq_off/data.npz --loss mse --batch-size 2 --lr 0.001 --threads 1)
"${aware[@]}" --steps 2 --out "$DIR/aware" >"$DIR/log" 2>&1
refused 2 "--qat was 'on', is 'off'" "${aware[@]}" --steps 3 --resume "$DIR/aware" --qat off

finish
