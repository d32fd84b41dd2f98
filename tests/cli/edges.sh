#!/bin/bash
# Inputs at the edge: names that collide, repeat or are no text, types that --dtype changes, flags that contradict or say nothing.
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-/usr/bin/python3}
cd "$DIR" || exit 1
check "models and data" "$python" - <<'PY'
import numpy as np, onnx, onnx.numpy_helper
from onnx import helper as H, TensorProto as T, numpy_helper as N
rng = np.random.default_rng(0)
def save(name, nodes, outs, w="w", kind=T.FLOAT, x="x"):
    dtype = np.float16 if kind == T.FLOAT16 else np.float32
    inits = [N.from_array(rng.normal(size=(4, 3)).astype(dtype), w), N.from_array(rng.normal(size=3).astype(dtype), "b")]
    m = H.make_model(H.make_graph(nodes, "g", [H.make_tensor_value_info(x, kind, ["N", 4])],
                                  [H.make_tensor_value_info(o, kind, ["N", 3]) for o in outs], inits),
                     opset_imports=[H.make_opsetid("", 17)], ir_version=8)
    open(name, "wb").write(m.SerializeToString().replace(b"w@q", b"w\xffq"))
save("lin.onnx", [H.make_node("Gemm", ["x", "w", "b"], ["y"])], ["y"])
save("half.onnx", [H.make_node("Gemm", ["x", "w", "b"], ["y"])], ["y"], kind=T.FLOAT16)
save("names.onnx", [H.make_node("Gemm", ["x", "w", "b"], ["a/b"]), H.make_node("Relu", ["a/b"], ["a_b"])], ["a/b", "a_b"])
save("semi.onnx", [H.make_node("Gemm", ["x", "w;q", "b"], ["y"])], ["y"], w="w;q")
save("bytes.onnx", [H.make_node("Gemm", ["x", "w@q", "b"], ["y"])], ["y"], w="w@q")
save("long.onnx", [H.make_node("Gemm", ["x", "w", "b"], ["y" * 4090])], ["y" * 4090])
m = onnx.load("lin.onnx")
m.metadata_props.add(key="dpexec.state:nosuch", value="trainable")
onnx.save(m, "foreign.onnx")
ints = lambda name, *v: N.from_array(np.array(v), name)
save("scatter.onnx", [H.make_node("ConstantOfShape", ["size"], ["zeros"]), H.make_node("ScatterND", ["zeros", "at", "b"], ["mask"]),
                      H.make_node("Gemm", ["x", "w", "mask"], ["y"])], ["y"])
m = onnx.load("scatter.onnx")
m.graph.initializer.extend([ints("size", 3), ints("at", [2], [0], [1])])
onnx.save(m, "scatter.onnx")
np.savez("d.npz", x=rng.normal(size=(20, 4)).astype("f"), target=rng.integers(0, 3, 20))
np.savez("half.npz", x=rng.normal(size=(20, 4)).astype(np.float16), target=rng.integers(0, 3, 20))
np.savez("ignored.npz", x=rng.normal(size=(20, 4)).astype("f"), target=np.full(20, -1))
np.savez("label.npz", x=rng.normal(size=(20, 4)).astype("f"), target=np.where(np.arange(20) == 13, 7, 1))
np.savez("labels.npz", x=rng.normal(size=(20, 4)).astype("f"), target=np.full(20, 7))
np.save("x.npy", rng.normal(size=(5, 4)).astype("f"))
PY
train=(--data d.npz --loss cross-entropy --batch-size 10 --steps 2 --threads 1 --quiet)

# Numbers of samples, from which a one-hot matrix as wide as the batch is made, hold in the file's order alone: y = x w + b + onehot(at)' u.
check "a model of places" "$python" - <<'PY'
import numpy as np, onnx, onnx.parser
onnx.save(onnx.parser.parse_model('''<ir_version: 8, opset_import: ["": 13]> g (float[N,4] x, int64[2] at) => (float[N,3] y)
<float[4,3] w = {1,2,3,4,5,6,7,8,9,1,2,3}, float[2,3] u = {1,2,3,4,5,6}, int64 first = {0}, float[2] values = {0,1}> {
    size = Shape(x) n = Gather(size, first) hot = OneHot(at, n, values) turned = Transpose<perm=[1,0]>(hot)
    more = MatMul(turned, u) h = MatMul(x, w) y = Add(h, more) }'''), "places.onnx")
rng = np.random.default_rng(0)
np.savez("places.npz", x=rng.normal(size=(20, 4)).astype("f"), at=np.array([3, 7]), target=rng.integers(0, 3, 20))
PY
refused 2 "input 'at' refers to samples by position" "$dpexec" train places.onnx --data places.npz --loss cross-entropy --batch-size 10 --threads 1 --quiet

# --dtype is the type of every float that is given.
check "run in float64" "$dpexec" run lin.onnx --input x=x.npy --dtype float64 --out o64
check "outputs of float64, as numpy computes them" "$python" - <<'PY'
import numpy as np, onnx, onnx.numpy_helper
w, b = (onnx.numpy_helper.to_array(t).astype(np.float64) for t in onnx.load("lin.onnx").graph.initializer)
y = np.load("o64/y.npy")
assert y.dtype == np.float64 and abs(y - (np.load("x.npy") @ w + b)).max() < 1e-14, y
PY
# Swin's mask: a ConstantOfShape that does not say its type, filled by a ScatterND.
check "a constant without a type, in float64" "$dpexec" run scatter.onnx --input x=x.npy --dtype float64 --out s64
check "follows the type, as numpy computes it" "$python" - <<'PY'
import numpy as np, onnx, onnx.numpy_helper
w, b = (onnx.numpy_helper.to_array(t).astype(np.float64) for t in onnx.load("scatter.onnx").graph.initializer[:2])
y = np.load("s64/y.npy")
assert y.dtype == np.float64 and abs(y - (np.load("x.npy") @ w + b[[1, 2, 0]])).max() < 1e-14, y
PY
refused 1 "output 'y' is float16: a loss needs float32 or float64: give --dtype float32" "$dpexec" train half.onnx \
    --data half.npz --loss cross-entropy --batch-size 10 --threads 1 --quiet
