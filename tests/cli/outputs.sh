#!/bin/bash
# What the commands write: the folder of a run, metrics that are JSON and agree with eval, the outputs of run.
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-/usr/bin/python3}
digits=tests/oracle/data/digits.npz
out=$DIR/run

check "train" "$dpexec" models/mlp.onnx --data $digits --val $digits --loss cross-entropy --metric accuracy --batch-size 10 --epochs 3 \
    --clip-norm 1 --checkpoint-every 4 --threads 1 --out "$out"
check "args.json" "$python" -m json.tool "$out/args.json"
check "a checkpoint's manifest" "$python" -m json.tool "$(find "$out/checkpoints" -name manifest.json | head -1)"
check "metrics are JSON, in order, and agree with each other" "$python" - "$out/metrics.jsonl" <<'PY'
import json, math, sys
lines = [json.loads(line, parse_constant=lambda c: sys.exit(c)) for line in open(sys.argv[1])]
steps = [m for m in lines if "loss" in m]
evals = [m for m in lines if "eval_loss" in m]
assert [m["step"] for m in steps] == list(range(1, 16)), steps          # 43 samples: five batches an epoch
assert [m["epoch"] for m in steps] == [1] * 5 + [2] * 5 + [3] * 5
assert sum(m["samples"] for m in steps[:5]) == 43
assert all(m["lr"] == 0.01 and m["ms"] >= 0 and m["grad_norm"] > 0 for m in steps)
assert [m["step"] for m in evals] == [5, 10, 15] and all(0 <= m["eval_accuracy"] <= 1 for m in evals)
PY

says '"samples":43' "$dpexec" eval "$out/model.onnx" --data $digits --loss cross-entropy --metric accuracy --batch-size 7 --threads 1 --quiet
cp "$DIR/says.log" "$DIR/eval.json"
check "eval of the model is the last evaluation of its training" "$python" - "$out/metrics.jsonl" "$DIR/eval.json" <<'PY'
import json, sys
last = [json.loads(line) for line in open(sys.argv[1])][-1]
found = json.load(open(sys.argv[2]))
assert abs(found["eval_loss"] - last["eval_loss"]) < 1e-6 * last["eval_loss"], (found, last)
assert found["eval_accuracy"] == last["eval_accuracy"]
PY
says '"eval_accuracy"' "$dpexec" eval models/mlp.onnx --resume "$out" --data $digits --loss cross-entropy --metric accuracy --threads 1 --quiet

# run, against numpy.
check "input" "$python" -c "import numpy as np; np.save('$DIR/x.npy', np.load('$digits')['x'][:5])"
check "run" "$dpexec" run "$out/model.onnx" --input "x=$DIR/x.npy" --out "$DIR/outputs" --threads 1
says "x: split along axis 0" "$dpexec" run "$out/model.onnx" --input "x=$DIR/x.npy" --out "$DIR/outputs" --threads 1 --devices 'cpu*2' --verbose
check "nothing without --verbose" test -z "$("$dpexec" run "$out/model.onnx" --input "x=$DIR/x.npy" --out "$DIR/outputs" --threads 1 --devices 'cpu*2' 2>&1)"
check "run in parts" "$dpexec" run "$out/model.onnx" --input "x=$DIR/x.npy" --out "$DIR/parts" --threads 1 --replicas 3 --output-device each
check "the parts are the whole" "$python" -c "
import os, sys
import numpy as np
assert sorted(os.listdir('$DIR/parts')) == ['logits@r0.npy', 'logits@r1.npy', 'logits@r2.npy']
parts = [np.load(f'$DIR/parts/logits@r{r}.npy') for r in range(3)]
assert [len(p) for p in parts] == [2, 2, 1]
assert np.allclose(np.concatenate(parts), np.load('$DIR/outputs/logits.npy'), atol=1e-5)"
refused 2 "--output-device each does not go with it" "$dpexec" eval "$out/model.onnx" --data $digits --predictions "$DIR/none" --output-device each
check "outputs of run" "$python" - "$out/model.onnx" "$DIR" <<'PY'
import sys
import numpy as np, onnx
from onnx import numpy_helper
w = {t.name: numpy_helper.to_array(t) for t in onnx.load(sys.argv[1]).graph.initializer}
h = np.load(sys.argv[2] + "/x.npy")
for i in (1, 2, 3):
    k, b = w[f"fc{i}.weight"], w[f"fc{i}.bias"]
    h = h @ (k if k.shape[0] == h.shape[1] and k.shape[1] == b.size and not (k.shape[0] == k.shape[1]) else k.T) + b
    h = np.maximum(h, 0) if i < 3 else h
