#!/bin/bash
# dpexec train --profile: FLOPs, calls and shares by hand, times beside those of --trace, replicas, micro-batches, evaluations, several
# processes, runs that are too short, simulated GPUs.  Needs python3-numpy.
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-/usr/bin/python3}
"$python" - "$DIR" <<'PY'
import sys
import numpy as np
rng = np.random.default_rng(0)
for name, n in (("many", 512), ("few", 100)):
    np.savez(f"{sys.argv[1]}/{name}.npz", x=rng.standard_normal((n, 64), dtype="f4"), target=rng.integers(0, 10, n))
PY
train=("$dpexec" train models/mlp.onnx --loss cross-entropy --batch-size 32 --threads 1 --quiet --profile)

# What holds of every profile: profile.json says so.
cat >"$DIR/holds.py" <<'PY'
import json, sys
def load(folder):
    p = json.load(open(f"{folder}/profile.json"))
    rows, parts = p["operators"], p["parts"]
    nodes = sum(r["seconds"] + r["waited"] for r in rows)
    rest = sum(parts[k] for k in ("waiting_for_data", "between_kernels", "between_steps"))
    assert abs(nodes + rest - p["seconds"]) < 1e-9 * p["seconds"], (nodes, rest, p["seconds"])
    assert abs(sum(parts.values()) - p["seconds"]) < 1e-9 * p["seconds"], parts
    assert abs(sum(p["phases"].values()) - nodes) < 1e-9 * nodes, (p["phases"], nodes)
    for key in ("calls", "seconds", "waited", "flops", "bytes"):
        of = [sum(r[key] for r in p[k]) for k in ("operators", "layers")]
        assert abs(of[0] - of[1]) <= 1e-9 * of[0], (key, of)
    flops, peak = p["peaks"]["flops"], p["peaks"]["bytes"]
    assert list(flops) == ["float32"] and flops["float32"] > 1e8 and peak > 1e8, p["peaks"]
    for r in rows:
        if r["operator"] in ("Gemm", "BatchMatMul"):
            of_peak = max(r["flops"] / flops["float32"], r["bytes"] / peak) / r["seconds"]
            assert abs(of_peak - r["of_peak"]) < 1e-9 * of_peak, (r, of_peak)
    return p, {r["operator"]: r for r in rows}, {r["layer"]: r for r in p["layers"]}
