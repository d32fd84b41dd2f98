#!/bin/bash
# graph-transform --simulate: one device that stands for many against all of them, numbers that can be computed by hand, published
# scaling of ResNet-50, descriptions that are wrong.
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-/usr/bin/python3}
cluster() { # FILE [JQ-LIKE PYTHON EXPRESSION ON d]
    "$python" - "$1" "${2:-}" <<'PY'
import json, sys
d = {"device": {"flops": 8e10, "memory_bandwidth": 1.2e10, "memory": 4e9, "cores": 1}, "nodes": 16, "devices_per_node": 4,
     "links": {"node": {"bandwidth": 2e9, "latency": 2e-5}, "network": {"bandwidth": 1.25e9, "latency": 3e-5}}, "counts": [2, 5, 16, 50]}
exec(sys.argv[2])
json.dump(d, open(sys.argv[1], "w"))
PY
}

# same NAME OPTIONS...: the rows of one device of each class are those of all devices.
same() {
    local name=$1
    shift
    "$graph_transform" "$@" --json >"$DIR/few.json" && "$graph_transform" "$@" --json --expand >"$DIR/all.json"
    check "$name" "$python" - "$DIR/few.json" "$DIR/all.json" <<'PY'
import json, sys
few, every = (json.load(open(f))["rows"] for f in sys.argv[1:])
assert len(few) == len(every) >= 6, (len(few), len(every))
for a, b in zip(few, every):
    assert a["planned"] <= 4 and b["planned"] == b["devices"], a
    pieces = a["shard"] != "none"       # times follow the one that holds most, arenas the packer's luck
    for key in a:
        limit = {"planned": 9, "shard": 0, "memory": 0.01, "arena": 0.01}.get(key, 1e-3 if pieces else 1e-9)
        if limit and not abs(a[key] - b[key]) <= limit * abs(b[key]):
            raise SystemExit(f"{a['devices']} devices, {a['shard']}: {key} {a[key]} of few, {b[key]} of all")
PY
}
cluster "$DIR/weak.json"
cluster "$DIR/strong.json" 'd["scaling"] = "strong"'
cluster "$DIR/ring.json" 'd["device"]["kind"] = "accelerator"; d["algorithm"] = "ring"; d["counts"] = [2, 3, 4, 7, 16, 64]'
adam=(--loss cross-entropy --optimizer adam)
same "resnet20" models/resnet20.onnx "${adam[@]}" --batch-size 4 --simulate "$DIR/weak.json"
same "uneven parts" models/fashion_cnn.onnx "${adam[@]}" --batch-size 37 --simulate "$DIR/strong.json"
same "clipping" models/transformer.onnx "${adam[@]}" --clip-norm 1 --batch-size 2 --simulate "$DIR/weak.json"
same "empty parts" models/mlp.onnx "${adam[@]}" --split chunk --batch-size 9 --simulate "$DIR/strong.json"
same "accelerators" models/resnet20.onnx "${adam[@]}" --batch-size 4 --simulate "$DIR/ring.json"

# By hand: 17,226 gradients and a loss's two numbers at most; the rate is the given one.  Two devices send each other all of them; eight
# each add a share of what they get from seven, and send that to seven.
cluster "$DIR/hand.json" 'd["device"]["samples_per_second"] = 1000; d["counts"] = [1, 2, 8, 10000]; d["nodes"] = 1250; d["devices_per_node"] = 8;
d["links"] = {"node": {"bandwidth": 1e6, "latency": 0.5}, "network": {"bandwidth": 1e6, "latency": 0}}'
hand=("$graph_transform" models/mlp.onnx --loss mse --batch-size 10 --shard none --simulate "$DIR/hand.json" --json)
"${hand[@]}" >"$DIR/hand.out"
"${hand[@]}" --links "$DIR/hand.json" >"$DIR/told.out"
check "by hand" "$python" - "$DIR/hand.out" "$DIR/told.out" <<'PY'
import json, sys
one, two, eight, many = json.load(open(sys.argv[1]))["rows"]
told = json.load(open(sys.argv[2]))["rows"][2]
assert abs(one["seconds"] - 0.01) < 1e-9 and one["bytes_in_node"] == 0, one
# A run that knows that a message takes as long as half a million bytes sends the same sum whole.
for row, sent, messages in ((two, 17226 * 4, 1), (eight, 17226 * 4 * 2 * 7 / 8, 2 * 7), (told, 17226 * 4 * 7, 7)):
    assert sent <= row["bytes_in_node"] <= sent + 64, (row, sent)
    seconds = row["bytes_in_node"] / 1e6 + messages * 0.5 * row["collectives"]
    assert seconds <= row["wire_seconds"] <= seconds + 0.001, (row, seconds)
    assert abs(row["seconds"] - row["compute_seconds"] - row["wire_seconds"]) < 1e-9, row
