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
check "each by its name" grep -q '"all_losses.0":[-0-9.e]*,"all_losses.1":[-0-9.e]*}' <<<"$together"
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
shown = [line.rsplit(" (", 1)[0] for line in titles.splitlines() if line]
assert sorted(shown) == sorted(n["name"] for n in graph["nodes"])
text = [t.text for t in svg.iter("{http://www.w3.org/2000/svg}text")]
for word in ("forward", "criterion", "backward", "update", "device 0, replica 0", "device 1, replica 1"):
    assert word in text, word
page = open(sys.argv[1] + "/graph.html").read()
assert not re.search(r"(src|href)\s*=", page)
data = json.loads(re.search(r'<script type="application/json" id="graph">(.*?)</script>', page, re.S)[1])
assert [n["name"] for n in data["nodes"]] == [n["name"] for n in graph["nodes"]]
assert data["samples"] == [4, 4]
boxes = set(re.findall(r'id="(b\d+_-?\d+)"', page))
phase = {}
for n in data["nodes"]:
    assert n["box"] in boxes, n
    phase.setdefault(n["phase"], set()).add(n["name"])
assert set(phase) == {"forward", "criterion", "backward", "update"}, set(phase)
for p in data["parameters"]:
    of = {"gradient of " + p, "gradient of " + p.rsplit(".", 1)[0]}
    assert of & phase["backward"], p
    ids = {int(i) for i, name in data["states"].items() if name == p}
    pairs = [(s, g) for n in data["nodes"] for s, g in n["pairs"] if s in ids]
    assert len(pairs) == len(ids) == 2, (p, pairs)
    made = {v: n for n in data["nodes"] for v in n["out"]}
    assert all(made[g]["phase"] == "backward" for _, g in pairs), p
assert "conv1" in phase["forward"] and "criterion" in phase["criterion"]
PY
check "graph.onnx opens" "$python" -c "import onnx; m = onnx.load('$DIR/graph.onnx'); assert len(m.graph.node) > 50"
says "partition" "$graph_transform" --list-passes
check "verify" "${transform[@]}" --verify
refused 2 "bogus" "${transform[@]}" --bogus
refused 2 "no-such" "${transform[@]}" --until no-such
check "an unknown format is refused" bash -c "! $graph_transform models/mlp.onnx --batch-size 2 -o $DIR/graph.pdf"
check "and nothing is written" test ! -e "$DIR/graph.pdf"
"$python" - "$DIR" <<'PY'
import numpy as np, sys
np.save(sys.argv[1] + "/six.npy", np.zeros((1, 6), np.float32))
np.save(sys.argv[1] + "/rate.npy", np.array(16))
PY
# Data decide between two branches, one of which these sizes do not allow.
says "warning: interpreted: data decide which branch is taken" "$dpexec" run tests/api/branches_rates.onnx --input x="$DIR/six.npy" \
    --input rate="$DIR/rate.npy" --out "$DIR/rates"
check "its output" test -s "$DIR/rates/y.npy"
finish