y = np.load(sys.argv[2] + "/outputs/logits.npy")
assert y.dtype == np.float32 and np.allclose(y, h, atol=1e-4), abs(y - h).max()
PY
check "the exported model is valid ONNX" "$python" -c "import onnx; onnx.checker.check_model(onnx.load('$out/model.onnx'), full_check=True)"
check "names and opset are kept" "$python" - "$out/model.onnx" <<'PY'
import sys, onnx
a, b = onnx.load("models/mlp.onnx"), onnx.load(sys.argv[1])
assert [i.name for i in a.graph.input] == [i.name for i in b.graph.input]
assert [o.name for o in a.graph.output] == [o.name for o in b.graph.output]
assert {t.name for t in a.graph.initializer} <= {t.name for t in b.graph.initializer}
PY

# Outputs of the model that are called like those of an evaluation are predictions like others, and its numbers are its own.
check "names of ours" "$python" - "$DIR" <<'PY'
import sys, onnx
from onnx import helper as h
m = onnx.load("models/mlp.onnx")
for op, name in (("Relu", "loss_sum"), ("Neg", "loss"), ("Exp", "metric_sum"), ("Abs", "grad_norm"), ("Sign", "applied"), ("Floor", "model:loss")):
    m.graph.node.append(h.make_node(op, ["logits"], [name]))
    m.graph.output.append(h.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", 10]))
onnx.save(m, sys.argv[1] + "/names.onnx")
PY
evaluate=(--data $digits --loss cross-entropy --metric accuracy --batch-size 10 --replicas 2 --threads 1 --quiet)
plain=$("$dpexec" eval models/mlp.onnx "${evaluate[@]}")
found=$("$dpexec" eval "$DIR/names.onnx" "${evaluate[@]}" --predictions "$DIR/names")
check "loss and metric are those of the model: $found" test "$found" = "$plain" -a -n "$plain"
check "such predictions" "$python" - "$DIR/names" <<'PY'
import sys
import numpy as np
load = lambda name: np.load("%s/%s.npy" % (sys.argv[1], name))
y = load("logits")
assert y.shape == (43, 10)
for name, f in (("loss_sum", lambda x: np.maximum(x, 0)), ("loss", np.negative), ("metric_sum", np.exp), ("grad_norm", np.abs), ("applied", np.sign),
                ("model:loss", np.floor)):
    assert np.allclose(load(name), f(y), rtol=1e-6), name
PY

# Predictions of a model that computes its losses itself need nothing that only those do.
check "x alone" "$python" -c "
import numpy as np; rng = np.random.default_rng(1); x = rng.standard_normal((7, 4))
np.savez('$DIR/x_alone.npz', x=x); np.savez('$DIR/xyz.npz', x=x, y=rng.integers(0, 3, 7), z=rng.standard_normal((7, 2)))"
own=("$dpexec" eval tests/api/own_losses.onnx --loss outputs --batch-size 3 --threads 1 --quiet)
check "predictions and losses" grep -q '"eval_loss":[0-9]' <("${own[@]}" --data "$DIR/xyz.npz" --predictions "$DIR/with")
check "predictions without targets" test "$("${own[@]}" --data "$DIR/x_alone.npz" --predictions "$DIR/without")" = '{"samples":7}'
check "the same predictions" cmp "$DIR/with/scores.npy" "$DIR/without/scores.npy"
refused 2 "no array for input 'y'" "${own[@]}" --data "$DIR/x_alone.npz"
refused 1 "input 'z' is missing" "${own[@]/outputs/output:loss}" --data "$DIR/x_alone.npz" --predictions "$DIR/no"

# A list of losses counts by the sum of their means, and its tensors are told one by one.
check "a list" "$python" - "$DIR" <<'PY'
import sys, onnx
from onnx import helper as h
m = onnx.load("tests/api/own_losses.onnx")
m.graph.node.append(h.make_node("SequenceConstruct", ["loss", "box_loss"], ["all_losses"]))
kept = [o for o in m.graph.output if o.name not in ("loss", "box_loss")]
del m.graph.output[:]
m.graph.output.extend(kept + [h.make_tensor_sequence_value_info("all_losses", onnx.TensorProto.DOUBLE, None)])
onnx.save(m, sys.argv[1] + "/list.onnx")
PY
list=(--loss outputs --batch-size 3 --replicas 2 --threads 1 --quiet --data "$DIR/xyz.npz")
apart=$("$dpexec" eval tests/api/own_losses.onnx "${list[@]}")
together=$("$dpexec" eval "$DIR/list.onnx" "${list[@]}" --predictions "$DIR/list")
check "their sum: $together" test "$(grep -o '"eval_loss":[^,]*' <<<"$together")" = "$(grep -o '"eval_loss":[^,]*' <<<"$apart")"
check "under their name" grep -q '"acc":[-0-9.e]*,"all_losses":[-0-9.e]*}' <<<"$together"
check "train with a list" "$dpexec" "$DIR/list.onnx" "${list[@]}" --lr 0.1 --epochs 2 --out "$DIR/list-run"
check "train without" "$dpexec" tests/api/own_losses.onnx "${list[@]}" --lr 0.1 --epochs 2 --out "$DIR/apart-run"
check "the same losses" test "$(losses "$DIR/list-run")" = "$(losses "$DIR/apart-run")" -a -n "$(losses "$DIR/list-run")"

# graph-transform writes every format, and exports open.
transform=("$graph_transform" models/fashion_cnn.onnx --batch-size 8 --loss cross-entropy --optimizer adam --devices 'cpu*2')
for format in txt onnx dot json svg html; do
    check "graph.$format" "${transform[@]}" -o "$DIR/graph.$format"
    check "graph.$format is written" test -s "$DIR/graph.$format"
done
check "graph.json is JSON" "$python" -m json.tool "$DIR/graph.json"
# Every collective of the graph is in the picture, by its name, and the page has all of the graph.
check "pictures are whole" "$python" - "$DIR" <<'PY'
import html, json, re, sys
import xml.etree.ElementTree as et
graph = json.load(open(sys.argv[1] + "/graph.json"))
meet = {"AllReduce", "AllGather", "ReduceScatter", "Scatter", "Broadcast"}
names = [n["name"] for n in graph["nodes"] if n["op"].split(".")[-1] in meet]
assert len(names) > 5 and any(n.startswith("all-reduce bucket 1 (") for n in names), names
assert len(names) == len(set(names)), names
svg = et.parse(sys.argv[1] + "/graph.svg").getroot()
titles = "".join(t.text for t in svg.iter("{http://www.w3.org/2000/svg}title"))
shown = {line.rsplit(" (", 1)[0] for line in titles.splitlines() if line}
assert shown >= set(names), set(names) - shown
text = [t.text for t in svg.iter("{http://www.w3.org/2000/svg}text")]
for word in ("forward", "criterion", "backward", "update", "replica ×2", "devices 0–1 · samples 0–3, 4–7", "conv1", "fc"):
    assert word in text, (word, text)
page = open(sys.argv[1] + "/graph.html").read()
assert not re.search(r"(src|href)\s*=", page)
data = json.loads(re.search(r'<script type="application/json" id="graph">(.*?)</script>', page, re.S)[1])
assert [n["name"] for n in data["nodes"]] == [n["name"] for n in graph["nodes"]]
assert data["samples"] == [4, 4]
phase = {}
for n in data["nodes"]:
    assert data["blocks"][n["block"]]["kind"] == ("bar" if "tensors" in n else "layer"), n
    phase.setdefault(n["phase"], set()).add(n["name"])
assert set(phase) == {"forward", "criterion", "backward", "update"}, set(phase)
for p in data["parameters"]:
    of = {"gradient of " + p, "gradient of " + p.rsplit(".", 1)[0]}
    assert of & phase["backward"], p
    ids = {int(i) for i, name in data["states"].items() if name == p}
    pairs = [(s, g) for n in data["nodes"] for s, g in n.get("pairs", []) if s in ids]
    assert len(pairs) == len(ids) == 2, (p, pairs)
    made = {v: n for n in data["nodes"] for v in n["out"]}
    assert all(made[g]["phase"] == "backward" for _, g in pairs), p
assert "conv1" in phase["forward"] and "criterion" in phase["criterion"]
PY
# The same of the picture for Graphviz, whose tooltips have all nodes; and it is laid out.
check "the picture for Graphviz is whole" "$python" - "$DIR" <<'PY'
import json, re, sys
graph = json.load(open(sys.argv[1] + "/graph.json"))
dot = open(sys.argv[1] + "/graph.dot").read()
shown = [line.rsplit(" (", 1)[0] for tip in re.findall(r'^  n\d+ \[shape=box.*tooltip="(.*)"\];$', dot, re.M) for line in tip.split(r"\n") if line]
assert sorted(shown) == sorted(n["name"] for n in graph["nodes"])
assert "gradient of conv2.weight, gradient of conv1.weight, criterion)" in dot # all of the bucket
for frame in "device 0", "device 1", "replica 0, samples 0 to 3", "replica 1, samples 4 to 7", "forward", "criterion", "backward", "update":
    assert f'label="{frame}";' in dot, frame
model = re.search(r'^  subgraph "cluster_model" \{\n  label="the model, before";\n(.*?)^  \}$', dot, re.M | re.S)[1]
before = re.findall(r'^ *mn\d+ \[.*label="(.*?)"', model, re.M)
words = [word for label in before for word in label.split(r"\n")]
assert [w for w in words if w in ("Conv", "BatchNormalization", "Relu", "MaxPool")] == ["Conv", "BatchNormalization", "Relu", "MaxPool"] * 2, before
assert words[-1] == "... 6 more", before # of three times four, a flatten and a product
ranks = [re.findall(r"n\d+", r) for r in re.findall(r"\{rank=same;(.*)\}", dot)]
row = {n: k for k, r in enumerate(ranks) for n in r}
edges = re.findall(r"^  (n\d+) -> (n\d+) \[tooltip", dot, re.M)
assert len(edges) > 20 and all(row[a] < row[b] for a, b in edges) # time goes down
PY
# Gradients of replicas that share a device go into its sum, side by side.
"${transform[@]}" --replicas 4 -o "$DIR/shared.dot"
check "replicas of a device meet" "$python" - "$DIR/shared.dot" <<'PY'
import re, sys
dot = open(sys.argv[1]).read()
box = {n: label for n, label in re.findall(r'^  (n\d+) \[shape=box.*label="(.*?)", tooltip', dot, re.M)}
into = {}
for a, b in re.findall(r"^  (n\d+) -> (n\d+) \[tooltip", dot, re.M):
    into.setdefault(b, set()).add(box[a])
sums = [n for n, label in box.items() if re.match(r"Add( x\d+)?\\n", label) and "gradient of conv1.weight" in label]
assert len(sums) == 2 and all(any("ConvGradWeight" in x for x in into[n]) for n in sums), sums
PY
if command -v dot >/dev/null; then
    check "laid out" timeout 60 dot -Tsvg "$DIR/graph.dot" -o "$DIR/laid.svg"
fi

# A report: a parameter's gradient is found in the collective that it names, which lists all of its tensors and takes in their bytes.
"${transform[@]}" --replicas 3 --report --json >"$DIR/report.json"
"${transform[@]}" --replicas 3 --report >"$DIR/report.txt"
check "ways through a report" "$python" - "$DIR" <<'PY'
import json, math, re, sys
report, text = json.load(open(sys.argv[1] + "/report.json")), open(sys.argv[1] + "/report.txt").read()
by_name = {c["name"]: c for c in report["collectives"]}
numel = {p["name"]: math.prod(p["shape"]) for p in report["parameters"]}
trained = [p for p in report["parameters"] if p["trained"]]
assert len(trained) == 11 and len(by_name) == len(report["collectives"])
for p in trained:
    by = by_name[p["gradient_by"]]
    assert by["kind"] == "all-reduce" and by["phase"] == "backward" and len(by["of"]) == by["tensors"]
    layer = p["name"].rsplit(".", 1)[0] # the sums of batch-norm are its parameters' gradients
    assert ("gradient of " + (layer if layer.startswith("bn") else p["name"])) in by["of"], p
    assert p["updated_by"].startswith("update "), p
bucket = by_name[trained[0]["gradient_by"]]
members = [n[len("gradient of "):] for n in bucket["of"] if n != "criterion"]
assert bucket["of"].count("criterion") == 1 and len(members) == 5
# of two devices, one of which adds up two replicas first: float32
assert bucket["bytes"] == 2 * 4 * (sum(numel[m] for m in members) + 1), bucket
assert ("of " + ", ".join(members) + ", criterion\n") in text
for line in ("replica 0: device 0, 3 samples (0 to 2)", "replica 1: device 0, 3 samples (3 to 5)", "replica 2: device 1, 2 samples (6 to 7)"):
    assert line in text, line
assert report["samples"] == [3, 3, 2] and report["device_of_replica"] == [0, 0, 1]
assert all(re.search(rf"^{re.escape(p['name'])} .*; gradient by all-reduce ", text, re.M) for p in trained)
PY
check "graph.onnx opens" "$python" -c "import onnx; m = onnx.load('$DIR/graph.onnx'); assert len(m.graph.node) > 50"
says "partition" "$graph_transform" --list-passes
check "verify" "${transform[@]}" --verify
refused 2 "bogus" "${transform[@]}" --bogus
refused 2 "no-such" "${transform[@]}" --until no-such
refused 2 "there is no pass 'cse:3'" "${transform[@]}" --until cse:3
first=$("${transform[@]}" --until cse 2>/dev/null | grep -c ' = ') second=$("${transform[@]}" --until cse:2 2>/dev/null | grep -c ' = ')
check "a pass that runs twice: the first time ($first nodes), the second ($second)" test "$first" -lt "$second"
check "the first time is NAME:1" cmp <("${transform[@]}" --until cse 2>/dev/null) <("${transform[@]}" --until cse:1 2>/dev/null)
check "an unknown format is refused" bash -c "! $graph_transform models/mlp.onnx --batch-size 2 -o $DIR/graph.pdf"
check "and nothing is written" test ! -e "$DIR/graph.pdf"
"$python" - "$DIR" <<'PY'
import numpy as np, sys
np.save(sys.argv[1] + "/six.npy", np.zeros((1, 6), np.float32))
np.save(sys.argv[1] + "/rate.npy", np.array(16))
PY
# Data decide between two branches, one of which these sizes do not allow.
says "warning: interpreted: data decides which branch is taken" "$dpexec" run tests/api/branches_rates.onnx --input x="$DIR/six.npy" \
    --input rate="$DIR/rate.npy" --out "$DIR/rates"
check "its output" test -s "$DIR/rates/y.npy"

# Put together as torch.nn.DataParallel does: of chunks, along the axis of the inputs or a given one, be the samples there or not.
"$python" - "$DIR" <<'PY'
import sys
import numpy as np, onnx, onnx.parser
onnx.save(onnx.parser.parse_model('''<ir_version: 8, opset_import: ["": 17]> g (float[N,4] x) =>
    (float[N,3] rows, float[1,3] mean, float[3] total, float[N,3] mixed, float[3,N] across, float[2,2] fixed, float number)
    <float[4,3] w = {1,-2,3,0.4,5,-0.6,0.7,0.8,-0.9,1,1.1,1.2}, float[2,2] c = {1,2,3,4}, int64[1] zero = {0}> {
        rows = MatMul(x, w)
        mean = ReduceMean<axes=[0], keepdims=1>(rows)
        total = ReduceSum<keepdims=0>(rows, zero)
        mixed = Softmax<axis=0>(rows)
        across = Transpose<perm=[1,0]>(rows)
        fixed = Identity(c)
        number = ReduceMean<keepdims=0>(rows)
    }'''), f"{sys.argv[1]}/joined.onnx")
for n in 6, 7:
    np.save(f"{sys.argv[1]}/joined{n}.npy", np.random.default_rng(n).standard_normal((n, 4)).astype(np.float32))
PY
cat >"$DIR/joined.py" <<'PY'
import os, sys
import numpy as np
folder, rows, replicas, axis = sys.argv[1], *map(int, sys.argv[2:])
x, w = np.load(f"{folder}/joined{rows}.npy").astype(float), np.array([1, -2, 3, .4, 5, -.6, .7, .8, -.9, 1, 1.1, 1.2]).reshape(4, 3)
def module(x):
    y = x @ w
    e = np.exp(y - y.max(0))
    return {"rows": y, "mean": y.mean(0, keepdims=True), "total": y.sum(0), "mixed": e / e.sum(0), "across": y.T,
            "fixed": np.array([[1., 2], [3, 4]]), "number": y.mean()}
size = -(-rows // replicas)
parts = [module(x[at:at + size]) for at in range(0, rows, size)]
for name, value in parts[0].items():
    want = np.array([p[name] for p in parts]) if value.ndim == 0 else np.concatenate([p[name] for p in parts], axis)
    found = np.load(f"{folder}/joined/{name}.npy")
    assert found.shape == want.shape and np.abs(found - want).max() < 1e-5, (name, found, want)
assert len(os.listdir(f"{folder}/joined")) == 7
PY
while read -r rows replicas axis flags; do
    rm -rf "$DIR/joined"
    # shellcheck disable=SC2086     # several words
    check "outputs joined: $flags" "$dpexec" run "$DIR/joined.onnx" --input "x=$DIR/joined$rows.npy" --replicas "$replicas" --threads 1 --split chunk \
        --out "$DIR/joined" $flags
    check "are each replica's own, along axis $axis" "$python" "$DIR/joined.py" "$DIR" "$rows" "$replicas" "$axis"
done <<'JOINED'
6 3 0 --compat dp
6 2 -1 --compat dp --output-axis -1
6 3 0 --output-axis 0 --scalar-outputs each --devices cpu*2
JOINED
says "warning: mixed: what each of 3 replicas computes of its own samples, along axis 0 (--output-axis inputs (0))" \
    "$dpexec" run "$DIR/joined.onnx" --input "x=$DIR/joined6.npy" --replicas 3 --compat dp --out "$DIR/joined" --threads 1
says "warning: number: a vector of what each of 3 replicas computes of its own samples (--scalar-outputs each)" \
    "$dpexec" run "$DIR/joined.onnx" --input "x=$DIR/joined6.npy" --replicas 3 --compat dp --out "$DIR/joined" --threads 1
refused 1 "output 'across' has its samples along axis 1, and parts of 3 and 1 of them cannot be put together along another" \
    "$dpexec" run "$DIR/joined.onnx" --input "x=$DIR/joined7.npy" --replicas 3 --compat dp --out "$DIR/joined" --threads 1
refused 1 "--output-axis 1: output 'total' has rank 1, and no such axis" \
    "$dpexec" run "$DIR/joined.onnx" --input "x=$DIR/joined6.npy" --replicas 3 --output-axis 1 --out "$DIR/joined" --threads 1
refused 2 "placed, inputs, or the number of an axis" "$dpexec" run "$DIR/joined.onnx" --input "x=$DIR/joined6.npy" --output-axis rows
finish
