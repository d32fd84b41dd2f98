#!/bin/bash
# A checkpoint of several processes: written with little more memory than one tensor, read by each process as far as it keeps it, and
# damage found by whoever reads it, which ends all.  Needs python3-onnx.
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-/usr/bin/python3}
data=tests/oracle/data

# small: tensors of many pieces and of less than one, cut neither where rows end nor evenly; deep: twelve of 1 MiB.
check "models" "$python" - "$DIR" <<'PY'
import sys
import numpy as np, onnx
from onnx import TensorProto, helper, numpy_helper
random = np.random.default_rng(0)
def net(name, *sizes):
    nodes, weights, x = [], [], 'x'
    for i, (n, m) in enumerate(zip(sizes, sizes[1:])):
        for suffix, shape in (('weight', (m, n)), ('bias', (m,))):
            weights.append(numpy_helper.from_array((0.05 * random.standard_normal(shape)).astype(np.float32), f'{i}.{suffix}'))
        nodes.append(helper.make_node('Gemm', [x, f'{i}.weight', f'{i}.bias'], [f'h{i}'], transB=1))
        x = f'h{i}'
        if i + 2 < len(sizes):
            nodes.append(helper.make_node('Relu', [x], [f'r{i}']))
            x = f'r{i}'
    graph = helper.make_graph(nodes, name, [helper.make_tensor_value_info('x', TensorProto.FLOAT, ['N', sizes[0]])],
                              [helper.make_tensor_value_info(x, TensorProto.FLOAT, ['N', sizes[-1]])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17)], ir_version=8), f'{sys.argv[1]}/{name}.onnx')
net('small', 64, 1234, 300, 10)
net('deep', 64, *[512] * 13, 10)
PY

# state CHECKPOINT WHAT...: `data`: bytes of tensors; `names`: of the lists of what is trained and of inputs; `beside`: of the file, and of the digests;
# `damage TENSOR PART`: changes a byte of the
# tensor, PART of its length from its beginning.
cat >"$DIR/state.py" <<'PY'
import json, os, sys
folder, what = sys.argv[1:3]
with open(f'{folder}/state.safetensors', 'r+b') as f:
    begin = 8 + int.from_bytes(f.read(8), 'little')
    tensors = json.loads(f.read(begin - 8))
    if what == 'damage':
        begin, end = (begin + at for at in tensors[sys.argv[3]]['data_offsets'])
        f.seek(begin + int((end - begin) * float(sys.argv[4])))
        byte = f.read(1)
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte[0] ^ 1]))
    elif what == 'names':
        spans = [tensors[name]['data_offsets'] for name in ('dpexec.trained_names', 'dpexec.trained_inputs')]
        print(sum(end - begin for begin, end in spans))
    else:
        print(begin + os.path.getsize(f'{folder}/state.digests') if what == 'beside' else os.path.getsize(f.name) - begin)
PY
state() { "$python" "$DIR/state.py" "$@"; }

small=("$DIR/small.onnx" --data "$data/digits.npz" --loss cross-entropy --optimizer adam --batch-size 12 --replicas 12 --devices cpu --threads 1 --no-shuffle)
at=checkpoints/step-000000002

# run N ARGS...: in N processes.
run() {
    local n=$1
    shift
    if [ "$n" = 1 ]; then "$dpexec" "${small[@]}" --quiet "$@"; else "$dpexec" launch -n "$n" -- "${small[@]}" --quiet --world-timeout 60 "$@"; fi
}
number() { grep -o "\"$2\":[0-9]*" "$1/metrics.jsonl" | tail -1 | cut -d: -f2; }

# held N LEVEL: bytes of state that each of N devices holds, by the plan.
held() {
    "$graph_transform" "$DIR/small.onnx" --loss cross-entropy --optimizer adam --batch-size 12 --replicas 12 --devices "cpu*$1" --shard "$2" \
        --report --json | grep -o '"state_bytes": *[0-9]*' | grep -o '[0-9]*$'
}