assert many["planned"] <= 4 and many["batch"] == 100000 and many["bytes_of_node"] > 8 * 2 * 17226 * 4 * 0.99, many
PY
# Over the network, by hand: in each of two phases a device sends its share to every device of other nodes, one after another, over the
# link of its node, which one device has to itself, or two share; links within nodes and adding cost nothing.
for each in 1 2; do
    cluster "$DIR/network.json" "d['device'].update(memory_bandwidth=1e17); d['counts'] = [4, 8]; d['nodes'] = 8; d['devices_per_node'] = $each
d['links'] = {'node': {'bandwidth': 1e17, 'latency': 0}, 'network': {'bandwidth': 1e6, 'latency': 0.001}}"
    "$graph_transform" models/mlp.onnx --loss mse --batch-size 10 --shard none --simulate "$DIR/network.json" --links "$DIR/network.json" --json
done >"$DIR/network.out"
check "the network by hand" "$python" - "$DIR/network.out" <<'PY'
import json, re, sys
alone, shared = (json.loads(t)["rows"] for t in re.split(r"(?<=\]})\n", open(sys.argv[1]).read()) if t.strip())
for rows, m in ((alone, 1), (shared, 2)):
    for row, n in zip(rows, (4, 8)):
        sent = 2 * m * (n - m) * 17226 * 4 / n
        assert row["devices"] == n and row["collectives"] == 1 and sent <= row["bytes_of_node"] <= sent + 64 * m, (row, sent)
        assert abs(row["wire_seconds"] - row["bytes_of_node"] / 1e6 - 2 * (n - m) * 0.001) < 1e-9, row
PY
# Hierarchical, by hand: in each of two phases, within a node of four, three pieces of a quarter of the sum and three latencies; between eight
# nodes 7/8 of the sum and log2(8) = 3 latencies.
cluster "$DIR/tree.json" "d['device'].update(memory_bandwidth=1e17); d['algorithm'] = 'hierarchical'; d['counts'] = [4, 32]; d['nodes'] = 8
d['links'] = {'node': {'bandwidth': 1e6, 'latency': 0.5}, 'network': {'bandwidth': 1e5, 'latency': 0.25}}"
"$graph_transform" models/mlp.onnx --loss mse --batch-size 10 --shard none --simulate "$DIR/tree.json" --links "$DIR/tree.json" --json >"$DIR/tree.out"
check "hierarchical by hand" "$python" - "$DIR/tree.out" <<'PY'
import json, sys
within, between = json.load(open(sys.argv[1]))["rows"]
for row, seconds in ((within, lambda s: 3 * (s / 4 / 1e6 + 0.5)), (between, lambda s: 3 * (s / 4 / 1e6 + 0.5) + 7 / 8 * s / 1e5 + 3 * 0.25)):
    least, most = 2 * seconds(17226 * 4), 2 * seconds(17226 * 4 + 64)
    assert row["collectives"] == 1 and least - 1e-9 <= row["wire_seconds"] <= most + 1e-9, (row, least, most)
PY
# 10,000 devices at every level.  Mirrored, seven devices of the node and a network link that eight share, twice; in pieces the device that
# holds most has the least that a tensor is cut into, 4096 elements, of adam's two moments, or of parameters too, and the counter of steps.
cluster "$DIR/levels.json" "d['device'].update(memory_bandwidth=1e17); d['counts'] = [16, 10000]; d['nodes'] = 1250; d['devices_per_node'] = 8
d['links'] = {'node': {'bandwidth': 1e6, 'latency': 0.05}, 'network': {'bandwidth': 1e6, 'latency': 0}}"
for net in mlp transformer; do
    "$graph_transform" models/$net.onnx --loss cross-entropy --optimizer adam --batch-size 2 --simulate "$DIR/levels.json" --links "$DIR/levels.json" --json