PY
# holds NAME FOLDER PYTHON: of p, and of its rows by operator and by layer.
holds() { check "$1" env PYTHONPATH="$DIR" "$python" -c "from holds import *
p, op, layer = load('$2')
$3"; }

# By hand: layers of 64 x 128, 128 x 64 and 64 x 10; the gradient of the first input is not needed.
started=$(date +%s%N)
check "a run" "${train[@]}" --data "$DIR/many.npz" --steps 14 --no-shuffle --out "$DIR/one" --trace "$DIR/trace.json"
export took=$(($(date +%s%N) - started))
holds "FLOPs and calls by hand" "$DIR/one" "
assert p['steps'] == 12 and p['steps_seen'] == 14 and p['devices'] == 1, p
inner, outer = 64 * 128 + 128 * 64 + 64 * 10, 128 * 64 + 64 * 10
assert op['Gemm']['calls'] == 3 and op['Gemm']['flops'] == 2 * 32 * inner, op['Gemm']
assert op['BatchMatMul']['calls'] == 5 and op['BatchMatMul']['flops'] == 2 * 32 * (inner + outer), op['BatchMatMul']
assert op['Update']['calls'] == 1 and not any(r['waited'] for r in p['operators']), op
for name, n, m, calls in (('fc1', 64, 128, 3), ('fc2', 128, 64, 4), ('fc3', 64, 10, 4)):
    x = layer[name]     # the product, the gradients of weight, of bias, of the input
    assert x['calls'] == calls and 0 <= x['flops'] - (calls - 1) * 2 * 32 * n * m <= 2 * 32 * m, x
import os
assert 0 < p['seconds'] * 12e9 < int(os.environ['took']), p['seconds']"
holds "the times of the trace" "$DIR/one" "
events = json.load(open('$DIR/trace.json'))['traceEvents']
each = len(events) // 14
assert len(events) == 14 * each == 14 * sum(r['calls'] for r in p['operators']), len(events)
for name, r in op.items():
    e = [e for e in events[2 * each:] if e['cat'] == name]
    assert abs(sum(x['dur'] for x in e) * 1e-6 / 12 - r['seconds']) < 1e-6 * r['seconds'] + 1e-12, (name, r)
    assert sum(x['args']['bytes'] for x in e) / 12 == r['bytes'], (name, r)"

# The table: the shares of the operators and of the rest sum to 100 %.
"${train[@]}" --data "$DIR/many.npz" --steps 14 --out none >"$DIR/table"
check "shares" awk '/^operator /{on=1;next} /^step /{exit !(n > 8 && sum > 99 && sum < 101 && / 100.0 %/)} on {for(i=2;i<=NF;i++)if($i=="%"){sum+=$(i-1);n++;break}}' \
    "$DIR/table"
check "it says what limits the run" grep -qE '^limit      [a-z ,]* (limits|limit) the run' "$DIR/table"
check "as many steps" grep -q '^profile    12 of 14 steps counted, [0-9.]* ms a step$' "$DIR/table"

# Evaluations, a shorter last batch, micro-batches, replicas that are not as many as devices: 3 epochs of 32, 32, 32 and 4 samples.
check "epochs" "${train[@]}" --data "$DIR/few.npz" --val "$DIR/few.npz" --epochs 4 --out "$DIR/epochs"
holds "two shapes, two steps of each are left out" "$DIR/epochs" "
assert p['steps'] == 12 and p['steps_seen'] == 16, (p['steps'], p['steps_seen'])
assert op['Gemm']['calls'] == 3, op['Gemm']
rows = (10 * 32 + 2 * 4) / 12           # of a step: 16 steps but two of 32 and two of 4
assert abs(op['Gemm']['flops'] - 2 * rows * (64 * 128 + 128 * 64 + 64 * 10)) < 1e-6, op['Gemm']"
check "micro-batches" "${train[@]}" --data "$DIR/many.npz" --val "$DIR/few.npz" --eval-every 2 --accumulate 3 --steps 5 --devices 'cpu*2' \
    --replicas 4 --out "$DIR/micro"
holds "calls of micro-batches and replicas" "$DIR/micro" "
assert p['devices'] == 2 and p['steps'] == 3 and p['steps_seen'] == 5, p
assert op['Gemm']['calls'] == 3 * 3 * 2 and op['Update']['calls'] == 1, op     # layers, micro-batches, replicas of a device
assert op['Gemm']['flops'] == 3 * 2 * 16 * (64 * 128 + 128 * 64 + 64 * 10), op['Gemm']   # half of each micro-batch
assert op['AllReduce']['calls'] >= 1 and p['parts']['collectives'] > 0, p['parts']"

# Two processes: rank 0 prints.
"$dpexec" launch -n 2 -- train models/mlp.onnx --loss cross-entropy --batch-size 32 --threads 1 --quiet --profile --data "$DIR/many.npz" --steps 8 \
    --out "$DIR/ranks" >"$DIR/ranks.txt" 2>&1
check "two processes" test "$(grep -c '^limit ' "$DIR/ranks.txt")" = 1
holds "half of the batch" "$DIR/ranks" "
assert p['devices'] == 1 and p['steps'] == 6, p
assert op['Gemm']['flops'] == 2 * 16 * (64 * 128 + 128 * 64 + 64 * 10), op['Gemm']"

# A profile is no part of what a run is: bits, resumed runs.
check "the same without" "$dpexec" train models/mlp.onnx --loss cross-entropy --batch-size 32 --threads 1 --quiet --data "$DIR/many.npz" --steps 14 \
    --no-shuffle --out "$DIR/plain"
check "the same bytes" cmp "$DIR/plain/model.onnx" "$DIR/one/model.onnx"
"$dpexec" resume "$DIR/one" --steps 18 --quiet >"$DIR/resumed"
check "a resumed run has none" test "$(grep -c '^limit ' "$DIR/resumed")" = 0
says "no step was counted of 2: the first two steps" "${train[@]}" --data "$DIR/many.npz" --steps 2 --out "$DIR/short"
says "or raise --programs" "${train[@]}" --data "$DIR/few.npz" --val "$DIR/few.npz" --epochs 6 --accumulate 3 --programs 4 --out none
check "JSON without steps" grep -q '"steps": 0' "$DIR/short/profile.json"
says "limit      " "${train[@]}" --data "$DIR/many.npz" --lr-find --steps 20 --lr 0.1 --out none

if [ -e "$build/libdpexec_cudasim.so" ]; then
    export DPEXEC_CUDA_PLUGIN=$build/libdpexec_cudasim.so
    check "simulated GPUs" "${train[@]}" --data "$DIR/many.npz" --steps 32 --devices 'cuda*2' --out "$DIR/gpu"
    holds "20 steps are timed" "$DIR/gpu" "
assert p['steps'] == 20 and p['devices'] == 2, p
assert sum(r['flops'] for r in p['operators'] if r['operator'] in ('Gemm', 'BatchMatMul', 'Product')) >= 2 * 16 * 17024, op"
else
    skip "simulated GPUs" "not built"
fi
finish
