#!/bin/bash
# Operators that mix samples of the batch, gathered and in slices of all samples (--mix), against PyTorch (tests/cli/mix.py): a
# Softmax over the batch, and the loss of pairs both ways as CLIP has it.  Over any mapping of the replicas the same bytes; what is
# planned, simulated and told is what is run.
. "$(dirname "$0")/lib.sh"
here=tests/cli/mix
python=${PYTHON:-/usr/bin/python3}
export LSAN_OPTIONS=suppressions=$root/tests/member/lsan.supp:print_suppressions=0
for variable in $(compgen -e | grep -E '^(OMPI_|PMI_|PMIX_|SLURM_|HYDI_)'); do unset "$variable"; done
common=(--batch-size 11 --lr 0.5 --no-shuffle --epochs 1 --threads 1 --quiet --plain-defaults)
declare -A data=([columns]="--data $here/data.npz --loss cross-entropy" [towers]="--data $here/pairs.npz --loss output:loss --train scale")

for model in columns towers; do
    read -ra of <<<"${data[$model]}"
    for replicas in 1 2 3 5 8; do       # the last batch has 4 samples
        for mix in gather exchange auto; do
            rm -rf "$DIR/run"
            how=(--replicas $replicas --mix $mix)
            check "$model ${how[*]}" "$dpexec" $here/$model.onnx "${of[@]}" "${common[@]}" --out "$DIR/run" "${how[@]}"
            check "losses of $model ${how[*]}: $(losses "$DIR/run")" near "$(losses "$DIR/run")" "$(expected $model 3-)"
            check "evaluation of $model ${how[*]}" near \
                "$(evaluated $here/$model.onnx "${of[@]}" --batch-size 11 --threads 1 "${how[@]}")" "$(expected $model 2)"
        done
    done
    # 5 replicas on one device, on several, in processes.
    run=("$here/$model.onnx" "${of[@]}" "${common[@]}" --replicas 5 --mix exchange)
    check "$model on one device" "$dpexec" "${run[@]}" --out "$DIR/$model-1"
    for devices in 2 3 5; do
        check "$model on $devices devices" "$dpexec" "${run[@]}" --devices "cpu*$devices" --out "$DIR/$model-d$devices"
        check "$model: the bytes of $devices devices" same_run "$DIR/$model-1" "$DIR/$model-d$devices"
    done
    for n in 2 3 4; do
        check "$model in $n processes" "$dpexec" launch -n $n -- train "${run[@]}" --out "$DIR/$model-n$n"
        check "$model: the bytes of $n processes" same_run "$DIR/$model-1" "$DIR/$model-n$n"
    done
    check "$model in 2 processes of 2 devices" "$dpexec" launch -n 2 -- train "${run[@]}" --devices 'cpu*2' --out "$DIR/$model-n22"
    check "$model: the bytes of 2 processes of 2 devices" same_run "$DIR/$model-1" "$DIR/$model-n22"
    if [ -e "$build/libdpexec_openmpi.so" ]; then
        check "$model over Open MPI" timeout 120 mpirun.openmpi --allow-run-as-root --oversubscribe -n 3 "$dpexec" "${run[@]}" --out "$DIR/$model-mpi"
        check "$model: the bytes of 3 ranks of Open MPI" same_run "$DIR/$model-1" "$DIR/$model-mpi"
    else
        skip "$model over Open MPI" "its plug-in is not built"
    fi
done

