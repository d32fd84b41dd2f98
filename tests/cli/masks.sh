#!/bin/bash
# Segmentation masks: training with random changes writes the same bytes with any number of processes and workers, and when it is resumed;
# mean IoU and class weights are NumPy's, and so are predicted masks; what does not fit is named.  Needs python3-numpy.
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-/usr/bin/python3}
cd "$DIR" || exit 1
# 12 images and masks of 36 x 40 pixels in two folders, 6 of 32 x 32 to evaluate on; some pixels are ignored.
"$python" - "$root/docs/tutorial/segmentation.py" <<'PY'
import pathlib, sys
exec(pathlib.Path(sys.argv[1]).read_text().removesuffix("main()\n"))
rng = np.random.default_rng(3)
for images, masks, n, height, width in ("train", "train_masks", 12, 36, 40), ("val", "val_masks", 6, 32, 32):
    for i in range(n):
        image, mask = (a[:height, :width] for a in draw(rng))
        mask = mask.copy()
        mask[:3, 5:9] = 255
        for folder, data in (images, png(image)), (masks, png(mask, COLOURS * 64)):
            path = pathlib.Path(folder, "ab"[i % 2], f"{i}.png")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
pathlib.Path("classes.txt").write_text("\n".join(CLASSES) + "\n")
PY
"$dpexec" new unet --classes 4 --layers 1 --width 4 --size 32 -o net.onnx --quiet
set_of() { echo "images:$1,masks=$1_masks,classes=classes.txt"; }
net=(net.onnx --data "$(set_of train)" --val "$(set_of val)" --loss cross-entropy --ignore-index 255 --metric mean-iou --batch-size 4
     --optimizer adam --lr 0.01 --threads 1 --quiet --replicas 2 --augment crop,flip,rotate:15,color:0.4 --class-weights balanced)

check "one process" "$dpexec" train "${net[@]}" --epochs 2 --out one
check "three workers" "$dpexec" train "${net[@]}" --epochs 2 --workers 3 --out workers
check "the same with three workers" same_run workers one
check "two processes" "$dpexec" launch -n 2 -- train "${net[@]}" --epochs 2 --out two
check "the same in two processes" cmp two/model.onnx one/model.onnx
check "an epoch and a batch" "$dpexec" train "${net[@]}" --steps 4 --checkpoint-every 2 --out part
check "the rest" "$dpexec" resume part --steps 6
check "the same when resumed" cmp part/model.onnx one/model.onnx
check "predicted masks" "$dpexec" run one images:val -o masks/ --quiet
check "predicted scores" "$dpexec" eval one/best.onnx --data "$(set_of val)" --loss cross-entropy --ignore-index 255 --metric mean-iou --predictions scores
cp check.log eval.json
cat >compare.py <<'PY'
import json, pathlib, re, struct, zlib
import numpy as np
def numbers(path):
    data = pathlib.Path(path).read_bytes()
    width, height = struct.unpack(">2I", data[16:24])
    packed, at = b"", 8
    while at < len(data):
        n, kind = struct.unpack(">I4s", data[at:at + 8])
        packed += data[at + 8:at + 8 + n] if kind == b"IDAT" else b""
        at += n + 12
    lines = np.frombuffer(zlib.decompress(packed), "u1").reshape(height, 1 + width)
    assert not lines[:, 0].any()        # no filter
    return lines[:, 1:]
names = sorted(str(p.relative_to("val")) for p in pathlib.Path("val").glob("*/*.png"))
true = np.stack([numbers(f"val_masks/{n}") for n in names])
taken = np.stack([numbers(f"masks/{n}") for n in names])
scores = np.load(next(pathlib.Path("scores").glob("*.npy")))
assert (scores.argmax(1) == taken).all()
counts = true != 255
iou = []
for c in range(4):
    is_c, taken_c = (true == c) & counts, (taken == c) & counts
    if (is_c | taken_c).any():
        iou.append((is_c & taken_c).sum() / (is_c | taken_c).sum())
found = float(re.search(r'"eval_mean-iou":([0-9.]+)', pathlib.Path("eval.json").read_text())[1])
assert abs(found - np.mean(iou)) < 1e-6, (found, iou)
PY
check "mean IoU and predicted masks" "$python" compare.py
check "classes are kept" grep -q '"background"' one/data.json
says "pixels of class 1 (circle): " "$dpexec" data "$(set_of val)",size=32
says "pixels of class 255 (mostly ignored): 72, 1.17 %" "$dpexec" data "$(set_of val)",size=32
refused 1 "train_masks/a/0.png: the pixel in row 0, column 5 is 255, which is no class: expected 0 to 3; --ignore-index 255 leaves such" \
    "$dpexec" train net.onnx --data "$(set_of train)" --loss cross-entropy --quiet --no-shuffle --threads 1
printf 'one\ntwo\n' >two.txt
says "row 0: val_masks/a/0.png: the pixel in row" "$dpexec" data images:val,masks=val_masks,classes=two.txt,size=32
refused 2 "values has 2 numbers, but there are 4 classes" "$dpexec" train net.onnx --data "$(set_of val)",values=0+1 --loss cross-entropy
printf '%s\n' a b c d e >five.txt
refused 2 "has 5 classes of pixels, but output 'logits' of the model has scores for 4" "$dpexec" train net.onnx \
    --data images:val,masks=val_masks,classes=five.txt --loss cross-entropy
cp train_masks/a/0.png val_masks/a/0.png
rm val_masks/b/1.png
refused 1 "2 of 6 images are broken" "$dpexec" data "$(set_of val)",size=32
refused 1 "val_masks/a/0.png has 40 x 36 pixels, but its image val/a/0.png has 32 x 32" "$dpexec" data "$(set_of val)",size=32
says "2 of 6 images are broken and left out" "$dpexec" data "$(set_of val)",size=32 --skip-broken
finish
