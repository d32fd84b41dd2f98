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
settings=(models/gan.onnx --loss outputs --optimizer adam --beta1 0.5 --lr 0.01 --bn-variance unbiased --batch-size 5 --threads 1)
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
graph=("$graph_transform" "${settings[@]}" --group "$d" --group "$g" --turns)
check "in parts" "${graph[@]}" --replicas 3 --verify
check "in pieces" "${graph[@]}" --devices 'cpu*3' --shard parameters --ema 0.9 --verify
check "what the generator makes is made once" [ "$("${graph[@]}" --until take-turns | grep -c '= ConvTranspose(')" = 2 ]

refused 2 "--turns: every parameter that is trained needs a group with a loss of its own; without are: 'generator.fc.weight'" \
    "${floats[@]}" --steps 1 --group "$d" --turns
refused 2 "--turns is for groups with a loss of their own" "${floats[@]}" --steps 1 --turns
both=("${floats[@]}" --steps 1 --group "$d" --group "$g" --turns)
refused 2 "--turns does not go with --accumulate" "${both[@]}" --accumulate 2
refused 2 "--turns does not go with --clip-norm of all gradients: give groups clip-norm of their own" "${both[@]}" --clip-norm 1
refused 2 "--turns does not go with a dynamic loss scale" "${both[@]}" --precision float16
finish
