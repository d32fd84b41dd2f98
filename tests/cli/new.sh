#!/bin/bash
# dpexec new: each network is standard ONNX with the tensors, names and values of PyTorch's module, and trains as that does in float64
# (tests/cli/new.py, which wrote tests/cli/new/torch.txt); options that do not fit are refused in one line.
. "$(dirname "$0")/lib.sh"
here=tests/cli/new
serve_python

# alike NAME: the losses of the run are PyTorch's to 1e-9; a residual network of 50 layers at 32x32 amplifies the last bits to 1e-10.
alike() {
    py -c '
import json, sys
got = [row["loss"] for row in map(json.loads, open(sys.argv[1] + "/metrics.jsonl")) if "loss" in row]
want = list(map(float, next(line.split()[2:] for line in open(sys.argv[3]) if line.split()[0] == sys.argv[2])))
worst = max(abs(g - w) / w for g, w in zip(got, want))
print(sys.argv[2], worst, got, want)
sys.exit(len(got) != 2 or len(want) != 2 or not worst <= 1e-9)' "$DIR/$1" "$1" $here/torch.txt
}

check "networks and data" py tests/cli/new.py make "$dpexec" "$DIR"
while read -r name flags; do
    check "$name: the file" py tests/cli/new.py check "$DIR/$name.onnx" "$name"
    check "$name: names and shapes of the state_dict" test "$(cat "$DIR/check.log")" = "$(expected "$name" 2)"
    # shellcheck disable=SC2086     # several flags
    check "$name: trains" "$dpexec" train "$DIR/$name.onnx" --data "$DIR/$name.npz" $flags --no-shuffle --dtype float64 --threads 1 --out "$DIR/$name"
    check "$name: as PyTorch" alike "$name"
done < <(py tests/cli/new.py list)
check "all networks" test "$(cut -d' ' -f1 $here/torch.txt | wc -l)" = 11

# ---- values follow from seed and name ----
mlp=(new mlp --inputs 4 --classes 3)
for seed in 0 1; do check "seed $seed" "$dpexec" "${mlp[@]}" --seed $seed -o "$DIR/seed$seed.onnx"; done
check "again" "$dpexec" "${mlp[@]}" -o "$DIR/again.onnx"
check "the same bytes" cmp "$DIR/again.onnx" "$DIR/seed0.onnx"
check "other values" differ "$DIR/seed1.onnx" "$DIR/seed0.onnx"

# ---- what is said ----
says "again.onnx: mlp, 17539 parameters in 6 tensors; input x [N,4], output logits [N,3]" "$dpexec" "${mlp[@]}" -o "$DIR/again.onnx"
says "train it: dpexec train $DIR/again.onnx --data FILE.csv,target=COLUMN --loss cross-entropy" "$dpexec" "${mlp[@]}" -o "$DIR/again.onnx"
check "nothing with --quiet" test -z "$("$dpexec" "${mlp[@]}" --quiet -o "$DIR/again.onnx")"
says "mobilenet" "$dpexec" new --help
check "defaults of each network" grep -q -- "--classes 1000" "$DIR/says.log"
# The network's own parameters are trained, all of them, and no number of its formulas is.
says "trains 27,748 parameters in 32 tensors" "$dpexec" train "$DIR/vit.onnx" --data "$DIR/vit.npz" --loss cross-entropy --steps 1 --threads 1

# ---- texts of unequal length: what follows the end of a text changes nothing ----
{ echo review,label; for i in 1 2 3 4; do printf 'good film %s,good\nbad,bad\n' $i; done; } >"$DIR/reviews.csv"
check "texts" "$dpexec" new lstm --vocab 256 --classes 2 --width 8 -o "$DIR/lstm.onnx"
for block in 12 40; do
    check "texts in $block" "$dpexec" train "$DIR/lstm.onnx" --data "$DIR/reviews.csv,text=review,target=label,block=$block" --lengths lengths \
        --loss cross-entropy --batch-size 4 --epochs 2 --dtype float64 --threads 1 --out "$DIR/padded$block"
done
check "as much padding as you like" near "$(losses "$DIR/padded12")" "$(losses "$DIR/padded40")"

# ---- dropout draws in training alone ----
check "dropout" "$dpexec" new gpt --vocab 20 --layers 1 --width 16 --heads 2 --block 8 --dropout 0.2 -o "$DIR/dropout.onnx"
check "trains with it" "$dpexec" train "$DIR/dropout.onnx" --data "$DIR/gpt.npz" --loss cross-entropy --steps 1 --threads 1 --out "$DIR/dropped"

