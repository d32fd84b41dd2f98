#!/bin/bash
# --augment with mixup, cutmix and randaugment: the same bytes with any number of processes and workers, and when a run is resumed; partners
# come from the samples that are trained on; what does not go with it is named.
. "$(dirname "$0")/lib.sh"
images=$root/tests/tools/images
cd "$DIR" || exit 1
files=("$images"/rgb.jpg "$images"/rgb.png "$images"/palette.png "$images"/turned.png "$images"/large.png "$images"/sub.jpg)
for i in $(seq 0 23); do
    f=${files[$((i % 6))]}
    class=$((i % 3))
    mkdir -p train/$class
    cp "$f" "train/$class/$i.${f##*.}"
done
"$dpexec" new cnn --classes 3 --layers 1 --width 4 --size 16 -o net.onnx --quiet
net=(net.onnx --data images:train --val-split 0.25 --loss cross-entropy --batch-size 5 --lr 0.01 --threads 1 --quiet --metric accuracy --replicas 2)
change=(--augment "crop,flip,randaugment:12,erase,mixup:0.4,cutmix:1" --label-smoothing 0.1)

check "one process" "$dpexec" train "${net[@]}" "${change[@]}" --epochs 3 --out one
check "three workers" "$dpexec" train "${net[@]}" "${change[@]}" --epochs 3 --workers 3 --out workers
check "the same with three workers" same_run workers one
check "two processes" "$dpexec" launch -n 2 -- train "${net[@]}" "${change[@]}" --epochs 3 --out two
check "the same in two processes" cmp two/model.onnx one/model.onnx
check "balanced classes" "$dpexec" train "${net[@]}" "${change[@]}" --epochs 3 --balanced --class-weights balanced --out balanced
check "a part of an epoch" "$dpexec" train "${net[@]}" "${change[@]}" --steps 6 --checkpoint-every 3 --out part
check "the rest" "$dpexec" resume part --steps 12
check "the same when resumed" cmp part/model.onnx one/model.onnx
refused 2 "--augment was" "$dpexec" train "${net[@]}" "${change[@]/mixup:0.4,/}" --epochs 4 --resume part
check "without partners" "$dpexec" train "${net[@]}" --augment "crop,flip,randaugment:12,erase" --label-smoothing 0.1 --epochs 3 --out alone
check "partners change" differ alone/model.onnx one/model.onnx
# Samples of one class alone stay of that class: their labels are not mixed, whatever their partners are.
mkdir -p same/0 same/1 same/2
cp "$images/plain.png" same/0/a.png
cp "$images/plain.png" same/0/b.png
check "labels of one class" "$dpexec" train net.onnx --data images:same --loss cross-entropy --threads 1 --quiet --steps 2 --out mixed --augment mixup:1
check "plain labels" "$dpexec" train net.onnx --data images:same --loss cross-entropy --threads 1 --quiet --steps 2 --out plain
loss_of() { grep -o '"loss":[^,]*' "$1/metrics.jsonl" | cut -d: -f2 | tr '\n' ' '; }
check "equal images of one class: the loss is that of class numbers" near "$(loss_of mixed)" "$(loss_of plain)" 1e-5
# Evaluations are of class numbers: with the run's flags and without them alike.
check "evaluation by shares is that of class numbers" near "$(evaluated one --data images:train)" \
    "$(evaluated one/best.onnx --data images:train --loss cross-entropy --label-smoothing 0.1)" 1e-6
check "the report has a confusion matrix" grep -q '"confusion":\[\[' one/evaluation.json

refused 2 "'mixup': write mixup:NUMBER, above 0 and at most 100" "$dpexec" train "${net[@]}" --augment mixup
refused 2 "'randaugment:31': write randaugment:MAGNITUDE, a whole number from 1 to 30" "$dpexec" train "${net[@]}" --augment randaugment:31
refused 2 "mixup and cutmix mix classes" "$dpexec" train net.onnx --data images:train --loss mse --augment mixup:1
find train -type f | sed 's|^train/||; s|$|,0.5,2|' >numbers.csv
refused 2 "mixup and cutmix mix classes, but the targets are 2 numbers per sample" \
    "$dpexec" train net.onnx --data images:train,list=numbers.csv --loss cross-entropy --augment mixup:1
refused 2 "takes class numbers: --loss cross-entropy" "$dpexec" train net.onnx --data images:train --loss nll --augment cutmix:1
finish