# reads RUN N LEVEL: what was read is what each holds, the lists of names, the header (its length is looked at first), and the digests.  Pieces end where blocks
# do, and of tensors smaller than a block each process that has a piece has all.  A process alone reads twice: to verify, to take.
reads() {
    local beside all most names sum=0 largest=0 h times=1
    beside=$(($(state "$DIR/begun/$at" beside) + 9)) names=$(state "$DIR/begun/$at" names)
    all=$(number "$1" state_bytes) most=$(number "$1" most_state_bytes)
    [ "$2" = 1 ] && times=2
    for h in $(held "$2" "$3"); do
        h=$((h + names))
        sum=$((sum + h))
        [ "$h" -le $largest ] || largest=$h
    done
    [ $((sum / $2)) -ge $(($(state "$DIR/begun/$at" data) / $2)) ] && [ "$most" -le $((times * largest + beside)) ] &&
        [ "$all" -ge $((times * sum)) ] && [ "$all" -le $((times * sum + $2 * beside)) ] ||
        { echo "$all bytes, the most $most; held $sum, the most $largest; beside that $beside"; return 1; }
}

check "unbroken" run 1 --steps 4 --out "$DIR/unbroken"
for level in none optimizer gradients parameters; do
    check "$level: two steps" run 3 --shard $level --steps 2 --out "$DIR/begun"
    for n in 1 2 3 4; do
        cp -r "$DIR/begun" "$DIR/on"
        check "$level: goes on in $n" run $n --shard $level --steps 4 --resume "$DIR/on"
        check "$level: the bytes of a run that went on in $n" cmp "$DIR/unbroken/model.onnx" "$DIR/on/model.onnx"
        check "$level: the state of a run that went on in $n" \
            cmp "$DIR/unbroken/checkpoints/step-000000004/state.safetensors" "$DIR/on/checkpoints/step-000000004/state.safetensors"
        check "$level: $n read what they hold" reads "$DIR/on" $n $level
        rm -rf "$DIR/on"
    done
    rm -rf "$DIR/begun"
done

# An evaluation comes before the first step: it needs no moments, and they are read once all the same.
check "with an evaluation" run 3 --shard optimizer --steps 2 --val "$data/digits.npz" --eval-every 2 --out "$DIR/begun"
cp -r "$DIR/begun" "$DIR/on"
check "goes on with an evaluation" run 3 --shard optimizer --steps 3 --val "$data/digits.npz" --eval-every 2 --resume "$DIR/on"
check "the evaluation is done again" grep -q '"step":2,"eval_loss"' "$DIR/on/metrics.jsonl"
check "and reads no more" reads "$DIR/on" 3 optimizer
rm -rf "$DIR/begun" "$DIR/on"

# ---- damage ----

check "a checkpoint" run 3 --shard parameters --steps 3 --checkpoint-every 1 --keep all --out "$DIR/begun"
rm -r "$DIR/begun/checkpoints/step-000000003" "$DIR/begun/model.onnx"

# all_end NAME TEXT LEVEL [RANK]: a resume in three processes, which is refused with TEXT by RANK, and by the others with its words, whatever
# they wait for by then; without RANK by whoever is first.
all_end() {
    local name=$1 text=$2 level=$3 who=${4:-} r
    refused 1 "$text" "$dpexec" launch -n 3 -- "${small[@]}" --quiet --world-timeout 60 --shard "$level" --steps 4 --resume "$DIR/on"
    for r in 0 1 2; do
        if [ -n "$who" ] && [ "$r" != "$who" ]; then
            check "$name: rank $r tells of rank $who" grep -q "rank $r: .*rank $who of 3: $DIR/on/$at/$text" "$DIR/refused.err"
        else
            check "$name: rank $r" grep -q "rank $r: .*$DIR/on/$at/$text" "$DIR/refused.err"
        fi
    done
    rm -rf "$DIR/on"
}
for rank in 0 1 2; do
    cp -r "$DIR/begun" "$DIR/on"
    check "a slice of rank $rank" state "$DIR/on/$at" damage 0.weight.exp_avg "0.$((rank * 333 + 166))"
    all_end "a slice of rank $rank" "state.safetensors: tensor '0.weight.exp_avg' is damaged: bytes " parameters $rank
done
cp -r "$DIR/begun" "$DIR/on"
check "a tensor that all hold" state "$DIR/on/$at" damage 0.weight 0.5
all_end "a tensor that all hold" "state.safetensors: tensor '0.weight' is damaged: bytes " optimizer
cp -r "$DIR/begun" "$DIR/on"
check "a counter" state "$DIR/on/$at" damage dpexec.step 0
all_end "a counter" "state.safetensors: tensor 'dpexec.step' is damaged: bytes 0 to 7 " parameters