# ---- a text: windows, and the texts that are written, have the block that the file states, before training and after ----
text=text:docs/internals/glossary.md,limit=8
check "gpt" "$dpexec" new gpt --layers 1 --width 16 --heads 2 --block 24 -o "$DIR/bytes.onnx"
says "(no name)        [8,24]" "$dpexec" data "$text" "$DIR/bytes.onnx"
check "trains on a text" "$dpexec" train "$DIR/bytes.onnx" --data "$text" --loss cross-entropy --steps 1 --threads 1 --out "$DIR/written"
says '"samples":8' "$dpexec" eval "$DIR/written" --data "$text"
check "writes beyond its block" "$dpexec" generate "$DIR/written" --prompt "dpexec" --tokens 30
says '"samples":8' "$dpexec" eval "$DIR/written" --data "$text,block=7"
refused 2 "block=25: the model reads at most 24 tokens" "$dpexec" train "$DIR/bytes.onnx" --data "$text,block=25" --loss cross-entropy --steps 1
refused 2 "--window 25: $DIR/written/model.onnx reads at most 24 tokens" "$dpexec" generate "$DIR/written/model.onnx" --prompt a --window 25

# ---- what is refused ----
refused 2 "new: there is no network 'alexnet': expected mlp, cnn, resnet18, resnet50, mobilenet, vit, unet, lstm, gpt" \
    "$dpexec" new alexnet -o "$DIR/no.onnx"
refused 2 "new: there is no network 'resnet15': did you mean resnet18?" "$dpexec" new resnet15 -o "$DIR/no.onnx"
refused 2 "new: -o FILE.onnx is missing" "$dpexec" new cnn
refused 2 "new: mlp: --inputs N is missing" "$dpexec" new mlp --classes 3 -o "$DIR/no.onnx"
refused 2 "new: mlp: give --classes N for classification, or --outputs N for regression" "$dpexec" new mlp --inputs 3 -o "$DIR/no.onnx"
refused 2 "for regression, not both" "$dpexec" new mlp --inputs 3 --classes 3 --outputs 1 -o "$DIR/no.onnx"
refused 2 "new: lstm: give --inputs N for sequences of numbers, or --vocab N for sequences of tokens" "$dpexec" new lstm --classes 3 -o "$DIR/no.onnx"
refused 2 "new: mlp: the network has no --heads; it takes --inputs, --classes, --outputs, --layers, --width, --dropout" \
    "$dpexec" "${mlp[@]}" --heads 3 -o "$DIR/no.onnx"
refused 2 "new: gpt: --width 128 is not divisible by --heads 3" "$dpexec" new gpt --heads 3 -o "$DIR/no.onnx"
refused 2 "new: vit: --size 224 is not divisible by --patch 15" "$dpexec" new vit --patch 15 -o "$DIR/no.onnx"
refused 2 "new: unet: --size 100 is not divisible by 16" "$dpexec" new unet --size 100 -o "$DIR/no.onnx"
refused 2 "new: cnn: --size 4 is too small for --layers 3" "$dpexec" new cnn --size 4 -o "$DIR/no.onnx"
refused 2 "--layers: expected a whole number from 1 to 1000, found '1001'" "$dpexec" "${mlp[@]}" --layers 1001 -o "$DIR/no.onnx"
refused 2 "--dropout: expected a number from 0 to 0.99, found '1'" "$dpexec" "${mlp[@]}" --dropout 1 -o "$DIR/no.onnx"
refused 2 "--seed: expected a whole number" "$dpexec" "${mlp[@]}" --seed x -o "$DIR/no.onnx"
refused 2 "new: gpt: 51606004039680 parameters take 192247.3 GiB, and the machine has" \
    "$dpexec" new gpt --width 65536 --vocab 1000000 --layers 1000 -o "$DIR/no.onnx"
refused 1 "no/such.onnx" "$dpexec" "${mlp[@]}" -o "$DIR/no/such.onnx"
check "nothing is written" test ! -e "$DIR/no.onnx"

# ---- completions: the first argument is a network ----
for words in "new m" "new mlp --la"; do
    # shellcheck disable=SC2016,SC2086     # of the inner shell; several words
    bash -c 'eval "$("$1" completion bash)"; shift; COMP_WORDS=(dpexec "$@"); COMP_CWORD=$#; _dpexec; printf "%s\n" "${COMPREPLY[@]}"' - "$dpexec" $words >"$DIR/words"
    cat "$DIR/words" >>"$DIR/completed"
done
check "completions" diff <(printf '%s\n' mlp mobilenet --layers) "$DIR/completed"
finish