done >"$DIR/levels.out"
check "10,000 devices at every level" "$python" - "$DIR/levels.out" <<'PY'
import json, math, re, sys
mlp, net = (json.loads(t)["rows"] for t in re.split(r"(?<=\]})\n", open(sys.argv[1]).read()) if t.strip())
levels = ["none", "optimizer", "gradients", "parameters"]
for rows, p in ((mlp, 17226 * 4), (net, 4130304)):
    assert [(r["devices"], r["shard"]) for r in rows] == [(n, level) for n in (16, 10000) for level in levels], rows
    for r in rows:
        assert r["planned"] <= 4 and all(math.isfinite(v) for v in r.values() if not isinstance(v, str)), r
        assert r["seconds"] > 0 and r["batch"] == 2 * r["devices"], r
    least = 4096 * 4
    assert [r["states"] for r in rows[4:]] == [3 * p + 8, p + 2 * least + 8, p + 2 * least + 8, 3 * least + 8], rows[4:]
for r, whole, cut in zip(net[:4], (3, 1, 1, 0), (0, 2, 2, 3)):      # of 16, to a tenth
    assert 0 <= r["states"] - 8 - (whole + cut / 16) * 4130304 <= 0.1 * cut / 16 * 4130304, r
many = mlp[4]
assert many["collectives"] == 1, many
for size, sign in ((17226 * 4, 1), (17226 * 4 + 8, -1)):
    seconds = 2 * (7 * (size / 10000 / 1e6 + 0.05) + 8 * 9992 * size / 10000 / 1e6)
    assert sign * (many["wire_seconds"] - seconds) > -1e-6, (many, seconds)
PY
# What comes from others at once is what the run that is given these links would have, as it says: of each of 7 tensors 7 parts, which take
# up to 64 bytes more; or 7 shares, the last of which has up to 72 elements more than an eighth.
for latency in 0.5 0.05; do
    cluster "$DIR/hand.$latency.json" "d['counts'] = [1, 2, 8]; d['nodes'] = 1; d['devices_per_node'] = 8
d['links'] = {'node': {'bandwidth': 1e6, 'latency': $latency}, 'network': {'bandwidth': 1e6, 'latency': 0}}"
    "$graph_transform" models/mlp.onnx --loss mse --batch-size 10 --shard none --simulate "$DIR/hand.$latency.json" --links "$DIR/hand.$latency.json" \
        --json >>"$DIR/staged.out"
    "$dpexec" train models/mlp.onnx --data tests/oracle/data/digits.npz --loss mse --batch-size 80 --devices 'cpu*8' \
        --links "$DIR/hand.$latency.json" --dry-run 2>"$DIR/dry.err"
done >"$DIR/dry.out"
check "staging of a run with these links" "$python" - "$DIR/staged.out" "$DIR/dry.out" <<'PY'
import json, re, sys
rows = [json.loads(t)["rows"][2] for t in re.split(r"(?<=\]})\n", open(sys.argv[1]).read()) if t.strip()]
found = [float(x) * 1024 for x in re.findall(r"([\d.]+) KiB that come from the others at once", open(sys.argv[2]).read())]
assert len(found) == 16 and len(set(found)) == 2, found
for row, staged, more in zip(rows, (found[0], found[8]), (7 * 7 * 64, 7 * 7 * 72 * 4)):
    assert -52 <= staged - row["staging"] <= more + 52, (row["devices"], row["staging"], staged)
PY
# So are its buckets: of 4.3 MB of gradients, where sums cost no latency and hide behind what is computed, and where they cost seconds.
for latency in 0 1; do
    cluster "$DIR/buckets.json" "d['device'].update(kind='accelerator', flops=1e9); d['overlap'] = True; d['counts'] = [4];
d['links']['node'] = {'bandwidth': 1e9, 'latency': $latency}"
    step=("$graph_transform" models/transformer.onnx --loss cross-entropy --json)
    "${step[@]}" --batch-size 4 --shard none --simulate "$DIR/buckets.json" --links "$DIR/buckets.json"
    "${step[@]}" --batch-size 16 --devices 'cpu*4' --report --links "$DIR/buckets.json" >"$DIR/buckets.$latency.report"
