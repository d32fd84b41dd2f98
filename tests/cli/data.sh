#!/bin/bash
# The forms in which numpy stores one and the same data: 16-bit floats, big-endian numbers, columns before rows (Fortran order),
# labels and tokens as floats.  The same values train to the same bytes; what would lose meaning is refused by row and value.
# Options of sources, --map, --val-split, balanced classes, and dpexec data, beside what NumPy computes.
# Needs python3-numpy.
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-/usr/bin/python3}

check "files" "$python" - "$DIR" <<'PY'
import os, sys
import numpy as np
out, data = sys.argv[1], 'tests/oracle/data/'

def store(name, **arrays):
    np.savez_compressed(f'{out}/{name}.npz', **arrays)

digits, fashion, text = (dict(np.load(f'{data}{n}.npz')) for n in ('digits', 'fashion', 'text'))
x, y = digits['x'].astype('f2').astype('f4'), digits['target']
store('plain', x=x, target=y)
store('half', x=x.astype('f2'), target=y.astype('f4'))
store('columns', x=np.asfortranarray(x), target=y.astype('f8'))
store('big', x=np.asfortranarray(x.astype('>f2')), target=y.astype('>f2'))
os.mkdir(f'{out}/folder')
np.save(f'{out}/folder/x.npy', np.asfortranarray(x.astype('>f4')))
np.save(f'{out}/folder/target.npy', y.astype('>f8'))
store('images', **fashion)
store('image_columns', image=np.asfortranarray(fashion['image']), target=fashion['target'])
name = next(k for k in text if k != 'target')
store('tokens', **text)
store('float_tokens', **{k: np.asfortranarray(v.astype('f4')) for k, v in text.items()})
for bad, value in ('fraction', 2.5), ('nan', np.nan), ('huge', 1e30):
    t = y.astype('f4')
    t[3] = value
    store(bad, x=x, target=t)
t = text[name].astype('f8')
t[2, 1] += 0.25
store('token_fraction', **{**text, name: t})
np.save(f'{out}/x.npy', x[:5])
np.save(f'{out}/x_columns.npy', np.asfortranarray(x[:5].astype('f2')))
named = dict(images=x, labels=y)
# y = a + b, written by hand: the tests of forms of data need no package of ONNX
def field(number, data):
    return bytes([number << 3 | 2, len(data)]) + data
value = lambda name: field(1, name) + field(2, field(1, b'\x08\x01' + field(2, field(1, field(2, b'N')) + field(1, b'\x08\x0a'))))
graph = field(1, field(1, b'a') + field(1, b'b') + field(2, b'y') + field(4, b'Add')) + field(2, b'g') + field(11, value(b'a')) + \
    field(11, value(b'b')) + field(12, value(b'y'))
open(f'{out}/two_inputs.onnx', 'wb').write(b'\x08\x08' + field(7, graph) + field(8, b'\x10\x11'))
store('called_otherwise', **named)
store('called_target', images=x, target=y)
store('with_others', **named, ids=np.arange(len(y)), wide=np.zeros((len(y), 65)))
store('two_fit', a=x, b=x, target=y)
store('none_fits', a=x[:, :60], target=y)
store('letters', **{'text': text[name], 'target': text['target']})
store('no_letters', **{'text': text[name] + 0.5, 'target': text['target']})
w = np.arange(1, 11) / 4
np.save(f'{out}/w.npy', w.astype('f4'))
np.save(f'{out}/w_big.npy', w.astype('>f8'))
np.save(f'{out}/w_half.npy', w.astype('f2'))
PY

how=(--loss cross-entropy --batch-size 10 --steps 6 --threads 1 --quiet)
# train OUT MODEL DATA [FLAG...]
train() { "$dpexec" "models/$2.onnx" --data "$DIR/$3" "${how[@]}" --out "$DIR/$1" "${@:4}"; }

check "plain" train plain mlp plain.npz
for form in half.npz columns.npz big.npz folder; do
    check "$form" train "of_$form" mlp "$form"
    check "$form trains as the plain arrays do" same_run "$DIR/plain" "$DIR/of_$form"
