#!/bin/bash
# Two players that take turns, models/gan.onnx, trained by the command line as PyTorch does (tests/api/turns.py; the C API's: tests/api/turns.c).
. "$(dirname "$0")/lib.sh"

/usr/bin/python3 - "$DIR" <<'END'
import sys, numpy as np
def numbers(n, a):
    i = np.arange(n, dtype=np.float64)
    return np.sin(a * i + 0.001 * i * i)
z, image = 1.4 * numbers(13 * 16, 0.7).reshape(13, 16), numbers(13 * 64, 0.3).reshape(13, 1, 8, 8)
np.savez(sys.argv[1] + "/data.npz", z=z, image=image)
np.savez(sys.argv[1] + "/floats.npz", z=z.astype("f4"), image=image.astype("f4"))
END
set -f
settings=(models/gan.onnx --loss outputs --optimizer adam --beta1 0.5 --lr 0.01 --bn-variance unbiased --batch-size 5 --threads 1 --plain-defaults)
d='discriminator.*:loss=d_loss,lr=0.004' g='generator.*:loss=g_loss'
train=("$dpexec" train "${settings[@]}" --no-shuffle --quiet)
exact=("${train[@]}" --data "$DIR/data.npz" --dtype float64)
floats=("${train[@]}" --data "$DIR/floats.npz")

# close DIR WAY TOLERANCE: the losses of the run are PyTorch's.
close() {
    python3 - "$1" "$3" $(grep "^$2 " tests/cli/turns.txt | cut -d' ' -f2-) <<'END'
import json, sys
got = [row["loss"] for row in map(json.loads, open(sys.argv[1] + "/metrics.jsonl")) if "loss" in row]
want = list(map(float, sys.argv[3:]))
print(got, want)
sys.exit(len(got) != len(want) or not max(abs(a - b) for a, b in zip(got, want)) <= float(sys.argv[2]))
END
}

for how in "cpu:0" "cpu*2 --replicas 3"; do
    rm -rf "$DIR/run-d" "$DIR/run-g" "$DIR/run-t"
    "${exact[@]}" --steps 12 --devices $how --group "$d" --group "$g" --turns --out "$DIR/run-d" >"$DIR/log" 2>&1 || cat "$DIR/log"
    check "the discriminator first, $how" close "$DIR/run-d" discriminator_first 1e-9
    "${exact[@]}" --steps 12 --devices $how --group "$g" --group "$d" --turns --out "$DIR/run-g" >"$DIR/log" 2>&1 || cat "$DIR/log"
    check "the generator first, $how" close "$DIR/run-g" generator_first 1e-9
    "${exact[@]}" --steps 12 --devices $how --group "$g" --group "$d" --out "$DIR/run-t" >"$DIR/log" 2>&1 || cat "$DIR/log"
    check "together, $how" close "$DIR/run-t" together 1e-9
done
# Of several batches each; the last group of an epoch has one of three samples.
for how in "cpu:0" "cpu*2 --replicas 3"; do
    rm -rf "$DIR/run-d" "$DIR/run-a"
    "${exact[@]}" --steps 12 --devices $how --group "$d" --group "$g" --turns --accumulate 2 --out "$DIR/run-d" >"$DIR/log" 2>&1 || cat "$DIR/log"
    check "two batches a step, $how" close "$DIR/run-d" discriminator_first_of_two 1e-9
    "${exact[@]}" --steps 12 --devices $how --group "$g" --group "$d" --turns --accumulate 2 --accumulate-across-epochs --out "$DIR/run-a" \
        >"$DIR/log" 2>&1 || cat "$DIR/log"
    check "groups over epochs, $how" close "$DIR/run-a" generator_first_across 1e-9
done
check "across epochs, the run's last group is of one batch" "${exact[@]}" --epochs 1 --group "$g" --group "$d" --turns --accumulate 2 \
    --accumulate-across-epochs --out "$DIR/short"
check "which is a step like any other" "${exact[@]}" --epochs 1 --group "$g" --group "$d" --turns --accumulate 2 --out "$DIR/plain"
check "of the same bytes" cmp "$DIR/short/model.onnx" "$DIR/plain/model.onnx"
# Each loss the mean of what replicas make of their parts, some of which are empty.
for how in "3 all cpu:0" "4 filled cpu*2" "5 all cpu*3"; do
    read -r replicas over devices <<<"$how"
    rm -rf "$DIR/run-d"
    "${exact[@]}" --steps 12 --devices "$devices" --replicas $replicas --group "$d" --group "$g" --turns --bn local --loss-scaling mean-of-means \
        --mean-over $over --out "$DIR/run-d" >"$DIR/log" 2>&1 || cat "$DIR/log"
    check "means of means, $how" close "$DIR/run-d" by_${replicas}_$over 1e-9
