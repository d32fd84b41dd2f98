#!/bin/bash
# What is trained: found in files of exporters as named_parameters() says (tests/cli/parameters/make.py), overruled, listed, kept.
. "$(dirname "$0")/lib.sh"

files=tests/cli/parameters
digits=tests/oracle/data/digits.npz
trained() { grep '"trained": true' | sed 's/.*"name": "\([^"]*\)".*/\1/' | LC_ALL=C sort; }

for model in "$files"/*.onnx; do
    "$graph_transform" "$model" --parameters --json 2>&1 | trained >"$DIR/found.txt"
    LC_ALL=C sort "${model%.onnx}.txt" >"$DIR/expected.txt"
    check "$model: what named_parameters() says" diff "$DIR/expected.txt" "$DIR/found.txt"
done

# Overruled: patterns, and a list that decides alone.
"$graph_transform" "$files/tokens.legacy.onnx" --parameters --json --freeze '*' --train 'fc.*' --train bank --freeze fc.bias | trained \
    >"$DIR/found.txt"
check "the longer pattern decides" diff <(printf 'bank\nfc.weight\n') "$DIR/found.txt"
printf '# the head\nout.weight\n' >"$DIR/head.txt"
"$graph_transform" "$files/tokens.legacy.onnx" --parameters "--parameters=$DIR/head.txt" --json | trained >"$DIR/found.txt"
check "a list decides alone" diff <(echo out.weight) "$DIR/found.txt"
echo nowhere.weight >"$DIR/wrong.txt"
refused 2 "'nowhere.weight'" "$graph_transform" "$files/tokens.legacy.onnx" --parameters "--parameters=$DIR/wrong.txt"
seq -f 'lost%g.weight' 40 >"$DIR/wrong.txt"
refused 2 "'lost16.weight'; and 24 more" "$graph_transform" "$files/tokens.legacy.onnx" --parameters "--parameters=$DIR/wrong.txt"
refused 2 "--train 'nothing*' matches no tensor" "$graph_transform" "$files/tokens.legacy.onnx" --parameters --train 'nothing*'
refused 2 "does not go with: --verify" "$graph_transform" "$files/tokens.legacy.onnx" --parameters --verify
refused 2 "cannot read" "$dpexec" train models/mlp.onnx --data x.npz --loss mse --parameters "$DIR/absent.txt"

# A run says it, a run that goes on is given the same list, and what it exports is trained on with the same parameters.
names=$("$graph_transform" models/mlp.onnx --parameters --json | trained)
echo "$names" | head -n 2 >"$DIR/two.txt"
echo "$names" | head -n 3 >"$DIR/three.txt"
train=("$dpexec" train models/mlp.onnx --data "$digits" --loss cross-entropy --batch-size 32)
"${train[@]}" --steps 2 --out "$DIR/run" --parameters "$DIR/two.txt" >"$DIR/run.log" 2>&1
check "a run says what it trains" grep -q "^trains .* numbers in 2 tensors; 4 constants are fixed" "$DIR/run.log"
refused 1 "the checkpoint is of another run" "${train[@]}" --steps 3 --resume "$DIR/run" --parameters "$DIR/three.txt"
head -n 1 "$DIR/two.txt" >"$DIR/one.txt"
refused 2 "parameters of digest" "${train[@]}" --steps 3 --resume "$DIR/run" --parameters "$DIR/one.txt"
cp "$DIR/two.txt" "$DIR/same.txt"
check "the same list elsewhere" "${train[@]}" --steps 3 --resume "$DIR/run" --parameters "$DIR/same.txt"
"$graph_transform" "$DIR/run/model.onnx" --parameters --json | trained >"$DIR/found.txt"
check "the export remembers" diff "$DIR/two.txt" "$DIR/found.txt"
says "4 constants are fixed, all as in the run that wrote this file; --train '*' trains all" \
    "$graph_transform" "$DIR/run/model.onnx" --parameters
check "and can be overruled" "$graph_transform" "$DIR/run/model.onnx" --parameters --train '*'

finish
