#!/bin/bash
# --augment FILE.onnx: a graph that changes the model's inputs in training only.  Mirrored in the graph or in the file, training is the
# same; evaluations see the plain data; random numbers do not depend on processes or on a resume.  Needs python3-numpy, python3-onnx.
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-/usr/bin/python3}
"$python" - "$DIR" <<'PY'
import sys
import numpy as np, onnx
from onnx import TensorProto as T, helper as h, numpy_helper as nh
folder = sys.argv[1]
def save(name, nodes, ins, outs, tensors=()):
    info = lambda values: [h.make_tensor_value_info(n, T.FLOAT, s) for n, s in values]
    graph = h.make_graph(nodes, name, info(ins), info(outs), [nh.from_array(np.asarray(v), n) for n, v in tensors])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), f"{folder}/{name}.onnx")
rng = np.random.default_rng(5)
w = rng.standard_normal((6, 3)).astype("f4")
x, also = rng.integers(-64, 64, (2, 20, 6)).astype("f4") / 32     # whose sums are exact
t = rng.standard_normal((20, 3)).astype("f4")
save("net", [h.make_node("MatMul", ["x", "w"], ["y"])], [("x", ["N", 6])], [("y", ["N", 3])], [("w", w)])
steps = [(n, np.array([v], "i8")) for n, v in (("from", -1), ("to", -100), ("axes", 1), ("steps", -1))]
mirror = [h.make_node("Slice", ["given", "from", "to", "axes", "steps"], ["mirrored"])]
save("mirror", mirror, [("given", ["N", 6])], [("mirrored", ["N", 6])], steps)
save("noise", [h.make_node("RandomNormalLike", ["x"], ["n"]), h.make_node("Add", ["x", "n"], ["changed"])], [("x", ["N", 6])],
     [("changed", ["N", 6])])
save("half", [h.make_node("Slice", ["x", "a", "b", "axes"], ["changed"])], [("x", ["N", 6])], [("changed", ["N", 3])],
     [("a", np.array([0])), ("b", np.array([3])), ("axes", np.array([1]))])
save("stranger", mirror[:0] + [h.make_node("Neg", ["x"], ["p"]), h.make_node("Neg", ["x"], ["q"])], [("x", ["N", 6])],
     [("p", ["N", 6]), ("q", ["N", 6])])
# of two inputs it changes one, by an array that the model does not read
save("two", [h.make_node("Add", ["x", "z"], ["s"]), h.make_node("MatMul", ["s", "w"], ["y"])], [("x", ["N", 6]), ("z", ["N", 6])],
     [("y", ["N", 3])], [("w", w)])
save("shift", [h.make_node("Add", ["x", "also"], ["x_new"]), h.make_node("Identity", ["x_new"], ["z"])],
     [("x", ["N", 6]), ("also", ["N", 6])], [("z", ["N", 6])])
save("double", [h.make_node("Add", ["raw", "raw"], ["x"])], [("raw", ["N", 6])], [("x", ["N", 6])])
data = {"plain": dict(x=x), "mirrored": dict(x=x[:, ::-1].copy()), "both": dict(x=x, z=x, also=also), "shifted": dict(x=x, z=x + also),
        "raw": dict(raw=x), "double_mirrored": dict(x=2 * x[:, ::-1]), "double_plain": dict(x=2 * x)}
for name, arrays in data.items():
    np.savez(f"{folder}/{name}.npz", **arrays, target=t)
PY
cd "$DIR" || exit 1
flags=(--loss mse --batch-size 6 --eval-every 2 --threads 1 --dtype float64 --quiet)
numbers() { sed -E 's/,"(ms|read)":[0-9.]+//; s/,"read":\{[^}]*\}//' "$1/metrics.jsonl"; }

# trains NAME MODEL DATA VAL FLAG...
trains() {
    local name=$1 model=$2 data=$3 val=$4
    shift 4
    check "$name" "$dpexec" train "$model.onnx" "${flags[@]}" --epochs 3 --data "$data.npz" --val "$val.npz" --out "$name" "$@"
}
same_numbers() { check "$1 trains and evaluates as $2" diff <(numbers "$1") <(numbers "$2"); }

trains by_graph net plain plain --augment mirror.onnx
trains by_data net mirrored plain
same_numbers by_graph by_data
check "the model is exported without the graph" cmp by_graph/model.onnx by_data/model.onnx
check "changes change" differ <(numbers by_graph) <(trains unchanged net plain plain >/dev/null; numbers unchanged)
trains shifted_by_graph two both both --augment shift.onnx
trains shifted_by_data two shifted both
same_numbers shifted_by_graph shifted_by_data
trains behind_preprocessing net raw raw --preprocess double.onnx --augment mirror.onnx
trains all_by_data net double_mirrored double_plain
same_numbers behind_preprocessing all_by_data

# Random numbers follow the seed and the step: the same in several processes, after a resume, on several replicas.
trains noisy net plain plain --augment noise.onnx --replicas 2
check "two processes" "$dpexec" launch -n 2 -- train net.onnx "${flags[@]}" --epochs 3 --data plain.npz --val plain.npz --out processes \
    --augment noise.onnx --replicas 2
check "the same in two processes" cmp processes/model.onnx noisy/model.onnx
check "an epoch" "$dpexec" train net.onnx "${flags[@]}" --epochs 1 --data plain.npz --val plain.npz --out first --augment noise.onnx --replicas 2
check "two more" "$dpexec" resume first --epochs 3
check "the same when resumed" cmp first/model.onnx noisy/model.onnx
trains alone net plain plain --augment noise.onnx
for run in noisy alone; do grep -o '"loss":[^,]*' $run/metrics.jsonl | cut -d: -f2 | tr '\n' ' ' >$run.losses; done
check "one replica as two" near "$(cat noisy.losses)" "$(cat alone.losses)"
check "eval takes the run's flags and no noise" near "$(evaluated noisy --data plain.npz)" \
    "$(evaluated noisy/best.onnx --loss mse --data plain.npz --dtype float64)"

cp mirror.onnx noise.onnx
refused 2 "--augment-graph of digest was" "$dpexec" resume first --epochs 4
refused 2 "--augment is for images:DIR" "$dpexec" train net.onnx "${flags[@]}" --data plain.npz --augment flip,mirror.onnx --out none
refused 2 "is a second graph" "$dpexec" train net.onnx "${flags[@]}" --data plain.npz --augment mirror.onnx,noise.onnx --out none
refused 2 'both name a graph: leave one out' "$dpexec" train net.onnx "${flags[@]}" --data plain.npz --augment mirror.onnx --augment-graph noise.onnx --out none
refused 1 "--augment-graph absent.onnx: cannot read" "$dpexec" train net.onnx "${flags[@]}" --data plain.npz --augment absent.onnx --out none
refused 1 "input 'x' is float32 [?,6], its output 'changed' is float32 [?,3]" "$dpexec" train net.onnx "${flags[@]}" --data plain.npz \
    --augment half.onnx --out none
refused 2 "its output 'p' is no input of the model, whose inputs are 'x'" "$dpexec" train net.onnx "${flags[@]}" --data plain.npz \
    --augment stranger.onnx --out none
refused 2 "its output 'p' is no input of the model, whose inputs are 'x'" "$dpexec" train net.onnx --loss mse --augment stranger.onnx --dry-run
says "Slice" "$dpexec" train net.onnx --loss mse --batch-size 6 --augment mirror.onnx --dry-run
finish