done >"$DIR/buckets.out"
check "buckets of a run with these links" "$python" - "$DIR/buckets.out" "$DIR"/buckets.{0,1}.report <<'PY'
import json, re, sys
rows = [json.loads(t)["rows"][0]["collectives"] for t in re.split(r"(?<=\]})\n", open(sys.argv[1]).read()) if t.strip()]
runs = [json.load(open(f)) for f in sys.argv[2:]]
sums = [sum(c["kind"] == "all-reduce" for c in r["collectives"]) for r in runs]
assert rows == sums and rows[0] > rows[1] >= 1, (rows, sums)
PY
# The seconds of a report, by hand: of products alone, of bytes alone, of latencies alone; and those of a step are the simulation's.
cluster "$DIR/flops.json" 'd["device"].update(flops=1e6, memory_bandwidth=1e18); d["counts"] = [1]'
cluster "$DIR/bytes.json" 'd["device"].update(flops=1e20, memory_bandwidth=1e6); d["counts"] = [1]'
cluster "$DIR/latency.json" 'd["links"]["node"] = {"bandwidth": 1e18, "latency": 0.25}; d["device"].update(flops=1e20, memory_bandwidth=1e18)'
cluster "$DIR/both.json" 'd["counts"] = [3]; d["scaling"] = "strong"'
step=("$graph_transform" models/fashion_cnn.onnx --loss cross-entropy --optimizer adam --batch-size 9 --json)
for how in flops bytes; do "${step[@]}" --report --links "$DIR/$how.json" >"$DIR/$how.out"; done
"${step[@]}" --report --devices 'cpu*2' --links "$DIR/latency.json" >"$DIR/latency.out"
"${step[@]}" --report --devices 'cpu*3' --links "$DIR/both.json" >"$DIR/both.out"
"${step[@]}" --shard none --links "$DIR/both.json" --simulate "$DIR/both.json" >"$DIR/rows.out"
check "seconds of a report" "$python" - "$DIR" <<'PY'
import json, sys
flops, moved, latency, both, rows = (json.load(open(f"{sys.argv[1]}/{n}.out")) for n in ("flops", "bytes", "latency", "both", "rows"))
near = lambda a, b: abs(a - b) <= 1e-9 * abs(b)
for report, key in ((flops, "flops"), (moved, "bytes")):
    assert len(report["phases"]) == 4 and all(near(p["seconds"], p[key] / 1e6) for p in report["phases"]), report["phases"]
    assert near(report["time"]["seconds"], sum(p["seconds"] for p in report["phases"])), report["time"]
    assert near(report["time"]["compute_seconds"], report["time"]["seconds"]) and report["time"]["collective_seconds"] == 0
took = {"scatter": 0, "broadcast": 0, "all-gather": 0.25, "all-reduce": 0.25}       # a message; the sums are small
assert {c["kind"] for c in latency["collectives"]} == set(took)
assert all(near(c["seconds"], took[c["kind"]]) for c in latency["collectives"]), latency["collectives"]
for p in latency["phases"]:
    assert near(p["collective_seconds"], sum(took[c["kind"]] for c in latency["collectives"] if c["phase"] == p["phase"])), p
assert near(latency["time"]["seconds"], sum(took[c["kind"]] for c in latency["collectives"]))
row = rows["rows"][0]
assert row["devices"] == 3 and near(both["time"]["seconds"], row["seconds"]), (both["time"], row)
assert near(both["time"]["compute_seconds"], row["compute_seconds"]) and near(both["time"]["collective_seconds"], row["wire_seconds"])
PY
says "time of a step on the devices described: " "${step[@]/--json/--report}" --links "$DIR/bytes.json"
says "what they take: --links auto measures" "${step[@]/--json/--report}"
says "ms, of which the busiest device computes" "${step[@]/--json/--report}" --links auto

# Beside nothing, their first half beside what is computed, or all: the second half is never hidden.
for how in False '"sums"' True; do
    cluster "$DIR/overlap.json" "d['device']['kind'] = 'accelerator'; d['algorithm'] = 'ring'; d['overlap'] = $how; d['counts'] = [8]"
    "$graph_transform" models/resnet20.onnx --loss mse --batch-size 8 --shard none --bn local --simulate "$DIR/overlap.json" --json
