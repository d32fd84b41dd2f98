#!/bin/bash
# Folders of images: training with random changes writes the same bytes with any number of processes and workers, from a cache, and when
# it is resumed; what is broken is named.
. "$(dirname "$0")/lib.sh"
images=tests/tools/images

# 24 images of two classes, and 6 to evaluate on, of all kinds that there are.
files=("$images"/*.jpg "$images"/*.png)
for i in $(seq 0 29); do
    f=${files[$((i % ${#files[@]}))]}
    set=train class=cat
    [ $i -lt 24 ] || set=val
    [ $((i % 2)) = 0 ] || class=dog
    mkdir -p "$DIR/$set/$class"
    cp "$f" "$DIR/$set/$class/$i.${f##*.}"
done
net=(models/resnet20.onnx --data "images:$DIR/train" --loss cross-entropy --batch-size 8 --lr 0.05 --momentum 0.9 --threads 1 --quiet
     --mean imagenet --val "images:$DIR/val" --metric accuracy --replicas 3)
change=(--augment "crop,flip,rotate:15,color:0.4,erase")

check "one process" "$dpexec" train "${net[@]}" "${change[@]}" --epochs 3 --out "$DIR/one"
check "four workers" "$dpexec" train "${net[@]}" "${change[@]}" --epochs 3 --workers 4 --out "$DIR/four"
check "the same with four workers" same_run "$DIR/four" "$DIR/one"
check "three processes" "$dpexec" launch -n 3 -- train "${net[@]}" "${change[@]}" --epochs 3 --workers 2 --out "$DIR/three"
check "the same in three processes" cmp "$DIR/three/model.onnx" "$DIR/one/model.onnx"
check "a cache" "$dpexec" train "${net[@]/%train/train,cache=disk}" "${change[@]}" --epochs 3 --out "$DIR/cached"
check "the same from a cache" cmp "$DIR/cached/model.onnx" "$DIR/one/model.onnx"
check "an epoch" "$dpexec" train "${net[@]}" "${change[@]}" --epochs 1 --out "$DIR/first"
check "two more" "$dpexec" train "${net[@]}" "${change[@]}" --epochs 3 --resume "$DIR/first"
refused 2 "--augment was 'crop,flip,rotate:15,color:0.4,erase', is ''" "$dpexec" train "${net[@]}" --epochs 3 --resume "$DIR/first"
check "the same when resumed" cmp "$DIR/first/model.onnx" "$DIR/one/model.onnx"
check "a part of an epoch" "$dpexec" launch -n 3 -- train "${net[@]}" "${change[@]}" --steps 4 --checkpoint-every 4 --out "$DIR/part"
check "the rest" "$dpexec" train "${net[@]}" "${change[@]}" --steps 9 --workers 4 --resume "$DIR/part"
check "the same when resumed within an epoch" cmp "$DIR/part/model.onnx" "$DIR/one/model.onnx"
# Killed at a random time, as often as it takes to write checkpoints of three steps, it goes on from the last one.
for delay in 0.3 0.5 0.7; do
    timeout -s KILL $delay "$dpexec" train "${net[@]}" "${change[@]}" --steps 9 --workers 2 --checkpoint-every 1 --out "$DIR/killed" --resume auto
done
check "killed, then ended" "$dpexec" train "${net[@]}" "${change[@]}" --steps 9 --checkpoint-every 1 --out "$DIR/killed" --resume auto
check "the same after kills" cmp "$DIR/killed/model.onnx" "$DIR/one/model.onnx"
check "without changes" "$dpexec" train "${net[@]}" --epochs 3 --out "$DIR/plain"
check "changes change" differ "$DIR/plain/model.onnx" "$DIR/one/model.onnx"
check "classes are kept" grep -q '"cat"' "$DIR/one/data.json"
check "eval takes all from the run" "$dpexec" eval "$DIR/one/model.onnx" --data "images:$DIR/val" --loss cross-entropy --metric accuracy

# Balanced class weights are those of training wherever the model's metadata have other facts: 12 cats and 6 dogs weigh 18 / (2 * 12) and
# 18 / (2 * 6); the network's other classes have none and weigh 1.
mkdir "$DIR/uneven" && cp -r "$DIR/train/cat" "$DIR/uneven" && mkdir "$DIR/uneven/dog"
for i in 1 3 5 7 9 11; do cp "$DIR/train/dog/$i".* "$DIR/uneven/dog"; done
check "weights" "${PYTHON:-/usr/bin/python3}" -c 'import sys, numpy; numpy.save(sys.argv[1], [0.75, 1.5] + 8 * [1])' "$DIR/weights.npy"
check "balanced weights" "$dpexec" train "${net[@]/%train/uneven}" --class-weights balanced --epochs 2 --out "$DIR/balanced"
for what in "$DIR/balanced" "$DIR/balanced --at last" "$DIR/balanced/best.onnx" "$DIR/balanced/model.onnx"; do
    for weights in balanced "$DIR/weights.npy"; do
        # shellcheck disable=SC2086
        "$dpexec" eval $what --data "images:$DIR/val" --loss cross-entropy --class-weights "$weights" --quiet
    done >"$DIR/evals"
    check "of an evaluation of $what" test "$(grep -c eval_loss "$DIR/evals") $(uniq "$DIR/evals" | grep -c '')" = "2 1"
done

refused 2 "--augment" "$dpexec" train "${net[@]}" --augment flop,rotate
refused 2 "expected crop or stretch" "$dpexec" train "${net[@]/%train/train,fit=wide}"
head -c 300 "$images/rgb.jpg" >"$DIR/train/cat/cut.jpg"     # its header cannot be read
echo hello >"$DIR/train/cat/hello.png"
refused 1 "2 of 26 images are broken" "$dpexec" train "${net[@]}"
says "2 of 26 images are broken and left out" "$dpexec" train "${net[@]}" --epochs 1 --skip-broken
rm "$DIR/train/cat/cut.jpg" "$DIR/train/cat/hello.png"
head -c 700 "$images/rgb.jpg" >"$DIR/train/cat/0.jpg"       # its pixels are cut off
says "takes its place" "$dpexec" train "${net[@]}" --epochs 1 --out "$DIR/replaced"
mkdir "$DIR/val/bird"
cp "$images/rgb.png" "$DIR/val/bird"
refused 2 "'bird'" "$dpexec" train "${net[@]}" --epochs 1
finish