done
# In float32, where weights are stored as convolutions want them.
"${floats[@]}" --steps 12 --group "$d" --group "$g" --turns --out "$DIR/floats" >"$DIR/log" 2>&1 || cat "$DIR/log"
check "float32" close "$DIR/floats" discriminator_first 2e-3
"${floats[@]}" --steps 5 --group "$d" --group "$g" --turns --out "$DIR/cut" >"$DIR/log" 2>&1 || cat "$DIR/log"
check "goes on" "${floats[@]}" --steps 12 --group "$d" --group "$g" --turns --resume "$DIR/cut"
check "goes on to the same bytes" cmp "$DIR/floats/model.onnx" "$DIR/cut/model.onnx"
refused 2 "--turns" "${floats[@]}" --steps 13 --group "$d" --group "$g" --resume "$DIR/cut"
"${floats[@]}" --steps 6 --devices 'cpu*2' --group "$d" --group "$g" --turns --out "$DIR/one" >"$DIR/log" 2>&1 || cat "$DIR/log"
check "two processes" "$dpexec" launch -n 2 -- "${floats[@]:1}" --steps 6 --group "$d" --group "$g" --turns --out "$DIR/two"
check "two processes, the same bytes" cmp "$DIR/one/model.onnx" "$DIR/two/model.onnx"
# Scales of the players' own are in checkpoints, and stop where they were; in two processes too.
scaled=("${floats[@]}" --group "$d" --group "$g" --turns --accumulate 2 --precision float16 --loss-scale dynamic:1e6:2:0.5:3)
"${scaled[@]}" --steps 12 --devices 'cpu*2' --out "$DIR/scaled" >"$DIR/log" 2>&1 || cat "$DIR/log"
check "players are skipped by themselves" python3 -c "
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1] + '/metrics.jsonl')]
scale, good = [1e6, 1e6], [0, 0]
for row in rows:
    assert row['group_scale'] == scale and row['loss_scale'] == min(scale) and row['skipped'] == any(row['group_skipped']), row
    for k, skipped in enumerate(row['group_skipped']):
        good[k] = 0 if skipped else good[k] + 1
        scale[k] *= 0.5 if skipped else 2 if good[k] == 3 else 1
        good[k] %= 3
apart = sum(a != b for a, b in (row['group_skipped'] for row in rows))
assert len(rows) == 12 and apart and any(not any(row['group_skipped']) for row in rows), (apart, rows)" "$DIR/scaled"
for steps in 1 5; do
    rm -rf "$DIR/cut"
    "${scaled[@]}" --steps $steps --devices 'cpu*2' --out "$DIR/cut" >"$DIR/log" 2>&1 || cat "$DIR/log"
    check "scaled, goes on after $steps" "${scaled[@]}" --steps 12 --devices 'cpu*2' --resume "$DIR/cut"
    check "scaled, after $steps, to the same bytes" cmp "$DIR/scaled/model.onnx" "$DIR/cut/model.onnx"
done
check "scaled, two processes" "$dpexec" launch -n 2 -- "${scaled[@]:1}" --steps 12 --out "$DIR/scaled-two"
check "scaled, two processes, the same bytes" cmp "$DIR/scaled/model.onnx" "$DIR/scaled-two/model.onnx"
check "scaled, in pieces" "${scaled[@]}" --steps 12 --devices 'cpu*2' --shard gradients --out "$DIR/pieces"
check "scaled, in pieces, the same bytes" cmp "$DIR/scaled/model.onnx" "$DIR/pieces/model.onnx"
graph=("$graph_transform" "${settings[@]}" --group "$d" --group "$g" --turns)
check "in parts" "${graph[@]}" --replicas 3 --verify
check "in pieces" "${graph[@]}" --devices 'cpu*3' --shard parameters --ema 0.9 --verify
check "its plan" grep -q "^the last of the batches of a step, and its update: " <("${floats[@]}" --group "$d" --group "$g" --turns --accumulate 2 --dry-run 2>/dev/null)
check "what the generator makes is made once" [ "$("${graph[@]}" --until take-turns | grep -c '= ConvTranspose(')" = 2 ]