done
check "images" train images fashion_cnn images.npz
check "images by columns" train image_columns fashion_cnn image_columns.npz
check "images by columns train alike" same_run "$DIR/images" "$DIR/image_columns"
check "tokens" train tokens transformer tokens.npz
check "tokens that are floats" train float_tokens transformer float_tokens.npz
check "tokens that are floats train alike" same_run "$DIR/tokens" "$DIR/float_tokens"
for form in w w_big w_half; do check "$form" train "with_$form" mlp plain.npz --class-weights "$DIR/$form.npy"; done
for form in w_big w_half; do check "$form is w" same_run "$DIR/with_w" "$DIR/with_$form"; done
for form in x x_columns; do check "run $form" "$dpexec" run models/mlp.onnx --input "x=$DIR/$form.npy" --out "$DIR/run_$form" --quiet; done
check "run on columns gives the same outputs" diff -r "$DIR/run_x" "$DIR/run_x_columns"

# A model's only input takes the only array that fits, which one line says.
for form in called_otherwise called_target; do
    check "$form" train "of_$form" mlp "$form.npz"
    check "$form trains as the plain arrays do" same_run "$DIR/plain" "$DIR/of_$form"
done
one=("$dpexec" models/mlp.onnx --loss cross-entropy --batch-size 10 --steps 2 --threads 1)
says "--data $DIR/called_otherwise.npz: input 'x' is read from array 'images', the only one that fits" "${one[@]}" --data "$DIR/called_otherwise.npz"
says "--val $DIR/with_others.npz: input 'x' is read from array 'images', the only one that fits" "${one[@]}" --target labels \
    --data "$DIR/called_otherwise.npz" --val "$DIR/with_others.npz"
says "input 'x' is read from array 'images'" "$dpexec" eval models/mlp.onnx --loss cross-entropy --data "$DIR/called_target.npz"
check "nothing is said of names that are right" sh -c '! "$@" 2>&1 | grep -q "only one"' - "${one[@]}" --data "$DIR/plain.npz"
says "input 'tokens' is read from array 'text'" "$dpexec" models/transformer.onnx --data "$DIR/letters.npz" --loss cross-entropy --batch-size 10 --steps 1 --threads 1
refused 2 "no array has the name of input 'x' [?,64] float32, and 2 arrays fit; the data has 'a' [43,64] float32, 'b' [43,64] float32, 'target' [43] int64" \
    "${one[@]}" --data "$DIR/two_fit.npz"
refused 2 "no array for input 'x' [?,64] float32: none has its name or fits; the data has 'a' [43,60] float32, 'target' [43] int64" \
    "${one[@]}" --data "$DIR/none_fits.npz"
refused 2 "the only one of its shape does not fit: text: the data's float64 is converted to int64, which cannot hold the value of row 0," "$dpexec" models/transformer.onnx \
    --data "$DIR/no_letters.npz" --loss cross-entropy --batch-size 10 --steps 1 --threads 1
refused 2 "3 arrays could be the target, name one with --target: 'labels' [43] int64, 'ids' [43] int64, 'wide' [43,65] float64" \
    "${one[@]}" --data "$DIR/with_others.npz"
refused 2 "no array 'lable' for the target; the data has 'images' [43,64] float32, 'labels'" "${one[@]}" --data "$DIR/called_otherwise.npz" --target lable

check "run without the name of the only input" "$dpexec" run models/mlp.onnx --input "$DIR/x.npy" --out "$DIR/run_unnamed" --quiet
check "which gives the same outputs" diff -r "$DIR/run_x" "$DIR/run_unnamed"
refused 2 "--input x is given twice" "$dpexec" run models/mlp.onnx --input "$DIR/x.npy" --input "x=$DIR/x.npy" --out "$DIR/none"
refused 2 "expected NAME=FILE.npy, for the model has 2 inputs" "$dpexec" run "$DIR/two_inputs.onnx" --input "$DIR/x.npy" --out "$DIR/none"