done >"$DIR/overlap.out"
check "overlap" "$python" - "$DIR/overlap.out" <<'PY'
import json, re, sys
none, sums, every = (json.loads(t)["rows"][0] for t in re.split(r"(?<=\]})\n", open(sys.argv[1]).read()) if t.strip())
assert none["seconds"] > sums["seconds"] >= every["seconds"] - 1e-9, (none, sums, every)
assert abs(none["seconds"] - none["compute_seconds"] - none["wire_seconds"]) < 1e-9, none
PY
# Devices that share two cores, put on them by chance: of three the core that has most has 3 with probability 2/8, else 2, which is 9/4;
# of four 4, 3 or 2 with 2/16, 8/16 and 6/16, which is 11/4.  So short pieces take; of long ones, which the system spreads evenly, it is
# up to 4 ms for each time that they meet.  What devices slow each other by besides multiplies what is computed.
for flops in 8e10 1e6; do
    cluster "$DIR/shared.json" "d['device'].update(flops=$flops, memory_bandwidth=1e17); d['counts'] = [1, 2, 3, 4];
d['links'] = {'node': {'bandwidth': 1e17, 'latency': 0}, 'network': {'bandwidth': 1e17, 'latency': 0}}; d['node'] = {'cores': 2, 'slowdown': 1.25}"
    "$graph_transform" models/mlp.onnx --loss mse --batch-size 10 --shard none --simulate "$DIR/shared.json" --json
done >"$DIR/shared.out"
check "devices that share cores" "$python" - "$DIR/shared.out" <<'PY'
import json, re, sys
short, long = ([row for row in json.loads(t)["rows"]] for t in re.split(r"(?<=\]})\n", open(sys.argv[1]).read()) if t.strip())
for row, ratio in zip(short, (1, 1.25, 1.25 * 9 / 4, 1.25 * 11 / 4)):
    assert abs(row["seconds"] / short[0]["seconds"] - ratio) < 1e-3, (row, short[0])
for row, ratio in zip(long, (1, 1.25, 1.875, 2.5)):
    more = row["seconds"] - ratio * long[0]["seconds"]
    assert -1e-6 < more < 0.004 * (row["collectives"] + 1) + 1e-6 and (more > 0.002) == (row["devices"] > 2), (row, long[0])
PY
# Where n devices meet, all wait for the latest of them: 1 + 1/2 + ... + 1/n of the mean.  What is between steps is no node's.
for more in 'jitter=0' 'jitter=0.01' 'between_steps=0.5'; do
    cluster "$DIR/late.json" "d['device'].update($more); d['counts'] = [1, 2, 4]"
    "$graph_transform" models/mlp.onnx --loss mse --batch-size 10 --shard none --simulate "$DIR/late.json" --json
done >"$DIR/late.out"
check "devices that are late, time between steps" "$python" - "$DIR/late.out" <<'PY'
import json, re, sys
none, late, between = (json.loads(t)["rows"] for t in re.split(r"(?<=\]})\n", open(sys.argv[1]).read()) if t.strip())
for a, b, c, harmonic in zip(none, late, between, (0, 1.5, 25 / 12)):
    assert a["collectives"] > (0 if harmonic else -1) and abs(b["seconds"] - a["seconds"] - a["collectives"] * 0.01 * harmonic) < 1e-9, (a, b)
    assert abs(c["seconds"] - a["seconds"] - 0.5) < 1e-9, (a, c)
PY
says "2 nodes of 4, shares, collectives in place" "$graph_transform" models/mlp.onnx --loss mse --batch-size 10 --simulate \
    <(cluster /dev/stdout 'd["nodes"] = 2; d["counts"] = [8]; d["name"] = "two"')
cluster "$DIR/small.json" 'd["device"]["memory"] = 1000'
says "!: more than a device has" "$graph_transform" models/mlp.onnx --loss mse --batch-size 10 --simulate "$DIR/small.json"

check "published scaling of ResNet-50 within 15 %" "$python" bench/published.py --build "$build"

# Rates of a trace: the nodes of one device take what they took.
train=("$dpexec" models/mlp.onnx --data tests/oracle/data/digits.npz --loss cross-entropy --threads 1 --drop-last --steps 20)
cluster "$DIR/one.json" 'd["nodes"] = d["devices_per_node"] = 1; d["counts"] = [1]; d["device"]["memory_bandwidth"] = 1e15'
check "a trace" "${train[@]}" --batch-size 32 --trace "$DIR/trace.json"
"$graph_transform" models/mlp.onnx --loss cross-entropy --batch-size 32 --simulate "$DIR/one.json" --rates "$DIR/trace.json" --json \
    >"$DIR/rates.out"
