#!/bin/bash
# --input-value: an input that is a constant of the run.  That it trains the right network the cases input_value_* of tests/obeyed show,
# which are PyTorch's; here is what is stored, compared and refused.
. "$(dirname "$0")/lib.sh"
serve_python

rate=tests/obeyed/input_value_rate/model.onnx
scale=tests/obeyed/input_value_scale/model.onnx
data=(--data tests/obeyed/input_value_rate/data.npz --loss mse --threads 1)
run=$DIR/run
train=("$dpexec" train "$rate" "${data[@]}" --quiet --batch-size 6 --checkpoint-every 2)

# ---- what is stored and compared ----
check "a run" "${train[@]}" --steps 2 --input-value sr=16000 --out "$run"
says '"input-value": "sr=16000"' cat "$run/args.json"
refused 2 "--input-value was 'sr=16000', is 'sr=8000'" "${train[@]}" --steps 4 --input-value sr=8000 --resume "$run"
refused 2 "--input-value was 'sr=16000', is ''" "${train[@]}" --steps 4 --resume "$run"
refused 2 "no array for input 'sr' [] int64; --input-value sr=NUMBER gives it one number for the whole run" "${train[@]}" --steps 4 --out "$DIR/none"
check "goes on" "${train[@]}" --steps 4 --input-value sr=16000 --resume "$run"
check "as if it had not ended" "${train[@]}" --steps 4 --input-value sr=16000 --out "$DIR/once"
check "it is the same" cmp "$run/model.onnx" "$DIR/once/model.onnx"
check "on replicas" "${train[@]}" --steps 4 --input-value sr=16000 --devices 'cpu*3' --out "$DIR/three"

scaled=("$dpexec" train "$scale" "${data[@]}" --quiet --batch-size 6 --checkpoint-every 2 --input-value pair=1,2)
refused 2 "input 'weight' is float32[], which cannot hold false" "${scaled[@]}" --steps 2 --input-value weight=false --out "$DIR/refused"
refused 2 "found 'weight=2,falsehood'" "${scaled[@]}" --steps 2 --input-value weight=2,falsehood --out "$DIR/refused"
check "another model" "${scaled[@]}" --steps 2 --input-value weight=2 --out "$DIR/scaled"
refused 2 "--input-value was 'pair=1,2;weight=2', is 'pair=1,2;weight=3'" "${scaled[@]}" --steps 4 --input-value weight=3 --resume "$DIR/scaled"

# ---- eval, run, graph-transform ----
check "the state of the run in the model that it is of" test \
    "$(evaluated "$rate" "${data[@]}" --input-value sr=16000 --resume "$DIR/once")" = "$(evaluated "$DIR/once/model.onnx" "${data[@]}")"
py -c 'import sys; import numpy as np; np.save(sys.argv[1], np.ones((2, 4), np.float32)); np.save(sys.argv[2], np.array(16000))' \
    "$DIR/x.npy" "$DIR/sr.npy"
check "given" "$dpexec" run "$rate" --input "x=$DIR/x.npy" --input-value sr=16000 --quiet --out "$DIR/given"
check "fed" "$dpexec" run "$rate" --input "x=$DIR/x.npy" --input "sr=$DIR/sr.npy" --quiet --out "$DIR/fed"
check "both are the same" cmp "$DIR/given/y.npy" "$DIR/fed/y.npy"
refused 2 "--input sr: the model has no such input" "$dpexec" run "$rate" --input "x=$DIR/x.npy" --input "sr=$DIR/sr.npy" --input-value sr=16000 \
    --quiet --out "$DIR/fed"
says "trains 15 parameters in 2 tensors" "$graph_transform" "$rate" --input-value sr=16000 --parameters
says "largest relative difference" "$graph_transform" "$rate" --input-value sr=8000 --batch-size 4 --replicas 2 --loss mse --verify
check "written" "$graph_transform" "$rate" --input-value sr=16000 --batch-size 2 -o "$DIR/whole.onnx"
check "without the branch and the input" py -c 'import sys; import onnx
g = onnx.load(sys.argv[1]).graph
assert [i.name for i in g.input] == ["x"] and not [n for n in g.node if n.op_type == "If"], g.node' "$DIR/whole.onnx"
check "dry run" "$dpexec" train "$rate" --loss mse --batch-size 6 --input-value sr=16000 --dry-run

# An input that decides, and what it is trained as.
says "an input of the model: --input-value" "$graph_transform" "$scale" --input-value weight=2 --input-value pair=1,2 --parameters
refused 2 "--train 'weight' trains nothing: 'weight': an input of the model: --input-value" "${scaled[@]}" --input-value weight=2 --train weight --out "$DIR/none"
check "a default that is given" "$dpexec" run "$scale" --input "x=$DIR/x.npy" --input-value weight=2 --input-value pair=1,2 --input-value gain=3 \
    --quiet --out "$DIR/gain"
check "and one that is not" "$dpexec" run "$scale" --input "x=$DIR/x.npy" --input-value weight=2 --input-value pair=1,2 --quiet --out "$DIR/none"
check "by six" py -c 'import sys; import numpy as np
a, b = (np.load(f"{sys.argv[1]}/{n}/y.npy") for n in ("gain", "none"))
assert np.allclose(a, 6 * b, 1e-6)' "$DIR"

# ---- what is refused ----
mkdir -p "$DIR/golden/test_data_set_0"
cp "$rate" "$DIR/golden/model.onnx"
for wrong in "sr|expected NAME=NUMBER[,NUMBER...], found 'sr'" "=1|expected NAME=NUMBER" "sr=|expected NAME=NUMBER" "sr=a|expected NAME=NUMBER" \
    "sr=1,|expected NAME=NUMBER" "sr=1,,2|expected NAME=NUMBER" "sr= 1|expected NAME=NUMBER" "sr=0x10|expected NAME=NUMBER" \
    "sr=0.5|input 'sr' is int64[], which cannot hold 0.5" "sr=1,2|input 'sr' is int64[], found 2 numbers" \
    "rate=1|the model has no input 'rate' (inputs: 'x', 'sr')" "b.weight=1|the model has no input 'b.weight'"; do
    refused 2 "${wrong#*|}" "$dpexec" run "$rate" --input "x=$DIR/x.npy" --input-value "${wrong%%|*}" --quiet --out "$DIR/refused"
done
refused 2 "input 'sr' has a value already" "$dpexec" run "$rate" --input "x=$DIR/x.npy" --input-value sr=1 --input-value sr=2 --out "$DIR/refused"
"$dpexec" check "$DIR/golden" --input-value sr=1 >"$DIR/checked"
check "golden data" grep -q "golden data hold every input" "$DIR/checked"
finish