# ---- what is told ----
graph=("$graph_transform" $here/columns.onnx --loss cross-entropy --batch-size 12 --devices 'cpu*4')
says "exchanged for slices along axis 1: a replica receives" "${graph[@]}" --mix exchange --report
says "all-to-all of Transpose" "$graph_transform" tests/cli/mix/towers.onnx --loss output:loss --batch-size 12 --devices 'cpu*4' --mix exchange --report
check "as JSON" "$python" -c "
import json, subprocess, sys
r = {m: json.loads(subprocess.check_output(sys.argv[1:] + ['--mix', m, '--report', '--json'])) for m in ('gather', 'exchange')}
kinds = {m: [c['kind'] for c in r[m]['collectives']] for m in r}
assert kinds['exchange'].count('all-to-all') == 2 and 'all-to-all' not in kinds['gather'], kinds
assert 'all-gather' in kinds['gather'] and 'all-gather' not in kinds['exchange'], kinds
sent = {m: [d['sent_bytes'] for d in r[m]['devices']] for m in r}
assert all(a < b for a, b in zip(sent['exchange'], sent['gather'])), sent" "${graph[@]}"
says "AllToAll" "${graph[@]}" --mix exchange
check "a picture" "${graph[@]}" --mix exchange -o "$DIR/g.svg"
check "the picture shows it" grep -q all-to-all "$DIR/g.svg"
refused 2 "--mix" "${graph[@]}" --mix some
for model in columns towers; do
    for mix in gather exchange; do
        read -ra of <<<"${data[$model]}"
        says "agrees: the partitioned graph" "$graph_transform" $here/$model.onnx "${of[@]:2}" --batch-size 11 --devices 'cpu*5' --mix $mix --verify
    done
done

# Staging as it is planned: 9 samples in parts of 3, 5 columns in slices of 2, 2 and 1.  Each packs what two others get of its part, or
# unpacks what it gets of two slices: 2 boxes of at most 6 numbers, each in 64 bytes.
staged() { "$dpexec" run $here/columns.onnx --input-shape x=9,6 --threads 1 --devices 'cpu*3' --mix "$1" --dry-run | grep -o '[0-9.]* [KM]*i*B that come from the others' | sort -u; }
check "staging of slices: $(staged exchange)" test "$(staged exchange)" = '128 B that come from the others'
check "staging of all: $(staged gather)" test "$(staged gather)" = '0 B that come from the others'

# ---- simulated: one device of each kind for all ----
"$python" - "$DIR/cluster.json" <<'PY'
import json, sys
json.dump({"device": {"flops": 8e10, "memory_bandwidth": 1.2e10, "memory": 4e9, "cores": 1}, "nodes": 16, "devices_per_node": 4,
           "links": {"node": {"bandwidth": 2e9, "latency": 2e-5}, "network": {"bandwidth": 1.25e9, "latency": 3e-5}},
           "scaling": "strong", "counts": [2, 5, 16, 50]}, open(sys.argv[1], "w"))
PY
for model in columns towers; do
    for mix in gather exchange auto; do
        read -ra of <<<"${data[$model]}"
        row=("$graph_transform" $here/$model.onnx "${of[@]:2}" --batch-size 37 --mix $mix --shard none --simulate "$DIR/cluster.json" --json)
        "${row[@]}" >"$DIR/few-$mix.json"
        "${row[@]}" --expand >"$DIR/all.json"
        check "$model $mix simulated" "$python" - "$DIR/few-$mix.json" "$DIR/all.json" <<'PY'
import json, sys
few, every = (json.load(open(f))["rows"] for f in sys.argv[1:])
assert len(few) == len(every) == 4
for a, b in zip(few, every):
    for key in a:
        limit = {"planned": 9, "shard": 0, "memory": 0.01, "arena": 0.01}.get(key, 1e-9)
        assert not limit or abs(a[key] - b[key]) <= limit * abs(b[key]), (a["devices"], key, a[key], b[key])
PY
    done
    check "$model: fewer bytes are simulated" "$python" - "$DIR/few-gather.json" "$DIR/few-exchange.json" <<'PY'
import json, sys
for a, b in zip(*(json.load(open(f))["rows"][1:] for f in sys.argv[1:])):
    assert b["bytes_in_node"] + b["bytes_of_node"] < a["bytes_in_node"] + a["bytes_of_node"], (a, b)
PY
done
finish
