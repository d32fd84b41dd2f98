#!/bin/bash
# Damaged and unfitting data: each is one clear message, exit 1 or 2, and no run.
. "$(dirname "$0")/lib.sh"
digits=tests/oracle/data/digits.npz

# bad TEXT SRC [FLAG...]: training on SRC fails, saying TEXT.
bad() {
    local text=$1 src=$2 status
    shift 2
    timeout 60 "$dpexec" models/mlp.onnx --data "$src" --loss cross-entropy --batch-size 10 --steps 2 --threads 1 --quiet --out "$DIR/out" "$@" \
        >"$DIR/bad.out" 2>"$DIR/bad.err"
    status=$?
    if [ $status != 1 ] && [ $status != 2 ]; then
        fail "exit $status, expected 1 or 2: $src"
        head -3 "$DIR/bad.err"
    elif ! grep -qF -- "$text" "$DIR/bad.err" || [ "$(grep -c '' "$DIR/bad.err")" -gt 6 ]; then
        fail "expected '$text' in a line: $src"
        head -3 "$DIR/bad.err"
    elif [ -e "$DIR/out/model.onnx" ]; then
        fail "a model was written: $src"
    else
        pass
    fi
    rm -rf "$DIR/out"
}

# npy FILE DTYPE SHAPE BYTES_FILE: a .npy file with a header of version 1.
npy() {
    local header="{'descr': '$2', 'fortran_order': ${5:-False}, 'shape': $3, }" len
    len=$(((${#header} + 1 + 10 + 63) / 64 * 64 - 10))
    {
        printf '\x93NUMPY\x01\x00'
        printf "\\x$(printf %02x $((len % 256)))\\x$(printf %02x $((len / 256)))"
        printf "%-$((len - 1))s\n" "$header"
        cat "$4"
    } >"$1"
}

# folder NAME: a folder with a good x.npy (4 samples) and target.npy.
folder() {
    mkdir -p "$DIR/$1"
    head -c 1024 /dev/zero >"$DIR/x.raw"
    printf '\x00\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0' >"$DIR/t.raw"
    npy "$DIR/$1/x.npy" '<f4' '(4, 64)' "$DIR/x.raw"
    npy "$DIR/$1/target.npy" '<i8' '(4,)' "$DIR/t.raw"
}

folder good
check "a good folder" "$dpexec" models/mlp.onnx --data "$DIR/good" --loss cross-entropy --batch-size 3 --steps 2 --threads 1

# Targets so far off (1e18) that gradients overflow float16 at every loss scale, while the loss is a number.
folder far
for _ in $(seq 40); do printf '\x6b\x0b\x5e\x5d'; done >"$DIR/far.raw"
npy "$DIR/far/target.npy" '<f4' '(4, 10)' "$DIR/far.raw"
far=("$dpexec" models/mlp.onnx --data "$DIR/far" --loss mse --batch-size 4 --steps 60 --threads 1 --precision float16 --quiet)
refused 1 "the gradients of step 41 are not finite at a loss scale of 5.96046e-08" "${far[@]}" --out "$DIR/far_out"
check "all steps were skipped" test "$(grep -c '"skipped":true' "$DIR/far_out/metrics.jsonl")" = 41

# A fixed scale that is too large for some steps or all: said once, when the first epoch is over, and with the result.
fixed=("$dpexec" models/mlp.onnx --data "$digits" --loss cross-entropy --batch-size 16 --threads 1 --precision float16 --quiet --epochs 2)
"${fixed[@]}" --loss-scale 1e12 --out "$DIR/high" >"$DIR/high.log" 2>&1
steps=$(grep -c '"skipped":true' "$DIR/high/metrics.jsonl")
check "all of them" test "$steps" = "$(grep -c '"loss":' "$DIR/high/metrics.jsonl")"
check "are told once" test "$(grep -c "warning: $((steps / 2)) of $((steps / 2)) steps skipped: gradients overflow at --loss-scale 1e12" "$DIR/high.log")" = 1
check "by one line" test "$(grep -c 'skipped: gradients overflow at' "$DIR/high.log")" = 1
check "and with the result" grep -qE "^trained $steps steps in [0-9.]+ s, loss [0-9.]+, $steps of $steps steps skipped: gradients overflowed" "$DIR/high.log"
says ", $((steps / 2)) of $((steps / 2)) steps skipped" "${fixed[@]/%2/3}" --loss-scale 1e12 --resume "$DIR/high"
"${fixed[@]}" --loss-scale 128 >"$DIR/low.log" 2>&1
check "a scale that suits is not talked of" test "$(grep -c 'skipped\|left parameters' "$DIR/low.log")" = 0

# .npz: cut at many places, bytes changed, not an archive.
size=$(stat -c %s "$digits")
for n in 0 1 10 100 1000 $((size / 2)) $((size - 100)) $((size - 1)); do
    head -c "$n" "$digits" >"$DIR/cut.npz"
    bad "cut.npz" "$DIR/cut.npz"
done
head -c 5000 /dev/urandom >"$DIR/random.npz"
bad "random.npz" "$DIR/random.npz"
cp "$digits" "$DIR/magic.npz"
sed -i 's/\x93NUMPY/\x93NUMPX/g' "$DIR/magic.npz"
bad "magic.npz" "$DIR/magic.npz"

# .npy: magic, version, header, type, shape, size.
damage() {      # damage NAME TEXT: what stdin makes of x.npy
    folder "$1"
    cat >"$DIR/$1/x.npy"
    bad "$2" "$DIR/$1"
}
good=$DIR/good/x.npy
: | damage empty x.npy
head -c 5 "$good" | damage five x.npy
head -c 60 "$good" | damage header x.npy
head -c 1000 "$good" | damage short x.npy
{ cat "$good"; echo more; } | damage long x.npy
sed '1s/NUMPY/NUMPx/' "$good" | damage magic x.npy
{ printf '\x93NUMPY\x09\x00'; tail -c +9 "$good"; } | damage version x.npy
{ printf '\x93NUMPY\x01\x00\xff\xff'; tail -c +11 "$good"; } | damage header_size x.npy
sed "s/'descr'/'dscrp'/" "$good" | damage descr x.npy
sed "s/<f4/|O8/" "$good" | damage object x.npy
sed "s/<f4/<c8/" "$good" | damage complex x.npy
sed "s/(4, 64)/(4, -6)/" "$good" | damage negative x.npy
sed "s/(4, 64)/(4, 65)/" "$good" | damage shape x.npy
sed "s/(4, 64)/(99999999, 64)/; s/ \{6\}$//" "$good" | damage huge x.npy
sed "s/(4, 64), }         /(9223372036854775807, 9223372036854775807), }/" "$good" | damage overflow x.npy
sed "s/(4, 64)/4, 64  /" "$good" | damage tuple x.npy

# Arrays that do not fit each other or the model.
folder counts; npy "$DIR/counts/target.npy" '<i8' '(3,)' <(head -c 24 "$DIR/t.raw")
bad "samples" "$DIR/counts"
folder width; npy "$DIR/width/x.npy" '<f4' '(4, 60)' <(head -c 960 "$DIR/x.raw")
bad "x" "$DIR/width"
folder nox; rm "$DIR/nox/x.npy"
bad "x" "$DIR/nox"
folder notarget; rm "$DIR/notarget/target.npy"
bad "target" "$DIR/notarget"
folder two; cp "$DIR/two/target.npy" "$DIR/two/other.npy"; mv "$DIR/two/target.npy" "$DIR/two/labels.npy"
bad "target" "$DIR/two"
folder floats; npy "$DIR/floats/target.npy" '<f4' '(4,)' <(head -c 12 "$DIR/x.raw"; printf '\0\0\x20\x40')
bad "target: the data's float32 is converted to int64, which cannot hold the value of row 3, 2.5" "$DIR/floats"
mkdir "$DIR/nothing"
bad "nothing" "$DIR/nothing"
: >"$DIR/t0.raw"
folder zero; npy "$DIR/zero/x.npy" '<f4' '(0, 64)' "$DIR/t0.raw"; npy "$DIR/zero/target.npy" '<i8' '(0,)' "$DIR/t0.raw"
bad "" "$DIR/zero"

# Labels out of range: above, below, and ignored ones beside.
for label in '\x0a\0\0\0\0\0\0\0' '\xff\xff\xff\xff\xff\xff\xff\xff' '\xff\xff\xff\xff\xff\xff\xff\x7f'; do
    folder labels
    npy "$DIR/labels/target.npy" '<i8' '(4,)' <(head -c 24 "$DIR/t.raw"; printf "$label")
    bad "label" "$DIR/labels"
done

# It is named as the file counts it, whatever the order, the replicas and the micro-batches.
check "labels" "${PYTHON:-/usr/bin/python3}" - "$DIR" <<'PY'
import sys, numpy as np
d = dict(np.load("tests/oracle/data/digits.npz"))
d["target"][37] = 12
np.savez(f"{sys.argv[1]}/labelled.npz", **d)
PY
for how in "" "--no-shuffle" "--replicas 3" "--accumulate 2" "--replicas 2 --seed 7 --accumulate 3"; do
    # shellcheck disable=SC2086
    refused 1 "--data $DIR/labelled.npz: sample 37: " "$dpexec" models/mlp.onnx --data "$DIR/labelled.npz" --loss cross-entropy --batch-size 10 \
        --epochs 1 --threads 1 $how
    check "its label" grep -q "sample 37: the label is 12, not one of 10 classes; classes count from 0 to 9\$" "$DIR/refused.err"
done
refused 1 "--val $DIR/labelled.npz: sample 37: " "$dpexec" models/mlp.onnx --data "$digits" --val "$DIR/labelled.npz" --loss cross-entropy --batch-size 10 \
    --steps 1 --eval-every 1 --threads 1
folder renamed && mv "$DIR/renamed/target.npy" "$DIR/renamed/label.npy"
refused 2 "--val $DIR/renamed: the target is array 'label', but in --data $digits it is 'target'" "$dpexec" models/mlp.onnx --data "$digits" \
    --val "$DIR/renamed" --loss cross-entropy --steps 1 --threads 1
refused 2 "--input NAME=FILE.npy is missing: the model has 'x'" "$dpexec" run models/mlp.onnx --out "$DIR/none"
refused 1 "--data $DIR/labelled.npz: sample 37: " "$dpexec" eval models/mlp.onnx --data "$DIR/labelled.npz" --loss cross-entropy --batch-size 8 --replicas 2

# Data as strangers have it: what would make it fit.
check "strangers" "${PYTHON:-/usr/bin/python3}" - "$DIR" <<'PY'
import sys, numpy as np, onnx
from onnx import helper as H, TensorProto as T, numpy_helper as N
d, r = sys.argv[1], np.random.default_rng(0)
x, labels = r.normal(size=(20, 64)).astype("f"), r.integers(0, 10, 20)
np.savez(f"{d}/text.npz", x=x, target=np.array(["cat", "dog"] * 10))
np.savez(f"{d}/hot.npz", x=x, target=np.eye(10, dtype=int)[labels])
np.savez(f"{d}/wide.npz", x=x, target=np.zeros((20, 11), "f"))
np.savez(f"{d}/one.npz", x=x[:, :3], label=x[:, :2])
np.savez(f"{d}/minus.npz", x=np.copysign(np.full_like(x, np.nan), -1), target=labels)
np.savez(f"{d}/nhwc.npz", image=r.normal(size=(20, 28, 28, 1)).astype("f"), target=labels)
np.savez(f"{d}/unnamed.npz", photos=r.normal(size=(20, 28, 28, 1)).astype("f"), target=labels)
np.savez(f"{d}/square.npz", image=r.normal(size=(20, 28, 1, 27)).astype("f"), target=labels)
np.savez(f"{d}/rows.npz", x=x[:, :4], target=labels % 3)
def model(name, nodes, x, y, **w):
    g = H.make_graph(nodes, "g", [H.make_tensor_value_info("x", T.FLOAT, x)], [H.make_tensor_value_info("y", T.FLOAT, y)],
                     [N.from_array(v.astype("f"), k) for k, v in w.items()])
    onnx.save(H.make_model(g, opset_imports=[H.make_opsetid("", 17)], ir_version=8), f"{d}/{name}.onnx")
model("alone", [H.make_node("MatMul", ["x", "w"], ["y"])], [4], [3], w=r.normal(size=(4, 3)))
model("one", [H.make_node("MatMul", ["x", "w"], ["y"])], ["N", 3], ["N", 1], w=r.normal(size=(3, 1)))
def traced(name, *x):
    g = H.make_graph([H.make_node("Reshape", ["x", "like"], ["h"]), H.make_node("MatMul", ["h", "w"], ["s"]),
                      H.make_node("ReduceMean", ["s"], ["y"], axes=[1, 2], keepdims=0)], "g",
                     [H.make_tensor_value_info("x", T.FLOAT, x)], [H.make_tensor_value_info("y", T.FLOAT, ["N", 3])],
                     [N.from_array(np.array([0, 12, 2, 2]), "like"), N.from_array(r.normal(size=(2, 3)).astype("f"), "w")])
    onnx.save(H.make_model(g, opset_imports=[H.make_opsetid("", 17)], ir_version=8), f"{d}/{name}.onnx")
traced("said_open", "N", "T", 4)
traced("fixed", "N", 12, 4)
for n in 9, 12:
    np.savez(f"{d}/long{n}.npz", x=r.normal(size=(20, n, 4)).astype("f"), target=labels % 3)
np.savez(f"{d}/ragged.npz", **{"x": r.normal(size=(260, 4)).astype("f"), "x.offsets": np.arange(21) * 13}, target=labels % 3)
model("last", [H.make_node("MatMul", ["x", "w"], ["y"])], ["N", 5, 7, 3], ["N", 5, 7, 2], w=r.normal(size=(3, 2)))
np.savez(f"{d}/nchw.npz", x=r.normal(size=(20, 3, 5, 7)).astype("f"), target=r.normal(size=(20, 5, 7, 2)).astype("f"))
PY
bad "target.npy: holds text ('<U3'), expected bool, (u)int8 to 64 or float16, 32, 64" "$DIR/text.npz"
bad "target 'target' [20,10] int64 has an axis of classes: expected class probabilities as floats, or class numbers without that axis (the argmax along it, where the target is one-hot)" "$DIR/hot.npz"
# Losses of elements: what was expected, of which flag, and what class numbers are for.
for loss in mse bce-logits huber:2 l1; do
    refused 1 "--loss ${loss%:*} compares output 'logits' [32,10] element by element: expected 'target' of that shape, found [32]; for classes' numbers give --loss cross-entropy" \
        "$dpexec" models/mlp.onnx --data "$digits" --loss $loss --threads 1
done
refused 1 "expected 'target' of that shape, found [32,11]" "$dpexec" models/mlp.onnx --data "$DIR/wide.npz" --loss mse --threads 1 --replicas 3
check "not of classes" test -z "$(grep classes "$DIR/refused.err")"
refused 1 "--loss mse compares output 'y' [8,1] element by element: expected 'label' of that shape, found [8,2]" \
    "$dpexec" eval "$DIR/one.onnx" --data "$DIR/one.npz" --loss mse --batch-size 8 --target label --threads 1
check "nor here" test -z "$(grep classes "$DIR/refused.err")"
images=("$dpexec" models/fashion_cnn.onnx --loss cross-entropy --steps 1 --threads 1)
refused 2 "input 'image' is [?,1,28,28], the data's array is [20,28,28,1]: its axes are in another order, transpose(0,3,1,2) makes it fit" \
    "${images[@]}" --data "$DIR/nhwc.npz"
refused 2 "'photos': its axes are in another order, transpose(0,3,1,2) makes it fit" "${images[@]}" --data "$DIR/unnamed.npz"
refused 2 "the data's array is [20,28,1,27]" "${images[@]}" --data "$DIR/square.npz"
check "no order makes it fit" test -z "$(grep transpose "$DIR/refused.err")"
refused 2 "transpose(0,2,3,1) makes it fit" "$dpexec" "$DIR/last.onnx" --data "$DIR/nchw.npz" --loss mse --threads 1
# Files that hold the length of their example, whether they say so or not.
for model in fixed said_open; do
    check "at that length" "$dpexec" "$DIR/$model.onnx" --data "$DIR/long12.npz" --loss cross-entropy --steps 1 --threads 1 --replicas 3
done
open='the file fixes axis 1 to 12; if the network takes other sizes, export it with that axis open, in PyTorch by optimize=False, dynamic_shapes=({0: Dim("batch"), 1: Dim("size")},)'
refused 2 "input 'x' is [?,12,4], the data's array is [20,9,4]: $open" "$dpexec" "$DIR/fixed.onnx" --data "$DIR/long9.npz" --loss cross-entropy
refused 2 "the data's array is of sequences, at most [20,13,4]: $open" "$dpexec" "$DIR/fixed.onnx" --data "$DIR/ragged.npz" --loss cross-entropy
refused 1 "axis 1 of input 'x' is open in the file and 9 here, but a node has fixed sizes that do not fit it; PyTorch's legacy exporter" \
    "$dpexec" "$DIR/said_open.onnx" --data "$DIR/long9.npz" --loss cross-entropy --threads 1
check "and by what" grep -qE 'export with the default one and dynamic_shapes: Reshape .* shape \[[0-9]+,9,4\] cannot become' "$DIR/refused.err"
refused 2 "the data's array is [20,4]: the model has no axis for the samples" "$dpexec" "$DIR/alone.onnx" --data "$DIR/rows.npz" \
    --loss cross-entropy --threads 1

# What is wrong with --val alone stops no run that trains: it is warned of once, and at the end the model is written and the status is 1.
minus=("$dpexec" models/mlp.onnx --data "$digits" --val "$DIR/minus.npz" --loss cross-entropy --threads 1)
refused 1 "dpexec: the evaluation loss of step 1 is nan: look in --val for NaN or infinite values" "${minus[@]}" --steps 1
refused 1 "dpexec: the evaluation loss of step 2 is nan" "$dpexec" launch -n 2 -- "${minus[@]:1}" --steps 2 --quiet
check "told once, by one process" test "$(grep -c 'evaluation loss' "$DIR/refused.err")" = 1
refused 1 "dpexec: the evaluation loss of step 1 is nan" "${minus[@]}" --steps 1
check "as it was measured" grep -q "^step 1: eval loss nan" "$DIR/refused.err"
refused 1 "dpexec: the evaluation loss of step 9 is nan" "${minus[@]}" --steps 9 --eval-every 2 --quiet --out "$DIR/unmeasured"
check "at the first and the last" test "$(sed -E 's/(step [0-9]+).*/\1/' "$DIR/refused.err")" = \
    $'dpexec: warning: the evaluation loss of step 2\ndpexec: the evaluation loss of step 9'
check "the model is written" test -e "$DIR/unmeasured/model.onnx"
check "null in JSON" grep -q '{"step":9,"eval_loss":null}' "$DIR/unmeasured/metrics.jsonl"
check "a good evaluation at the end is what counts" "$dpexec" models/mlp.onnx --data "$digits" --val "$digits" --loss cross-entropy --threads 1 \
    --resume "$DIR/unmeasured" --steps 9 --eval-every 2 --quiet
says "dpexec: warning: the loss is nan (null in the JSON): look for NaN or infinite values in --data" "$dpexec" eval models/mlp.onnx \
    --data "$DIR/minus.npz" --loss cross-entropy --threads 1

check "a negative label" "${PYTHON:-/usr/bin/python3}" - "$DIR" <<'PY'
import sys, numpy as np
d = dict(np.load("tests/oracle/data/digits.npz"))
d["target"][37] = -1
np.savez(f"{sys.argv[1]}/negative.npz", **d)
PY
# It is found before the first step, in samples that are held back, too.
refused 1 "sample 37: the label is -1" "$dpexec" models/mlp.onnx --data "$DIR/negative.npz" --loss cross-entropy --threads 1 --out "$DIR/none"
check "nothing has run" test ! -e "$DIR/none"
refused 1 "negative.npz: sample 37: the label is -1" "$dpexec" models/mlp.onnx --data "$DIR/negative.npz" --loss cross-entropy --threads 1 \
    --val-split 0.14,last --out "$DIR/none"
check "nothing has run here, either" test ! -e "$DIR/none"
check "a pixel that segmentation ignores, and a zip archive" "${PYTHON:-/usr/bin/python3}" - "$DIR" <<'PY'
import sys, numpy as np
target = np.zeros((3, 64, 64), int)
target[1, 5, 6] = 255
np.savez(f"{sys.argv[1]}/void.npz", image=np.zeros((3, 3, 64, 64), np.float32), target=target)
PY
refused 1 "sample 1: a label is 255, not one of 2 classes; --ignore-index 255 leaves such labels out" "$dpexec" models/unet.onnx \
    --data "$DIR/void.npz" --loss cross-entropy --no-shuffle --threads 1
refused 1 "void.npz: a zip archive, as torch.save and Keras write them, and not an ONNX file: export the network" "$dpexec" "$DIR/void.npz" \
    --data "$digits" --loss cross-entropy
refused 1 "not a .npy file, but a zip archive: one of arrays is called .npz, and given as --data" "$dpexec" run models/mlp.onnx \
    --input x="$digits" --out "$DIR/none"
refused 1 "sample 37: the label is -1, not one of 10 classes; --ignore-index -1 leaves such labels out" "$dpexec" models/mlp.onnx \
    --data "$DIR/negative.npz" --loss cross-entropy --batch-size 10 --epochs 1 --threads 1

# IDX: magic, type, counts, sizes, gzip.
idx() { printf "\\x00\\x00\\x08\\x$1$2"; head -c "$3" /dev/zero; }
images='\0\0\0\x04\0\0\0\x1c\0\0\0\x1c'
idx 03 "$images" 3136 >"$DIR/im"
idx 01 '\0\0\0\x04' 4 >"$DIR/la"
bad_idx() { bad "$1" "idx:$2,$3"; }
good_idx=("$dpexec" models/fashion_cnn.onnx --loss cross-entropy --batch-size 2 --steps 1 --threads 1)
check "good idx" "${good_idx[@]}" --data "idx:$DIR/im,$DIR/la"
gzip -k "$DIR/im" "$DIR/la"
check "good gzipped idx" "${good_idx[@]}" --data "idx:$DIR/im.gz,$DIR/la.gz"
/usr/bin/python3 - "$DIR" <<'PY'
import sys
import onnx
from onnx import TensorProto as T, helper as h
graph = h.make_graph([h.make_node("Flatten", ["x"], ["f"]), h.make_node("Gemm", ["f", "w"], ["y"])], "plain",
                     [h.make_tensor_value_info("x", T.FLOAT, ["N", 28, 28])], [h.make_tensor_value_info("y", T.FLOAT, ["N", 10])],
                     [h.make_tensor("w", T.FLOAT, [784, 10], [(i % 13) / 99 for i in range(7840)])])
onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), sys.argv[1] + "/plain.onnx")
PY
check "idx without channels" "$dpexec" "$DIR/plain.onnx" --loss cross-entropy --batch-size 2 --steps 1 --threads 1 \
    --data "idx:$DIR/im,$DIR/la"
bad "idx:" "idx:"
bad "idx:" "idx:$DIR/im"
bad_idx "none" "$DIR/none" "$DIR/la"
bad_idx "im" "$DIR/la" "$DIR/im"
idx 01 '\0\0\0\x05' 5 >"$DIR/la5";             bad_idx "5" "$DIR/im" "$DIR/la5"
idx 01 '\0\0\0\x04' 3 >"$DIR/la3";             bad_idx "la3" "$DIR/im" "$DIR/la3"
idx 01 '\0\0\0\x04' 9 >"$DIR/la9";             bad_idx "la9" "$DIR/im" "$DIR/la9"
idx 03 "$images" 3000 >"$DIR/imshort";         bad_idx "imshort" "$DIR/imshort" "$DIR/la"
idx 03 '\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff' 9 >"$DIR/imhuge"; bad_idx "imhuge" "$DIR/imhuge" "$DIR/la"
idx 09 "$images" 3136 >"$DIR/imrank";          bad_idx "imrank" "$DIR/imrank" "$DIR/la"
{ printf '\x01'; tail -c +2 "$DIR/im"; } >"$DIR/immagic";   bad_idx "immagic" "$DIR/immagic" "$DIR/la"
{ printf '\0\0\x07'; tail -c +4 "$DIR/im"; } >"$DIR/imtype"; bad_idx "imtype" "$DIR/imtype" "$DIR/la"
head -c 3 "$DIR/im" >"$DIR/im3";               bad_idx "im3" "$DIR/im3" "$DIR/la"
head -c 30 "$DIR/im.gz" >"$DIR/imcut.gz";      bad_idx "imcut.gz" "$DIR/imcut.gz" "$DIR/la"
{ head -c 20 "$DIR/im.gz"; head -c 30 /dev/urandom; } >"$DIR/imbad.gz"; bad_idx "imbad.gz" "$DIR/imbad.gz" "$DIR/la"

# What unpacks to more than it says, or to more than there is room for, stops there; so do archives of very many members.
check "bombs" "${PYTHON:-/usr/bin/python3}" - "$DIR" <<'PY'
import gzip, io, struct, sys, zipfile, numpy as np
folder = sys.argv[1]
def npy(shape, length=None, dtype="<f4"):
    f = io.BytesIO()
    np.lib.format.write_array_header_1_0(f, dict(descr=dtype, fortran_order=False, shape=shape))
    return f.getvalue() + bytes(int(np.prod(shape)) * 4 if length is None else length)
target = npy((4,), 32, "<i8")
def archive(name, x, **members):
    with zipfile.ZipFile(f"{folder}/{name}.npz", "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("x.npy", x)
        z.writestr("target.npy", target)
        for n, data in members.items():
            z.writestr(n + ".npy", data)
archive("fits", npy((4, 64)))
archive("longer", npy((4, 64), 200 << 20))              # 200 MB behind a header of 1 KB
archive("beyond", npy((1 << 50, 64), 1 << 20))          # a header of 256 PB
archive("many", npy((4, 64)), **{f"m{i}": target for i in range(5000)})
data = bytearray(open(f"{folder}/longer.npz", "rb").read())
at = data.index(b"PK\x01\x02")                          # the size that the directory has of x.npy: what its header asks for
for place in (at + 24, 22):
    struct.pack_into("<I", data, place, len(npy((4, 64))))
open(f"{folder}/lies.npz", "wb").write(data)
with zipfile.ZipFile(f"{folder}/claims.npz", "w") as z:     # the archive claims what the header asks for: 2 PB
    z.writestr("x.npy", npy((1 << 43, 64), 1 << 20))
with gzip.open(f"{folder}/long.gz", "wb") as f:
    f.write(struct.pack(">4B3I", 0, 0, 8, 3, 4, 28, 28) + bytes(100 << 20))
with gzip.open(f"{folder}/far.gz", "wb") as f:
    f.write(struct.pack(">4B3I", 0, 0, 8, 3, 1 << 31, 1 << 14, 1 << 14) + bytes(1 << 20))
PY
check "an archive that fits" "$dpexec" models/mlp.onnx --data "$DIR/fits.npz" --loss cross-entropy --batch-size 3 --steps 2 --threads 1
bad "x.npy: the array has 1152 bytes by its header, 209715328 by the archive" "$DIR/longer.npz"
bad "x.npy: the array has 288230376151711872 bytes by its header, 1048704 by the archive" "$DIR/beyond.npz"
bad "x.npy: " "$DIR/lies.npz"
bad "x.npy: the shape asks for 2251799813685248 bytes of data, the file has 1048576" "$DIR/claims.npz"
bad "the archive has 5002 members, at most 4096 are read" "$DIR/many.npz"
bad_idx "long.gz: unpacks to more than the 3152 bytes that its header asks for" "$DIR/long.gz" "$DIR/la"
bad_idx "far.gz: takes 576460752303423504 bytes unpacked, but /tmp has" "$DIR/far.gz" "$DIR/la"
sanitized=$(sed -n 's/^DPX_SANITIZE:[A-Z]*=//p' "$build/CMakeCache.txt")       # which reserves terabytes of addresses
bombed() { ( ulimit -f 20000; [ -n "$sanitized" ] || ulimit -v 4000000; "$dpexec" models/mlp.onnx --data "$1" --loss cross-entropy --steps 1 --threads 1 ) >"$DIR/bombed" 2>&1; grep -q "$2" "$DIR/bombed"; }
check "within 20 MB of files" bombed "$DIR/lies.npz" "x.npy: "
check "within 20 MB of files" bombed "idx:$DIR/long.gz,$DIR/la" "unpacks to more"

# Class weights: of the wrong length, missing.
npy "$DIR/w3.npy" '<f4' '(3,)' <(head -c 12 /dev/zero)
bad "class" "$digits" --class-weights "$DIR/w3.npy"
bad "none.npy" "$digits" --class-weights "$DIR/none.npy"
# Arrays that the model reads as samples have one length.
"${PYTHON:-/usr/bin/python3}" - "$DIR" <<'PY'
import sys, numpy as np
np.savez(f"{sys.argv[1]}/uneven.npz", x=np.zeros((12, 64), np.float32), target=np.zeros(11, np.int64))
PY
refused 1 "array 'target' has 11 samples along its first axis, 'x' has 12" "$dpexec" models/mlp.onnx --data "$DIR/uneven.npz" --loss cross-entropy \
    --batch-size 4
finish
