#!/bin/bash
# Pictures and the report of a run in a browser: no text overlaps, is cut off without a tooltip or leaves its box, whatever the names; a page
# of 10,000 nodes opens within 2 s.  tests/cli/browser.py says how that is measured.
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-/usr/bin/python3}
if ! command -v chromium >/dev/null; then
    skip "text in a browser" "there is no chromium (tools/install_packages.sh test)"
    finish
fi
measure() { "$python" tests/cli/browser.py "$1" "$DIR" "${@:2}"; }

# Names that no box has room for, and of characters whose widths differ.
"$python" - "$DIR" <<'PY'
import sys
import onnx
import numpy as np
model = onnx.load("models/fashion_cnn.onnx")
names = ["a_layer_whose_name_is_much_longer_than_anything_that_one_reads_" * 4, "W" * 200, "名前がとても長い層" * 20, "i.l." * 60 + "end", "<b>&amp;\"'" * 20]
for i, node in enumerate(model.graph.node):
    node.name = names[i % len(names)] + str(i)
onnx.save(model, f"{sys.argv[1]}/names.onnx")
r = np.random.default_rng(1)
target = r.integers(0, 10, 90)
np.savez(f"{sys.argv[1]}/data.npz", x=r.standard_normal((90, 1, 28, 28)).astype("f"), target=target)
PY
check "GPT" "$dpexec" new gpt --layers 4 -o "$DIR/gpt.onnx"
check "a deep GPT" "$dpexec" new gpt --layers 26 --width 64 -o "$DIR/deep.onnx"
check "ResNet-50" "$dpexec" new resnet50 -o "$DIR/resnet50.onnx"
check "U-Net" "$dpexec" new unet -o "$DIR/unet.onnx"
for kind in svg html; do
    check "names.$kind" "$graph_transform" "$DIR/names.onnx" --batch-size 8 --loss cross-entropy --devices 'cpu*2' -o "$DIR/names.$kind"
    check "gpt.$kind" "$graph_transform" "$DIR/gpt.onnx" --input-shape tokens=8,64 --loss cross-entropy --devices 'cpu*8' -o "$DIR/gpt.$kind"
    # two replicas on a device: a column for replicas, and one for what those of a device share
    check "columns.$kind" "$graph_transform" models/fashion_cnn.onnx --batch-size 8 --loss cross-entropy --devices 'cpu*2' --replicas 4 -o "$DIR/columns.$kind"
done
check "resnet50.svg" "$graph_transform" "$DIR/resnet50.onnx" --batch-size 9 --loss cross-entropy --devices 'cpu*4' -o "$DIR/resnet50.svg"
check "unet.svg" "$graph_transform" "$DIR/unet.onnx" --batch-size 2 --loss cross-entropy -o "$DIR/unet.svg"
check "a run" "$dpexec" train "$DIR/names.onnx" --data "$DIR/data.npz" --val "$DIR/data.npz" --loss cross-entropy --metric accuracy --metric confusion-matrix \
    --batch-size 16 --epochs 3 --threads 1 --quiet --out "$DIR/run"
cp "$DIR/run/report.html" "$DIR/report.html"
check "a network for a table" "$dpexec" new mlp --inputs 1 --outputs 2 -o "$DIR/mlp.onnx"
long='a dog with a name that is much longer than any that one reads'
printf 'height,target\n%s' "$(for i in {1..40}; do echo "1$((i * 7 % 40)),$([ $((i % 3)) = 0 ] && echo a cat || echo "$long")"; done)" >"$DIR/pets.csv"
check "a run on it" "$dpexec" train "$DIR/mlp.onnx" --data "$DIR/pets.csv" --loss cross-entropy --metric confusion-matrix --steps 3 --threads 1 --quiet \
    --out "$DIR/pets"
cp "$DIR/pets/report.html" "$DIR/report-pets.html"
check "a network for numbers" "$dpexec" new mlp --inputs 1 --outputs 1 -o "$DIR/line.onnx"
{ echo area,target; for i in {1..60}; do echo "$((i * 7 % 40)),-$((i * 7 % 40 * 31234567))"; done; } >"$DIR/prices.csv"
check "a run on them" "$dpexec" train "$DIR/line.onnx" --data "$DIR/prices.csv" --val-split 0.3 --loss mse --steps 30 --lr 1e-12 --threads 1 --quiet --out "$DIR/prices"
cp "$DIR/prices/report.html" "$DIR/report-prices.html"
"$python" - "$DIR" <<'PY'
import sys
import numpy as np
r = np.random.default_rng(2)
np.savez(f"{sys.argv[1]}/masks.npz", image=r.random((12, 3, 16, 16)).astype("f"), target=(r.random((12, 16, 16)) * 3).astype("i8"))
open(f"{sys.argv[1]}/book.txt", "w").write("".join(r.choice(list("abcd efgh\n"), 3000)))
PY
check "a network for masks" "$dpexec" new unet --classes 3 --layers 1 --width 4 --size 16 -o "$DIR/masks.onnx"
check "a run on them" "$dpexec" train "$DIR/masks.onnx" --data "$DIR/masks.npz" --val "$DIR/masks.npz" --loss cross-entropy --steps 3 --threads 1 --quiet --out "$DIR/masks"
cp "$DIR/masks/report.html" "$DIR/report-masks.html"
check "a network for text" "$dpexec" new gpt --layers 1 --width 16 --heads 2 --block 32 -o "$DIR/writer.onnx"
check "a run on text" "$dpexec" train "$DIR/writer.onnx" --data "text:$DIR/book.txt" --val-split 0.2,last --loss cross-entropy --batch-size 1 --steps 90 --eval-every 30 --eval-batches 4 \
    --sample-every 30 --threads 1 --quiet --out "$DIR/texts"
cp "$DIR/texts/report.html" "$DIR/report-texts.html"
check "text" measure text "$DIR"/{names,resnet50,unet,columns}.svg "$DIR"/{names,gpt,columns,report,report-pets,report-prices,report-masks,report-texts}.html
check "names of classes" measure classes "$DIR/pets/report.html" 'a cat' "$long"
last=$(grep eval_loss "$DIR/run/metrics.jsonl" | tail -1 | grep -o '"step":[0-9]*' | cut -d: -f2)
check "the step of a confusion matrix" measure headings "$DIR/run/report.html" "Confusion matrix, step $last"
check "clicks and keys" measure hands "$DIR/gpt.html"
check "faults are found" measure fault "$DIR/gpt.html"
check "10,000 nodes" "$graph_transform" "$DIR/deep.onnx" --input-shape tokens=16,16 --loss cross-entropy --devices 'cpu*9' -o "$DIR/deep.html"
check "open within 2 s" measure opening "$DIR/deep.html"
finish
