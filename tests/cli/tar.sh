#!/bin/bash
# tar shards of WebDataset: training writes the bytes that the same images in a folder give, in processes, with workers and resumed; forms
# of names, labels and arrays; what is broken is named.  Needs python3-numpy, and dpexec with libarchive.
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-/usr/bin/python3}

check "files" "$python" tests/cli/tar.py "$DIR" tests/tools/images/*.jpg tests/tools/images/*.png
if "$dpexec" data "$DIR/empty.tar" 2>&1 | grep -q "built without libarchive"; then
    skip "tar shards" "dpexec was built without libarchive"
    finish
fi

how=(--loss cross-entropy --batch-size 8 --lr 0.05 --momentum 0.9 --threads 1 --quiet --mean imagenet --val-split 0.2 --metric accuracy
     --augment "crop,flip,color:0.4")
# train OUT SOURCE [FLAG...]
train() { "$dpexec" train models/resnet20.onnx --data "$2" "${how[@]}" --out "$DIR/$1" "${@:3}"; }

shards="$DIR/train-{000..002}.tar"
check "a folder" train folder "images:$DIR/files,list=$DIR/cls.csv" --epochs 3
check "shards" train shards "$shards" --epochs 3
check "shards give the bytes of the folder" same_run "$DIR/shards" "$DIR/folder"
mkdir "$DIR/alone"
cp "$DIR"/train-*.tar "$DIR/alone"
for source in "tar:$DIR/train-*.tar" "$DIR/train-{000,001,002}.tar" "$DIR/train-0{0{0..1},02}.tar" "tar:$DIR/alone"; do
    check "$source" train form "$source" --epochs 3
    check "$source: the same" same_run "$DIR/form" "$DIR/folder"
    rm -r "$DIR/form"
done
check "two processes, workers" "$dpexec" launch -n 2 -- train models/resnet20.onnx --data "$shards" "${how[@]}" --replicas 2 --epochs 3 --workers 2 --out "$DIR/two"
check "two replicas of the folder" train replicas "images:$DIR/files,list=$DIR/cls.csv" --epochs 3 --replicas 2
check "the same in two processes" cmp "$DIR/two/model.onnx" "$DIR/replicas/model.onnx"
check "a part" train part "$shards" --steps 4 --checkpoint-every 4
check "the rest" "$dpexec" resume "$DIR/part" --steps 9
check "the same when resumed" cmp "$DIR/part/model.onnx" "$DIR/folder/model.onnx"
check "a cache" train cached "$shards,cache=ram" --epochs 3
check "the same from a cache" cmp "$DIR/cached/model.onnx" "$DIR/folder/model.onnx"

# Labels: names of classes, fields of JSON, several numbers.
check "names of a folder" train names "images:$DIR/files,list=$DIR/txt.csv" --epochs 1
for key in txt json.label; do
    check "$key" train "by_$key" "$shards,target=$key" --epochs 1
    check "$key: the same" diff <(untimed "$DIR/by_$key") <(untimed "$DIR/names")
    check "$key: names are kept" grep -q '"cat"' "$DIR/by_$key/data.json"
done
check "eval takes the target from the run" "$dpexec" eval "$DIR/by_json.label" --data "$DIR/ten.tar"
says "2 classes: 0 (cat): 7, 1 (dog): 3" "$dpexec" data "$DIR/ten.tar,size=8,target=json.n,classes=$DIR/names.txt"
refused 2 "class 1, but only 1 classes have names" "$dpexec" data "$DIR/ten.tar,size=8,classes=$DIR/one.txt"
says "target           [30,2]" "$dpexec" data "$shards,size=8,target=json.box.xy"

# Forms of names.
"$dpexec" data "$DIR/ten.tar,size=8" | sed 1d >"$DIR/ten.txt"
for form in gnu pax; do
    check "$form" diff <("$dpexec" data "$DIR/$form.tar,size=8" | sed 1d) "$DIR/ten.txt"
done

# Predictions name shard and member; the preprocessing is exported as for a folder.
check "run" "$dpexec" run "$DIR/shards/model.onnx" "$shards" -o "$DIR/rows.csv"
check "run: files" grep -q '^train-001.tar/000012\.[a-z]*,' "$DIR/rows.csv"
check "run of a folder" "$dpexec" run "$DIR/folder/model.onnx" "images:$DIR/files,list=$DIR/cls.csv" -o "$DIR/folder.csv"
check "run: the same numbers" diff <(cut -d, -f2- "$DIR/rows.csv") <(cut -d, -f2- "$DIR/folder.csv")
for run in folder shards; do check "export of $run" "$dpexec" export "$DIR/$run" --export-preprocess -o "$DIR/$run.onnx"; done
check "the same file for images" cmp "$DIR/shards.onnx" "$DIR/folder.onnx"
check "thumbnails" test "$(grep -o 'data:image/png' "$DIR/shards/report.html" | wc -l)" = "$(grep -o 'data:image/png' "$DIR/folder/report.html" | wc -l)"
check "the report names members" grep -q "train-00[0-2].tar/0000" "$DIR/shards/report.html"

# Arrays.
digits=(--loss cross-entropy --batch-size 10 --steps 6 --threads 1 --quiet)
check "arrays" "$dpexec" train models/mlp.onnx --data "$DIR/arrays.tar" "${digits[@]}" --out "$DIR/arrays" --target target
check "npz" "$dpexec" train models/mlp.onnx --data tests/oracle/data/digits.npz "${digits[@]}" --out "$DIR/npz"
check "arrays give the bytes of the .npz" same_run "$DIR/arrays" "$DIR/npz"

check "arrays in .npz members" "$dpexec" train models/mlp.onnx --data "$DIR/npz.tar" "${digits[@]}" --out "$DIR/npz_tar"
check "give the bytes of the .npz" same_run "$DIR/npz_tar" "$DIR/npz"
check "with other names" "$dpexec" train models/mlp.onnx --data "$DIR/npz_named.tar" --target y --map x=pixels "${digits[@]}" --workers 2 --out "$DIR/npz_named"
check "give them, too" diff <(untimed "$DIR/npz_named") <(untimed "$DIR/npz")

# Masks: the bytes of training on the same files in folders.
"$dpexec" new unet --classes 4 --layers 1 --width 4 --size 32 -o "$DIR/net.onnx" --quiet
masks=(--loss cross-entropy --ignore-index 255 --metric mean-iou --batch-size 4 --optimizer adam --lr 0.01 --threads 1 --quiet --val-split 0.25
       --augment crop,flip,rotate:15)
# segment OUT SOURCE [FLAG...]
segment() { "$dpexec" train "$DIR/net.onnx" --data "$2,classes=$DIR/pixels.txt" "${masks[@]}" --epochs 2 --out "$DIR/$1" "${@:3}"; }
check "masks in a folder" segment masks_folder "images:$DIR/photos,masks=$DIR/masks"
for source in "seg.tar,masks=seg.png" "seg.tar,masks=Seg.PNG" "pair.tar,masks=png" "pair.tar,masks=png,image=JPG"; do
    check "$source" segment masks_tar "$DIR/$source"
    check "$source: the numbers of the folder" diff <(untimed "$DIR/masks_tar") <(untimed "$DIR/masks_folder")
    check "$source: eval takes the key from the run" "$dpexec" eval "$DIR/masks_tar" --data "$DIR/${source%%,*}"
    check "$source: and so do predictions" "$dpexec" run "$DIR/masks_tar" "$DIR/${source%%,*}" -o "$DIR/predicted/" --quiet
    rm -r "$DIR/masks_tar" "$DIR/predicted"
done
check "values of masks" segment values_folder "images:$DIR/photos,masks=$DIR/values,values=0+64+128+192"
check "in shards" segment values_tar "$DIR/values.tar,masks=png,values=0+64+128+192"
check "values: the numbers of the folder" diff <(untimed "$DIR/values_tar") <(untimed "$DIR/values_folder")
check "two processes" "$dpexec" launch -n 2 -- train "$DIR/net.onnx" --data "$DIR/seg.tar,masks=seg.png,classes=$DIR/pixels.txt" "${masks[@]}" --replicas 2 --workers 2 --epochs 2 --out "$DIR/masks_two"
check "two replicas" segment masks_replicas "$DIR/seg.tar,masks=seg.png" --replicas 2
check "the same in two processes" cmp "$DIR/masks_two/model.onnx" "$DIR/masks_replicas/model.onnx"

# Keys in letters of any case: WebDataset has them in small ones.
for key in CLS Txt JSON.label Json.box.xy; do
    check "$key" diff <("$dpexec" data "$DIR/ten.tar,size=8,target=$key,image=JPG" | sed 1d) <("$dpexec" data "$DIR/ten.tar,size=8,target=${key,,}" | sed 1d)
done

# What is broken.
refused_data() { refused "$1" "$2" "$dpexec" data "$DIR/$3"; }
refused_data 1 "lacks.tar/000001: has no 'cls'" "lacks.tar,size=8"
says "1 of 2 samples are broken and left out" "$dpexec" data "$DIR/lacks.tar,size=8" --skip-broken
refused_data 1 "twice.tar: member '000000.cls' is there twice" "twice.tar,size=8"
refused_data 1 "apart.tar: sample '000000' is there twice; the members of a sample must follow each other" "apart.tar,size=8"
refused_data 1 "not_int.tar/000000.cls: expected a whole number, as WebDataset has it; names of classes are called txt, found 'cat'" "not_int.tar,size=8"
refused_data 1 "no_json.tar/000000.json: no JSON" "no_json.tar,size=8,target=json.label"
refused_data 1 "columns.tar/000001.json: field box.xy has 1 numbers, before it had 2" "columns.tar,size=8,target=json.box.xy"
refused_data 1 "bad_first.tar/0.json: field box.xy: expected a number, a text, or in a list numbers" "bad_first.tar,size=8,target=json.box.xy"
says "1 of 3 samples are broken and left out" "$dpexec" data "$DIR/bad_first.tar,size=8,target=json.box.xy" --skip-broken
refused_data 2 "target: give the field of the JSON object, as in target=json.label" "ten.tar,size=8,target=json"
refused_data 1 "there is no field color" "ten.tar,size=8,target=json.color"
refused_data 2 "target: members of key 'cls.gz' are packed; pack them as they are, an array as .npy" "gz.tar,size=8,target=cls.gz"
refused_data 2 "target: members of key 'npz' hold several arrays; --target and --map choose by their names" "npz.tar,target=npz"
refused_data 1 "npz_packed.tar/0.npz: array 'x' is compressed; numpy.savez stores arrays as they are" npz_packed.tar
refused_data 1 "npz_lacks.tar/1.npz: has no array 'target'" npz_lacks.tar
says "1 of 2 samples are broken and left out" "$dpexec" data "$DIR/npz_lacks.tar" --skip-broken
refused_data 1 "no_npz.tar/0.npz: not a .npz archive" no_npz.tar
refused_data 1 "npz_cut.tar/1.npz: not a .npz archive" npz_cut.tar
refused_data 2 "masks: no sample has key 'mask.png' (there are: png, seg.png)" "seg.tar,size=8,masks=mask.png"
refused_data 2 "'png' is the key of images and of masks" "pair.tar,size=8,masks=png,image=jpg+png"
refused_data 2 "target= and masks= both give targets: leave one out" "pair.tar,size=8,masks=png,target=png"
refused_data 2 "target: 'jpg' is the key of images; masks=jpg reads them as classes of pixels" "ten.tar,size=8,target=jpg"
refused_data 1 "lacks_mask.tar/2: has no 'seg.png'" "lacks_mask.tar,size=8,masks=seg.png"
refused_data 1 "no_mask.tar/1.cls: a mask is a PNG file" "no_mask.tar,size=8,masks=cls"
refused_data 2 "values= is for masks=" "ten.tar,size=8,values=0+1"
refused_data 2 "target: no sample has key 'class' (there are: jpg, cls, json, txt, vector.npy)" "ten.tar,size=8,target=class"
refused_data 2 "image: no sample has key 'webp'" "ten.tar,size=8,image=jpg+webp"
refused 2 "no sample has a label, key 'cls'" "$dpexec" train models/resnet20.onnx --data "$DIR/no_label.tar" --loss cross-entropy
refused_data 1 "two_images.tar/000000: has several images; image=KEY says which" "two_images.tar,size=8"
refused_data 1 "bad_image.tar/000001.jpg: neither a JPEG nor a PNG nor a WebP file" "bad_image.tar,size=8"
says "1 of 3 images are broken and left out" "$dpexec" data "$DIR/bad_image.tar,size=8" --skip-broken
refused_data 1 "outside.tar: member '../x.jpg' has a path outside of the archive" "outside.tar,size=8"
refused_data 1 "empty.tar: expected members named like 0001.jpg and 0001.cls, found none" "empty.tar,size=8"
says "no_end.tar has no end mark of a tar archive; it may be cut off" "$dpexec" data "$DIR/no_end.tar,size=8"
refused_data 1 "cut.tar" "cut.tar,size=8"
refused_data 1 "joined.tar: data follows the end of the archive" "joined.tar,size=8"
refused_data 1 "text.tar: no tar archive" "text.tar,size=8"
refused_data 1 "packed.tar: compressed by gzip; decompress it" "packed.tar,size=8"
refused_data 1 "link.tar: member '000001.jpg' is a link or a device" "link.tar,size=8"
refused_data 1 "huge.tar: member '000000.jpg' should have 1099511627776 bytes, and the archive ends after" "huge.tar,size=8"
refused_data 1 "sparse.tar: member '000000.jpg' is a sparse file" "sparse.tar,size=8"
refused_data 1 "shape.tar/9.x.npy: float32[5], and the first sample has float32[64]" "shape.tar"
refused_data 1 "order.tar/0.x.npy: in Fortran order" "order.tar"
refused_data 1 "no_npy.tar/0.x.npy: " "no_npy.tar"
refused 1 "train-003.tar: cannot open" "$dpexec" train models/resnet20.onnx --data "$DIR/train-{000..003}.tar" "${how[@]}"
refused 1 "none-*.tar: there are no such files" "$dpexec" train models/resnet20.onnx --data "tar:$DIR/none-*.tar" "${how[@]}"
refused 1 "files: the folder holds no shards, which are called *.tar" "$dpexec" data "tar:$DIR/files"
refused_data 2 "more than 65536 shards" "{0..99999}.tar"
finish