# What all look at first is passed over by all, and a process alone looks at everything first.
passed_over() {
    local name=$1 n=$2 text=$3
    shift 3
    cp -r "$DIR/begun" "$DIR/on"
    check "$name" "$@"
    says "a newer checkpoint is damaged and skipped: $DIR/on/$at/$text" run "$n" --shard parameters --steps 4 --resume "$DIR/on"
    check "$name: told once" test "$(grep -c 'is damaged and skipped' "$DIR/says.log")" = 1
    check "$name: the bytes of a run that goes on" cmp "$DIR/unbroken/model.onnx" "$DIR/on/model.onnx"
    rm -rf "$DIR/on"
}
passed_over "a header" 3 "state.safetensors: the header is damaged" sed -i '1s/exp_avg_sq/exp_avg_sp/' "$DIR/on/$at/state.safetensors"
passed_over "digests" 3 "state.digests: the hash is not the manifest's" \
    "$python" -c 'import sys; f = open(sys.argv[1], "r+b"); f.seek(9); f.write(b"damaged")' "$DIR/on/$at/state.digests"
passed_over "a file that became shorter" 3 "state.safetensors: " truncate -s -1 "$DIR/on/$at/state.safetensors"
passed_over "no digests" 3 "state.digests: cannot read" rm "$DIR/on/$at/state.digests"
passed_over "a slice, for a process alone" 1 "state.safetensors: tensor '0.weight.exp_avg' is damaged" \
    state "$DIR/on/$at" damage 0.weight.exp_avg 0.5

# A checkpoint of an earlier version has one digest, of all.
rm -r "$DIR/begun/checkpoints/step-000000001"
earlier() { cp -r "$DIR/begun" "$DIR/on" && rm "$DIR/on/$at/state.digests" && sed -i 's/"state.digests"/"state.nothing"/' "$DIR/on/$at/manifest.json"; }
check "as an earlier version wrote it" earlier
check "goes on from an earlier version's" run 3 --shard parameters --steps 4 --resume "$DIR/on"
check "the bytes of a run that went on from an earlier version's" cmp "$DIR/unbroken/model.onnx" "$DIR/on/model.onnx"
rm -rf "$DIR/on"
check "as an earlier version wrote it, again" earlier
check "a slice of an earlier version's" state "$DIR/on/$at" damage 0.weight.exp_avg 0.5
all_end "an earlier version's" "state.safetensors: the hash is not the manifest's" parameters

# ---- memory ----

# highest ARGS...: KiB of memory that rank 0 of two takes at most in the steps 4 to 8 of a run.
deep=("$DIR/deep.onnx" --data "$data/digits.npz" --loss cross-entropy --optimizer adam --batch-size 2 --devices cpu --threads 1 --quiet)
steps() { # until RUN has so many
    for _ in $(seq 1200); do
        [ "$(grep -c '' "$1/metrics.jsonl" 2>/dev/null)" -ge "$2" ] 2>/dev/null && return
        sleep 0.05
    done
    return 1
}
highest() {
    local pid result
    rm -rf "$DIR/deep"
    next_port
    start 0 2 "${deep[@]}" --shard parameters --steps 1000000 --out "$DIR/deep" "$@"
    start 1 2 "${deep[@]}" --shard parameters --steps 1000000 --out "$DIR/deep" "$@"
    steps "$DIR/deep" 3
    pid=$(cat "$DIR/pid-0")
    echo 5 >"/proc/$pid/clear_refs"
    steps "$DIR/deep" 8
    result=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$pid/status")
    kill -TERM "$pid"
    wait
    echo "${result:-0}"
}
without=$(highest) with=$(highest --checkpoint-every 1)
check "a checkpoint a step" test -e "$DIR/deep/checkpoints/step-000000008"
# Of 37 MiB of state, of which this process has half, the largest tensor has 1 MiB.
writes_one() { [ "$without" -gt 18000 ] && [ $((with - without)) -le 3072 ] || { echo "$without KiB without, $with with"; return 1; }; }
check "checkpoints take less than 3 MiB more" writes_one
finish