check "a float16 model in float32" "$dpexec" train half.onnx "${train[@]}" --dtype float32
check "runs too" "$dpexec" run half.onnx --input x=x.npy --dtype float32 --out o32

# Files of the outputs.
refused 2 "'a_b' and another would both be written to a_b.npy" "$dpexec" run names.onnx --input x=x.npy --out collide
refused 2 "a path has at most" "$dpexec" run long.onnx --input x=x.npy --out collide
check "nothing is written" test ! -e collide
refused 2 "--input x is given twice" "$dpexec" run lin.onnx --input x=x.npy --input x=x.npy --out twice

# Names.
check "a pattern with a semicolon" "$dpexec" train semi.onnx "${train[@]}" --freeze 'w;q'
refused 1 "a checkpoint cannot hold tensors whose names are not UTF-8: 'w" "$dpexec" train bytes.onnx "${train[@]}" --out bytes
check "before the folder is made" test ! -e bytes
check "without one it trains" "$dpexec" train bytes.onnx "${train[@]}"
check "metadata of other files says nothing" "$dpexec" train foreign.onnx "${train[@]}"

# A checkpoint in float64 and a run in float32.
"$dpexec" train lin.onnx "${train[@]}" --dtype float64 --out wide >/dev/null 2>&1
refused 1 "the checkpoint is of a run in float64, and this one is in float32: give --dtype float64" \
    "$dpexec" eval lin.onnx --resume wide --data d.npz --loss cross-entropy --threads 1

# JSON has no NaN.
says '{"eval_loss":null,"samples":20}' "$dpexec" eval lin.onnx --data ignored.npz --loss cross-entropy --ignore-index -1 --threads 1 --quiet

# Where no sample counts the loss is 0 / 0 on any number of replicas, or on some of which none counts, as on one; a mean of means has 0 there.
all=(--data ignored.npz --loss cross-entropy --ignore-index -1 --batch-size 10 --threads 1)
for how in "" "--replicas 3" "--replicas 12 --devices cpu*2" "--replicas 3 --accumulate 2"; do
    says '{"eval_loss":null,"samples":20}' "$dpexec" eval lin.onnx "${all[@]}" ${how/--accumulate 2/} --quiet
    refused 1 "the loss of step 1 is nan: look for" "$dpexec" train lin.onnx "${all[@]}" --steps 1 $how --quiet
done
says "trained 1 step in " "$dpexec" train lin.onnx "${all[@]}" --steps 1 --replicas 3 --loss-scaling mean-of-means
says ", loss 0" "$dpexec" train lin.onnx "${all[@]}" --steps 1 --replicas 3 --loss-scaling mean-of-means

# What is split, and along which axis, is printed before the first step.
"$dpexec" train lin.onnx "${train[@]/--quiet/--verbose}" --replicas 2 >decided.txt 2>&1
check "the input by its dimension's name" grep -qx 'x: split along axis 0 (N)' decided.txt
check "the target by its size" grep -qx 'target: split along axis 0 (it has the batch size)' decided.txt
check "a number goes to all" grep -qx 'learning_rate: replicated: every device gets all of it' decided.txt
"$dpexec" train lin.onnx "${train[@]/--quiet/--verbose}" --replicas 2 --batch-input x >decided.txt 2>&1
check "as told" grep -qx 'x: split along axis 0 (by --batch-input)' decided.txt

# A trace that cannot be written is told before the run, and the model comes first.
refused 1 "--trace none/t.json: cannot write" "$dpexec" train lin.onnx "${train[@]}" --out traced --trace none/t.json
check "nothing has run" test ! -e traced

# All that is wrong, in one message.
refused 2 "--steps: expected" "$dpexec" train lin.onnx "${train[@]/2/x}" --epochs y --eval-every z
for flag in epochs eval-every; do check "$flag too" grep -qF -- "--$flag: expected" refused.err; done
refused 2 "graph-transform: the command line: there is no option --bogus" "$graph_transform" lin.onnx --bogus

# A label that is no class: by its sample, without operators of the loss.
refused 1 "is 7, not one of 3 classes" "$dpexec" train lin.onnx --data labels.npz --loss cross-entropy --threads 1
refused 1 "label.npz: sample 13: " "$dpexec" train lin.onnx --data label.npz --loss cross-entropy --threads 1 --batch-size 4 --seed 3
check "the label" grep -q "label.npz: sample 13: the label is 7, not one of 3 classes" refused.err
check "no node" test "$(grep -o '(output ' refused.err | grep -c '')" = 0

# --verify shows nothing, and knows what contradicts.
verify=("$graph_transform" lin.onnx --loss cross-entropy --batch-size 4 --verify)
check "verify" "${verify[@]}"
refused 2 "--verify compares and shows no graph: it does not go with: -o; --until; --report; --json" \
    "${verify[@]}" -o g.txt --until cse --report --json
check "no file" test ! -e g.txt
refused 2 "--optimizer adam does not have: --momentum" "${verify[@]}" --optimizer adam --momentum 0.9
finish