check "rates of a trace" "$python" - "$DIR/rates.out" "$DIR/trace.json" <<'PY'
import json, statistics, sys
row, = json.load(open(sys.argv[1]))["rows"]
calls, took, events = {}, 0, json.load(open(sys.argv[2]))["traceEvents"]
for e in events:
    calls.setdefault(e["cat"], []).append(e["dur"] * 1e-6)
for durations in calls.values():
    n = len(durations) // 20
    took += statistics.median(sum(durations[i:i + n]) for i in range(0, 20 * n, n))
nodes = len(events) // 20
took += statistics.median(b["ts"] - a["ts"] - a["dur"] for a, b in zip(events[nodes - 1::nodes], events[nodes::nodes])) * 1e-6
assert abs(row["seconds"] / took - 1) < 0.02, (row["seconds"], took)
PY
refused 2 "is it of this batch size?" "$graph_transform" models/mlp.onnx --loss cross-entropy --batch-size 16 --simulate "$DIR/one.json" \
    --rates "$DIR/trace.json"
refused 2 "'traceEvents'" "$graph_transform" models/mlp.onnx --loss cross-entropy --batch-size 16 --simulate "$DIR/one.json" \
    --rates "$DIR/weak.json"

# wrong EXPRESSION TEXT: the description is refused with TEXT.
wrong() {
    cluster "$DIR/wrong.json" "$1"
    refused 2 "$2" "$graph_transform" models/mlp.onnx --loss mse --batch-size 10 --simulate "$DIR/wrong.json"
    grep -q "wrong.json" "$DIR/refused.err" || fail "the file is not named: $1"
}
wrong 'del d["device"]' "'device': expected an object, found nothing"
wrong 'd["device"]["flops"] = "fast"' "'device.flops': expected a number from 1 to 1e+20, found \"fast\""
wrong 'd["device"]["flop"] = 1' "'device.flop' is no known key"
wrong 'del d["links"]["network"]["latency"]' "'links.network.latency': expected a number from 0 to 1000, found nothing"
wrong 'd["nodes"] = 10001' "'nodes': expected a whole number from 1 to 10000, found 10001"
wrong 'd["nodes"] = 2501' "'nodes' times 'devices_per_node': expected at most 10000, found 10004"
wrong 'd["algorithm"] = "star"' "'algorithm': expected \"shares\", \"ring\" or \"hierarchical\", found \"star\""
wrong 'd["counts"] = [65]' "'counts': expected a whole number from 1 to 64, found 65"
wrong 'd["overlap"] = 1' "'overlap': expected true, false or \"sums\", found 1"
wrong 'd["device"]["rates"] = {"Conv": 3}' "'device.rates.Conv': expected"
refused 1 "cannot be read" "$graph_transform" models/mlp.onnx --loss mse --batch-size 10 --simulate "$DIR/none.json"
refused 2 "expected --batch-size" "$graph_transform" models/mlp.onnx --loss mse --simulate "$DIR/weak.json"
refused 2 "--devices; --replicas" "$graph_transform" models/mlp.onnx --loss mse --batch-size 10 --simulate "$DIR/weak.json" --devices 'cpu*2' \
    --replicas 2
refused 2 "--expand" "$graph_transform" models/mlp.onnx --loss mse --expand
# Memory that runs out at any place is an error: kernels that are prepared for a plan generate code.  Before main() the libraries' own
# initializers may abort (oneDNN 3's do): the loader then has not said that it transfers control to the program.
check "the loader says where the program begins" grep -q 'transferring control: ' <(LD_DEBUG=files "$graph_transform" --version 2>&1)
for kb in 70000 74000 76000 78000 80000 84000 88000 92000 96000 100000 110000 120000 130000 140000; do
    (ulimit -v $kb && ulimit -c 0 && LD_DEBUG=files exec "$graph_transform" models/fashion_cnn.onnx "${adam[@]}" --batch-size 37 --simulate "$DIR/weak.json") \
        >/dev/null 2>"$DIR/said"
    status=$?
    grep -aq 'transferring control: ' "$DIR/said" && reached=yes || reached=no
    [ $reached = no ] && [ $status = 134 ] && { skip "within $kb KB" "a library aborts before the program begins"; continue; }
    check "within $kb KB: status $status" test $status = 0 -o $status = 1 -o $status = 127     # 127: its libraries are not loaded
done
refused 2 "at most 64 devices" "$graph_transform" models/mlp.onnx --loss mse --batch-size 10 --simulate "$DIR/hand.json" --expand
finish