refused 2 "target: the data's float32 is converted to int64, which cannot hold the value of row 3, 2.5" "$dpexec" models/mlp.onnx --data "$DIR/fraction.npz" "${how[@]}" --out "$DIR/none"
refused 2 "of row 3, nan" "$dpexec" models/mlp.onnx --data "$DIR/nan.npz" "${how[@]}" --out "$DIR/none"
refused 2 "of row 3, 1e+30" "$dpexec" models/mlp.onnx --data "$DIR/huge.npz" "${how[@]}" --out "$DIR/none"
refused 2 "of row 2," "$dpexec" models/transformer.onnx --data "$DIR/token_fraction.npz" "${how[@]}" --out "$DIR/none"
check "nothing was written" test ! -e "$DIR/none"
# ---- options of sources, and which samples are trained on ----

py() { "$python" -c "import sys, json, numpy as np
$1" "${@:2}"; }
check "files of classes" py '
out = sys.argv[1]
d = np.load("tests/oracle/data/digits.npz")
x, y = np.tile(d["x"], (3, 1))[:120], np.tile(d["target"], 3)[:120]
y[:60] = y[:60] % 3                                                     # uneven classes
np.savez(f"{out}/uneven.npz", x=x, target=y)
np.savez(f"{out}/first.npz", x=x[:50], target=y[:50])
np.savez(f"{out}/comma,limit=7.npz", x=x[:7], target=y[:7])
np.savez(f"{out}/renamed.npz", pixels=x, target=y, x=x[::-1])
np.savez(f"{out}/labels.npz", x=x, labels=y)                            # the same split without the name
np.savez(f"{out}/grouped.npz", x=x, target=np.arange(120) // 12, person=np.arange(120) // 12 + 100)
np.savez(f"{out}/timed.npz", x=x, target=np.arange(120) // 12)
n = np.bincount(y, minlength=10)
assert (n > 0).all() and n.max() > 3 * n.min()
np.save(f"{out}/balanced.npy", len(y) / (10 * n))                       # as compute_class_weight("balanced") of scikit-learn
' "$DIR"

# The first N samples are what a file of these N has.
check "limit" train limited mlp uneven.npz,limit=50
check "the first 50" train first mlp first.npz
check "limit=50 takes the first 50" same_run "$DIR/limited" "$DIR/first"
check "a path that exists is taken whole" train comma mlp comma,limit=7.npz
check "escapes" train escaped mlp 'comma\,limit=7.npz'
check "an escaped comma belongs to the path" same_run "$DIR/comma" "$DIR/escaped"
check "a limit that is more" train all mlp uneven.npz,limit=1000
check "takes all" train uneven mlp uneven.npz
check "all are all" same_run "$DIR/all" "$DIR/uneven"
base=("$dpexec" models/mlp.onnx "${how[@]}")
refused 2 "uneven.npz,limit=0: limit: expected a whole number from 1" "${base[@]}" --data "$DIR/uneven.npz,limit=0"
refused 2 "there is no option limt; expected limit=N" "${base[@]}" --data "$DIR/uneven.npz,limt=3"
refused 2 "limit is given twice" "${base[@]}" --data "$DIR/uneven.npz,limit=3,limit=4"
touch "$DIR/cat.jpg" "$DIR/t.csv" "$DIR/t.tsv"
refused 2 "NumPy makes a FILE.npz of it: import numpy as np; from PIL" "${base[@]}" --data "$DIR/cat.jpg"
mkdir -p "$DIR/pictures/cat"
refused 1 "pictures: the folder holds no .npy files; expected " "${base[@]}" --data "$DIR/pictures"
refused 1 "cannot open: No such file" "${base[@]}" --data "$DIR/nothing.parquet"
refused 1 "mnist: cannot open: No such file or directory; expected csv:FILE, idx:IMAGES,LABELS, images:DIR, FILE.npy, FOLDER" \
    "${base[@]}" --data mnist
refused 2 ", such as csv:$DIR/t.tsv; NumPy makes" "${base[@]}" --data "$DIR/t.tsv"

# The statements that an error prints do make a FILE.npz.
printf 'a\tb\ty\n1\t2\t3\n4\t5\t6\n' >"$DIR/t.tsv"
numpy=$("${base[@]}" --data "$DIR/t.tsv" 2>&1 | sed 's/.*of it: //')
check "statements of NumPy" "$python" -c "import os, sys; os.chdir(sys.argv[1]); exec(sys.argv[2].replace('FILE', 't.tsv').replace('; ', chr(10)))
d = np.load('data.npz'); assert d['x'].tolist() == [[1, 2], [4, 5]] and d['target'].tolist() == [3, 6]" "$DIR" "$numpy"

# --map
check "map" train mapped mlp renamed.npz --map x=pixels
check "a mapped array feeds the input" same_run "$DIR/uneven" "$DIR/mapped"
check "an evaluation of the run has the same" test "$("$dpexec" eval "$DIR/mapped" --data "$DIR/renamed.npz" --quiet)" = \
    "$("$dpexec" eval "$DIR/uneven" --data "$DIR/uneven.npz" --quiet)"
refused 2 "--map y=pixels: the model has no input 'y'; --map x=pixel: the data has no array 'pixel'" "${base[@]}" \
    --data "$DIR/renamed.npz" --map y=pixels --map x=pixel
refused 2 "--map: input 'x' is given twice" "${base[@]}" --data "$DIR/renamed.npz" --map x=pixels --map x=x

# --class-weights balanced
check "balanced weights" train weighted mlp uneven.npz --class-weights balanced
check "weights of scikit-learn's formula" train weighted_file mlp uneven.npz --class-weights "$DIR/balanced.npy"
check "balanced weights are those" same_run "$DIR/weighted" "$DIR/weighted_file"
check "an evaluation takes them from the run" test "$("$dpexec" eval "$DIR/weighted/model.onnx" --loss cross-entropy --quiet \
    --data "$DIR/first.npz" --class-weights balanced)" = "$("$dpexec" eval "$DIR/weighted/model.onnx" --loss cross-entropy --quiet \
    --data "$DIR/first.npz" --class-weights "$DIR/balanced.npy")"
refused 2 "--class-weights balanced counts the training set" "$dpexec" eval models/mlp.onnx --loss cross-entropy --data "$DIR/first.npz" \
    --class-weights balanced

# The only array that is left is the target, with samples held back, too.
for data in called_otherwise with_others; do
    check "$data: the target without a name" train "split_$data" mlp $data.npz --val-split 0.2 --target labels
    [ $data = with_others ] || check "$data: is the only array left" train left mlp $data.npz --val-split 0.2
done
check "as with its name" same_run "$DIR/left" "$DIR/split_called_otherwise"

# --val-split: a fifth of each class, within one sample; the rest is trained on.
split=(tests/cli/defaults --data "$DIR/uneven.npz" --epochs 2 --val-split 0.2 -- "$dpexec" models/mlp.onnx --loss cross-entropy --batch-size 10
    --threads 1 --quiet --metric confusion-matrix)
check "val-split" "${split[@]}" --out "$DIR/split" --checkpoint-every 4
check "a fifth of each class is held back" py '
out = sys.argv[1]
rows = [json.loads(line) for line in open(f"{out}/split/metrics.jsonl")]
held = np.array([r for r in rows if "eval_loss" in r][-1]["eval_confusion-matrix"]).sum(1)
trained = np.array([r for r in rows if "train_loss" in r][-1]["train_confusion-matrix"]).sum(1)
n = np.bincount(np.load(f"{out}/uneven.npz")["target"], minlength=10)
assert held.sum() == 24 and (abs(held - 0.2 * n) <= 1).all() and (held + trained == n).all(), (held, trained, n)
' "$DIR"
held() {
    check "$1" "$dpexec" models/mlp.onnx --data "$DIR/$2" --loss cross-entropy --batch-size 10 --steps 1 --threads 1 --quiet \
        --metric confusion-matrix --out "$DIR/held_$1" --val-split "$3"
    check "$1 are held back" py '
held = np.array([r for r in map(json.loads, open(sys.argv[1])) if "eval_loss" in r][-1]["eval_confusion-matrix"]).sum(1)
assert eval(sys.argv[2]), held
' "$DIR/held_$1/metrics.jsonl" "$4"
}
held groups grouped.npz 0.25,group=person 'sorted(held) == [0] * 7 + [12] * 3'  # 30 of 120 samples, in groups of 12
held last timed.npz 0.25,last 'list(held) == [0] * 7 + [6, 12, 12]'
held labels labels.npz 0.2 'abs(held.sum() - 24) <= 1 and (held > 0).sum() >= 7'
refused 2 "the data has none of that name" "${split[@]}" --val-split 0.1,group=person
refused 2 "group=x: expected an array of a whole number for each sample" "${split[@]}" --val-split 0.1,group=x
check "by another seed" "${split[@]}" --seed 1 --out "$DIR/split_seed"
check "other samples are held back" test "$(grep -m1 -o '"eval_loss":[^,]*' "$DIR/split/metrics.jsonl")" != \
    "$(grep -m1 -o '"eval_loss":[^,]*' "$DIR/split_seed/metrics.jsonl")"
cp -r "$DIR/split" "$DIR/split_again"
rm -r "$DIR/split_again/checkpoints/step-000000020" "$DIR/split_again/model.onnx" 2>/dev/null
check "resumed" "${split[@]}" --resume "$DIR/split_again" --checkpoint-every 4
check "a resumed run has the same samples" same_run "$DIR/split" "$DIR/split_again"
refused 2 "--val-split was '0.2', is '0.3'" "${split[@]}" --resume "$DIR/split_again" --val-split 0.3 --epochs 3
check "split over processes" "$dpexec" launch -n 3 -- "${split[@]:9}" "${split[@]:1:6}" --out "$DIR/split_3"
check "and over devices" "${split[@]}" --devices 'cpu*3' --out "$DIR/split_devices"
check "three processes have the same samples" same_run "$DIR/split_3" "$DIR/split_devices"
# Class numbers [N,1] are those of [N], where they are counted, drawn, weighed or held back.
py 'd = np.load(sys.argv[1] + "/uneven.npz"); np.savez(sys.argv[1] + "/column.npz", x=d["x"], target=d["target"][:, None])' "$DIR"
for name in uneven column; do
    check "$name" "${split[@]}" --data "$DIR/$name.npz" --balanced --class-weights balanced --out "$DIR/of_$name"
done
check "a column of class numbers" cmp "$DIR/of_uneven/model.onnx" "$DIR/of_column/model.onnx"
check "and its classes" test "$("$dpexec" data "$DIR/uneven.npz" | grep -o 'classes:.*')" = "$("$dpexec" data "$DIR/column.npz" | grep -o 'classes:.*')"
check "are there" test -n "$("$dpexec" data "$DIR/column.npz" | grep -o 'classes:.*')"
refused 2 "--val and --val-split do not go together" "${split[@]}" --val "$DIR/first.npz"
for part in 0 1 -0.1 x 0.1,first; do refused 2 "--val-split: expected the part to evaluate on" "${split[@]}" --val-split "$part"; done
refused 2 "of 2 samples it leaves none to evaluate on" "${split[@]}" --data "$DIR/uneven.npz,limit=2" --val-split 0.1

# --balanced draws each class as often: about 600 draws of 10 classes, 60 each (standard deviation 7.4).
check "balanced" "${split[@]}" --balanced --epochs 10 --out "$DIR/drawn" --val-split 0.5
check "each class is drawn as often" py '
rows = [json.loads(line) for line in open(sys.argv[1])]
drawn = sum(np.array(r["train_confusion-matrix"]).sum(1) for r in rows if "train_loss" in r)
assert len(drawn) == 10 and 590 <= drawn.sum() <= 610 and (abs(drawn - drawn.mean()) < 4 * 7.4).all(), drawn
' "$DIR/drawn/metrics.jsonl"
refused 2 "--balanced goes with --loss cross-entropy or nll, whose targets are class numbers, found --loss mse" "$dpexec" models/mlp.onnx --data "$DIR/uneven.npz" --loss mse --balanced

# ---- data.json: --mean and --std are those of training ----

check "idx files" py '
out = sys.argv[1]
d = np.load("tests/oracle/data/fashion.npz")
def idx(name, a):
    open(f"{out}/{name}", "wb").write(bytes([0, 0, 8, a.ndim]) + b"".join(n.to_bytes(4, "big") for n in a.shape) + a.tobytes())
idx("im", np.clip(d["image"][:, 0] * 40 + 128, 0, 255).astype("u1"))
idx("la", d["target"].astype("u1"))
' "$DIR"
idx=(--data "idx:$DIR/im,$DIR/la" --loss cross-entropy --threads 1 --quiet)
check "train with a mean" "$dpexec" models/fashion_cnn.onnx "${idx[@]}" --steps 2 --mean 0.5 --std 0.25 --out "$DIR/normal"
"${PYTHON:-/usr/bin/python3}" - "$DIR/normal/model.onnx" "$DIR/elsewhere.onnx" <<'END'
import sys, onnx
model = onnx.load(sys.argv[1])
del model.metadata_props[:]
onnx.save(model, sys.argv[2])
END
check "an evaluation takes it from the run" test "$("$dpexec" eval "$DIR/normal/model.onnx" "${idx[@]}")" = \
    "$("$dpexec" eval "$DIR/elsewhere.onnx" "${idx[@]}" --mean 0.5 --std 0.25)"
check "and the flags win" test "$("$dpexec" eval "$DIR/normal/model.onnx" "${idx[@]}" --mean 0 --std 1)" = \
    "$("$dpexec" eval "$DIR/elsewhere.onnx" "${idx[@]}")"
check "a resumed run, too" "$dpexec" models/fashion_cnn.onnx "${idx[@]}" --steps 4 --resume "$DIR/normal"
refused 2 "--mean and --std have 3 numbers, but the images of 'image' have 1 channel" "$dpexec" models/fashion_cnn.onnx "${idx[@]}" --mean imagenet
refused 2 "--mean has 2 numbers, --std has 3" "$dpexec" models/fashion_cnn.onnx "${idx[@]}" --mean 1,2 --std 1,2,3
refused 2 "--std: expected numbers other than 0" "$dpexec" models/fashion_cnn.onnx "${idx[@]}" --std 0
refused 2 "--mean: expected a number, a list" "$dpexec" models/fashion_cnn.onnx "${idx[@]}" --mean grey

# ---- dpexec data ----

check "bad numbers" py '
out = sys.argv[1]
rng = np.random.default_rng(1)
x = rng.normal(3, 2, (30, 4, 5)).astype("f4")
np.savez(f"{out}/stats.npz", x=x, target=np.arange(30) % 4)
x[7, 2, 3] = np.nan
x[9, 0, 0] = -np.inf
np.savez(f"{out}/bad_numbers.npz", x=x, target=np.arange(30) % 4)
' "$DIR"
says "stats.npz: 30 samples" "$dpexec" data "$DIR/stats.npz"
says "4 classes: 0: 8, 1: 8, 2: 7, 3: 7" "$dpexec" data "$DIR/stats.npz"
says "2 bad rows" "$dpexec" data "$DIR/bad_numbers.npz"
"$dpexec" data "$DIR/bad_numbers.npz" >"$DIR/bad_numbers.txt"
check "bad rows by place" grep -qxF "  row 7: NaN at [2,3]" "$DIR/bad_numbers.txt"
check "in a line each" grep -qxF "  row 9: -Inf at [0,0]" "$DIR/bad_numbers.txt"
says "stats.npz,limit=6: 6 samples" "$dpexec" data "$DIR/stats.npz,limit=6"
says "input 'x' (float32) gets 'pixels'" "$dpexec" data "$DIR/renamed.npz" models/mlp.onnx --map x=pixels
refused 2 "input 'x' is [?,64], the data's array is [30,4,5]" "$dpexec" data "$DIR/stats.npz" models/mlp.onnx
"$dpexec" data "$DIR/stats.npz" --json >"$DIR/stats.json"
check "statistics are those of NumPy" py '
out = sys.argv[1]
shown = json.load(open(f"{out}/stats.json"))
d = np.load(f"{out}/stats.npz")
assert shown["samples"] == 30
for a in shown["arrays"]:
    x = d[a["name"]].astype("f8")
    assert a["shape"] == list(x.shape) and a["type"] == str(d[a["name"]].dtype) and a["bad_rows"] == 0
    for key, value in ("min", x.min()), ("max", x.max()), ("mean", x.mean()), ("std", x.std()):
        assert abs(a[key][0] - value) <= 1e-12 * max(1, abs(value)), (key, a[key], value)
target = next(a for a in shown["arrays"] if a["name"] == "target")
assert [(c["class"], c["count"]) for c in target["classes"]] == [(0, 8), (1, 8), (2, 7), (3, 7)]
' "$DIR"
finish