# One player alone, where the other's parameters are frozen: no gradient of them is summed over devices.
frozen=(--group "$d" --freeze generator.*)
"${floats[@]}" --steps 3 --devices 'cpu*2' "${frozen[@]}" --turns --out "$DIR/alone" >"$DIR/log" 2>&1 || cat "$DIR/log"
check "the discriminator alone changes" /usr/bin/python3 - "$DIR/alone/model.onnx" <<'END'
import sys, onnx
from onnx import numpy_helper
before, after = ({t.name: numpy_helper.to_array(t) for t in onnx.load(f).graph.initializer} for f in ("models/gan.onnx", sys.argv[1]))
assert set(before) <= set(after) and sum(n.startswith("generator.") for n in before) == 12, list(before)
for name in before:
    assert (before[name].tobytes() == after[name].tobytes()) == name.startswith("generator."), name
END
reductions() {
    "$graph_transform" "${settings[@]}" --turns --devices 'cpu*2' --report --json "$@" | /usr/bin/python3 -c "
import json, sys
print(*sorted({word.split('.')[0] for c in json.load(sys.stdin)['collectives'] if c['phase'] == 'backward' for name in c['of'] for word in name.split()
               if '.' in word}))"
}
check "gradients of both are summed" test "$(reductions --group "$d" --group "$g")" = "discriminator generator"
check "the discriminator's alone are" test "$(reductions "${frozen[@]}")" = "discriminator"
refused 2 "--group 'generator.*' matches no parameter that is trained" "${floats[@]}" --steps 1 --group "$g" "${frozen[@]}" --turns

refused 2 "--turns: every parameter that is trained needs a group with a loss of its own; these have none: 'generator.fc.weight'" \
    "${floats[@]}" --steps 1 --group "$d" --turns
refused 2 "--turns needs groups with a loss of their own" "${floats[@]}" --steps 1 --turns

# A clip of all is one of each player's gradients, where a loop calls clip_grad_norm_ before each optimizer's step; also where the players' parameters
# are several groups, of which one clips by itself.
norms() { grep -o '"group_norm":[^]]*' "$1/metrics.jsonl" | cut -d[ -f2 | sed 's/,/ /g' | awk -v a="$2" -v b="$3" '{ print $a, $b }' | tr '\n' ' '; }
clip=("$dpexec" train models/gan.onnx --loss outputs --optimizer sgd --lr 0.2 --bn-variance unbiased --batch-size 5 --threads 1 --no-shuffle --quiet --plain-defaults
    --data "$DIR/data.npz" --dtype float64 --steps 12 --turns)
of_d='discriminator.*:loss=d_loss' bias='discriminator.fc.*:loss=d_loss'
# clips NAME ORDER D G FLAG...: losses and norms of the D-th and the G-th group.
clips() {
    local name=$1 order=$2 at=$3 and=$4
    shift 4
    rm -rf "$DIR/clip"
    "${clip[@]}" "$@" --out "$DIR/clip" >"$DIR/log" 2>&1 || cat "$DIR/log"
    check "clipped, $name" close "$DIR/clip" ${order}_clipped 1e-9
    check "norms, $name: $(norms "$DIR/clip" $at $and)" python3 -c "import sys
got, want = (list(map(float, a.split())) for a in sys.argv[1:])
sys.exit(len(got) != 24 or len(want) != 24 or max(abs(a - b) / b for a, b in zip(got, want)) > 1e-9)" \
        "$(norms "$DIR/clip" $at $and)" "$(grep "^${order}_norms " tests/cli/turns.txt | cut -d' ' -f2-)"
}
for how in "cpu:0" "cpu*2 --replicas 3" "cpu*3 --shard gradients"; do
    clips "$how" discriminator_first 1 2 --clip-norm 4 --devices $how --group "$of_d" --group "$g"
    clips "generator first, $how" generator_first 2 1 --clip-norm 4 --devices $how --group "$g" --group "$of_d"
done
clips "a player of two groups" discriminator_first 1 3 --clip-norm 4 --group "$bias" --group "$of_d" --group "$g"
clips "the other's by a clip of its own" discriminator_first 1 2 --clip-norm 4 --group "$of_d" --group "$g,clip-norm=4"
check "no norm of all" sh -c "! grep -q '\"grad_norm\"' $DIR/clip/metrics.jsonl"
finish
