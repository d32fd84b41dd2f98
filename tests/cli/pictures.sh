#!/bin/bash
# The pictures and reports of ResNet-50 and fashion_cnn on four devices: how large they are, the parts of batches of twice as many samples as
# devices and of one more, the numbers that synchronised batch-norm sends, the ways of a sample, a parameter and its gradient, and the layers
# that repeat.
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-/usr/bin/python3}
check "ResNet-50" "$python" - "$DIR" <<'PY'
import pathlib, sys
sys.path.insert(0, "bench")
import gpu_models
gpu_models.model_file("resnet50", gpu_models.CASES["resnet50"]["full"], pathlib.Path(sys.argv[1]))
PY
cp models/fashion_cnn.onnx "$DIR"

cat >"$DIR/judge.py" <<'PY'
import json, re, sys
import xml.etree.ElementTree as et
def parent(blocks, b):
    i = next(i for i, x in enumerate(blocks) if x is b)
    return next((x for k, x in reversed(list(enumerate(blocks[:i]))) if x["end"] > i), None)


folder, net, batch = sys.argv[1], sys.argv[2], int(sys.argv[3])
devices = 4
parts = [batch // devices + (r < batch % devices) for r in range(devices)]
ranges = [(sum(parts[:r]), sum(parts[:r + 1]) - 1) for r in range(devices)]
report, text = json.load(open(f"{folder}/report.json")), open(f"{folder}/report.txt").read()
dot, page, svg = (open(f"{folder}/step.{kind}").read() for kind in ("dot", "html", "svg"))
data = json.loads(re.search(r'<script type="application/json" id="graph">(.*?)</script>', page, re.S)[1])
drawing = et.fromstring(svg)
words = [t.text for t in drawing.iter("{http://www.w3.org/2000/svg}text")]
blocks = data["blocks"]

# Parts, wherever they are told.
assert report["batch"] == batch and report["samples"] == parts and data["samples"] == parts, (report["samples"], parts)
assert f"batch of {batch} over {devices} replicas: {' '.join(map(str, parts))}\n" in text
for r, (a, b) in enumerate(ranges):
    assert f'label="replica {r}, samples {a} to {b}";' in dot, (r, a, b)
    assert f"replica {r}: device {r}, {parts[r]} samples ({a} to {b})" in text

# Equal replicas are one column, though the first also divides the loss.
note = "devices 0–3 · samples " + ", ".join(f"{a}–{b}" for a, b in ranges)
assert [(c["title"], c["note"], c["lanes"]) for c in data["columns"]] == [("replica ×4", note, 4)], data["columns"]
assert "replica ×4" in words and note in words, words[:20]

# Batch-norm of C channels sends a count, C means and C sums of squares, in float64, and back two sums a channel.
channels = {p["name"].rsplit(".", 1)[0]: p["shape"][0] for p in report["parameters"] if p["trained"] and len(p["shape"]) == 1}
by = {c["name"]: c for c in report["collectives"]}
norms = [n for n in channels if f"all-gather of {n}" in by]
assert len(norms) == {"resnet50": 53, "fashion_cnn": 3}[net], norms
for n in norms:
    assert by[f"all-gather of {n}"]["bytes"] == devices * 8 * (2 * channels[n] + 1), by[f"all-gather of {n}"]
    assert by[f"all-reduce of gradient of {n}"]["bytes"] == devices * 4 * 2 * channels[n], by[f"all-reduce of gradient of {n}"]

# A way each, by the page's own tables: of a parameter to its gradient, the sum over devices and the update.
assert all(blocks[n["block"]]["kind"] in ("layer", "bar") for n in data["nodes"])
made = {v: n for n in data["nodes"] for v in n["out"]}
for p in (p for p in report["parameters"] if p["trained"]):
    ids = {int(i) for i, name in data["states"].items() if name == p["name"]}
    pairs = [made[g] for n in data["nodes"] for s, g in n.get("pairs", []) if s in ids]
    assert len(ids) == len(pairs) == devices and all(n["phase"] == "backward" for n in pairs), p["name"]
    assert by[p["gradient_by"]]["kind"] == "all-reduce" and by[p["gradient_by"]]["phase"] == "backward"
# ... and of a sample: every replica computes the first convolution of its own.
assert sorted(n["replica"] for n in data["nodes"] if n["phase"] == "forward" and n["op"] == "Conv" and n["name"].split("@")[0] == "conv1") == [0, 1, 2, 3]

# Sizes: no wider than a screen, not higher than a few of them, and all within the page.
width, height = int(drawing.get("width")), int(drawing.get("height"))
assert width <= 1240 and height <= {"resnet50": 4600, "fashion_cnn": 3000}[net], (width, height)
rects = [[float(r.get(k)) for k in ("x", "y", "width", "height")] for r in drawing.iter("{http://www.w3.org/2000/svg}rect") if r.get("x")]
assert all(x + w <= width and y + h <= height for x, y, w, h in rects)
if net == "resnet50":
    # 3, 4, 6 and 3 blocks, of which the first of each stage has a shortcut of its own, so that the others repeat.
    repeats = {b["title"]: sum(1 for k in blocks if k is not b and parent(blocks, k) is b) for b in blocks if b["kind"] == "repeat" and b["phase"] == 1}
    assert {t: n for t, n in repeats.items() if t.count(".") == 1} == {"layer1.1 … 2": 2, "layer2.1 … 3": 3, "layer3.1 … 5": 5, "layer4.1 … 2": 2}, repeats
    # torchvision's ResNet50_Weights: num_params 25557032; 4.09 billion products a picture, here with batch-norm and activations.
    nodes, ops, shape, parameters, flops, size, seconds = next(b for b in blocks if b["title"] == "forward")["c"][0]
    assert parameters == 25557032 and 2 * 4.09e9 < flops / parts[0] < 1.02 * 2 * 4.09e9, (parameters, flops / parts[0])
PY

for net in resnet50 fashion_cnn; do
    for batch in 8 9; do
        step=("$graph_transform" "$DIR/$net.onnx" --loss cross-entropy --batch-size "$batch" --devices 'cpu*4')
        for kind in svg html dot; do check "$net of $batch: step.$kind" "${step[@]}" -o "$DIR/step.$kind"; done
        "${step[@]}" --report --json >"$DIR/report.json"
        "${step[@]}" --report >"$DIR/report.txt"
        check "$net of $batch samples on four devices" "$python" "$DIR/judge.py" "$DIR" $net $batch
    done
done
# A weight that two layers read counts in both, and once in what holds both: transformers' GPT2LMHeadModel has as many parameters.
check "GPT-2" "$dpexec" new gpt --layers 2 --width 48 --heads 2 --block 40 --vocab 100 --quiet -o "$DIR/tied.onnx"
check "on two devices" "$graph_transform" "$DIR/tied.onnx" --input-shape tokens=4,16 --loss cross-entropy --devices 'cpu*2' -o "$DIR/tied.html"
check "its parameters" "$python" - "$DIR/tied.html" <<'PY'
import json, re, sys
blocks = json.loads(re.search(r'<script type="application/json"[^>]*>(.*?)</script>', open(sys.argv[1]).read(), re.S)[1])["blocks"]
found = {}
for b in blocks:        # scopes come before layers that bear their names
    if b["phase"] == 1 and b.get("c"):
        found.setdefault(b.get("path") or b["title"], b["c"][0][3])
each = 100 * 48, 40 * 48, 2 * (12 * 48 * 48 + 13 * 48), 2 * 48
assert found["forward"] == found["transformer"] == sum(each), (found, sum(each))
assert [b["c"][0][3] for b in blocks if b["phase"] == 1 and b.get("path") == "transformer.wte"] == [each[0], each[0]], found
PY
check "GPT-2 with AdamW" "$graph_transform" "$DIR/tied.onnx" --input-shape tokens=2,40 --loss cross-entropy --optimizer adamw -o "$DIR/adamw.svg"
check "what has one title is one card" test "$(grep -c '>factor of gradients<' "$DIR/adamw.svg")" = 1
check "with its operators" grep -q '>Cast, Cast, Add, Pow, .* … 14 in all<' "$DIR/adamw.svg"
check "a U-Net" "$dpexec" new unet --layers 2 --width 8 --size 64 --quiet -o "$DIR/unet.onnx"
check "its picture" "$graph_transform" "$DIR/unet.onnx" --batch-size 2 --loss cross-entropy -o "$DIR/unet.svg"
check "names that differ in a number are a span" grep -q '>double_conv.0 … 5<' "$DIR/unet.svg"
check "a picture of a small network" "$graph_transform" models/mlp.onnx --batch-size 1 --loss cross-entropy -o "$DIR/mlp.svg"
check "no bar where there is next to nothing to compute" test "$(sed -n '/>criterion</,/>backward</p' "$DIR/mlp.svg" | grep -c 'class="heat"')" = 0
check "bars where there is more" grep -q 'class="heat"' "$DIR/mlp.svg"
shown=$(sed -n 's/^    graph-transform \(.* -o step.svg\)$/\1/p' docs/reference/report.md)
(cd "$DIR" && mkdir models && cp fashion_cnn.onnx models && eval "$graph_transform $shown")
check "the picture of docs/reference/report.md is what its command draws" cmp "$DIR/step.svg" docs/reference/fashion_cnn.svg
finish
