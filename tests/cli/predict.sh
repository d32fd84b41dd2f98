#!/bin/bash
# Models that dpexec wrote hold what predictions need: alone, without the folder of the run, they take images and rows of tables.
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-/usr/bin/python3}
images=tests/tools/images
flags=(--loss cross-entropy --batch-size 4 --lr 0.05 --threads 1 --quiet)

# metadata FILE KEY TEXT: the file's metadata_props have it; TEXT "none": they do not.
metadata() {
    "$python" -c "
import sys, onnx
props = {p.key: p.value for p in onnx.load(sys.argv[1]).metadata_props}
found = props.get(sys.argv[2], 'none')
sys.exit(found != sys.argv[3] and f'{sys.argv[2]} is {found}')" "$@"
}

# ---- images ----
for i in 0 1 2 3; do
    mkdir -p "$DIR/pets/big, cat" "$DIR/pets/dog"
    cp "$images/rgb.png" "$DIR/pets/big, cat/$i.png"
    cp "$images/rgb.jpg" "$DIR/pets/dog/$i.jpg"
done
check "train" "$dpexec" train models/resnet20.onnx --data "images:$DIR/pets,fit=stretch" --val "images:$DIR/pets" "${flags[@]}" --metric accuracy \
    --mean 0.5,0.4,0.3 --std 0.25 --head 2 --epochs 2 --out "$DIR/run"
mkdir "$DIR/alone"
cp "$DIR/run/best.onnx" "$DIR/alone/pets.onnx"
best=$DIR/alone/pets.onnx
check "task" metadata "$best" task classification
check "classes" metadata "$best" classes '["big, cat","dog"]'
check "scores" metadata "$best" scores logits
check "size" metadata "$best" size 32x32
check "mean" metadata "$best" mean 0.5,0.4,0.3
check "std" metadata "$best" std 0.25,0.25,0.25
check "exported" "$dpexec" export "$DIR/run" --at last -o "$DIR/last.onnx"
check "exported whole" cmp "$DIR/last.onnx" "$DIR/run/model.onnx"

check "a folder" "$dpexec" run "$best" "$DIR/pets" -o "$DIR/pets.csv" --batch-size 1 --threads 1
check "as beside the run" "$dpexec" run "$DIR/run" "images:$DIR/pets" -o "$DIR/beside.csv" --batch-size 1 --threads 1
check "the same numbers" cmp "$DIR/pets.csv" "$DIR/beside.csv"
mkdir "$DIR/flat"
cp "$DIR"/pets/*/* "$DIR/flat"
check "images without folders" "$dpexec" run "$best" "$DIR/flat" -o "$DIR/flat.csv" --batch-size 1 --threads 1
check "the same numbers without folders" "$python" - "$DIR" <<'PY'
import csv, sys
rows = [list(csv.reader(open(f"{sys.argv[1]}/{f}.csv"))) for f in ("pets", "flat")]
assert all(r[0] == ["file", "class", "big, cat", "dog"] for r in rows), rows
nested, flat = ({r[0].split("/")[-1]: r[1:] for r in t[1:]} for t in rows)
assert nested == flat and len(nested) == 8, (nested, flat)
assert all(c == ["big, cat", "dog"][float(b) > float(a)] for c, a, b in flat.values())
PY
says "0." "$dpexec" run "$best" "$DIR/flat/0.png" --threads 1
cp "$DIR/says.log" "$DIR/likely"
check "the likeliest classes by name" "$python" - "$DIR" <<'PY'
import csv, math, sys
rows = {r["file"]: r for r in csv.DictReader(open(f"{sys.argv[1]}/flat.csv"))}
scores = {k: math.exp(float(rows["0.png"][k])) for k in ("big, cat", "dog")}
found = [line.rstrip("\n").split("  ", 1) for line in open(f"{sys.argv[1]}/likely")]
wanted = sorted(((v / sum(scores.values()), k) for k, v in scores.items()), reverse=True)
assert [k for _, k in wanted] == [k for _, k in found], found
assert all(abs(p - float(f)) <= 5.1e-5 for (p, _), (f, _) in zip(wanted, found)), (wanted, found)
PY
check "with an odd name" cp "$images/rgb.jpg" "$DIR/a,b:c=1.jpg"
says "  dog" "$dpexec" run "$best" "$DIR/a,b:c=1.jpg" --threads 1
check "one of several models" test "$(grep -c . "$DIR/says.log")" = 2
says "  dog" "$dpexec" run "$DIR/run" "$DIR/flat/0.jpg" --threads 1
check "a file of numbers" "$dpexec" run "$best" "$DIR/flat/0.jpg" -o "$DIR/one.csv" --threads 1
check "a line for the image" test "$(grep -c . "$DIR/one.csv")" = 2

# ---- with the preprocessing in the file ----
check "joined" "$dpexec" export "$DIR/run" --export-preprocess -o "$DIR/joined.onnx"
check "said in the file" metadata "$DIR/joined.onnx" preprocess included
check "nothing to repeat" metadata "$DIR/joined.onnx" mean none
check "classes are kept" metadata "$DIR/joined.onnx" classes '["big, cat","dog"]'
check "nothing is left behind" test -z "$(find "$DIR/run" -name '.preprocess*')"
check "bytes" "$python" - "$DIR" <<'PY'
import sys, numpy as np, onnx
model = onnx.load(f"{sys.argv[1]}/joined.onnx")    # of an opset that Debian's checker does not know: tests/interop/joined.py checks it
assert [i.name for i in model.graph.input] == ["image_bytes"] and model.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.UINT8
x = np.random.default_rng(0).integers(0, 256, (3, 32, 32, 3), dtype=np.uint8)
np.save(f"{sys.argv[1]}/bytes.npy", x)
np.save(f"{sys.argv[1]}/floats.npy", ((x / 255.0 - [0.5, 0.4, 0.3]) / 0.25).astype("f4").transpose(0, 3, 1, 2))
PY
check "run on bytes" "$dpexec" run "$DIR/joined.onnx" --input image_bytes="$DIR/bytes.npy" --out "$DIR/of_bytes" --threads 1
check "run on floats" "$dpexec" run "$DIR/run" --input image="$DIR/floats.npy" --out "$DIR/of_floats" --threads 1
check "the same scores" cmp "$DIR"/of_bytes/*.npy "$DIR"/of_floats/*.npy
check "a folder by the joined file" "$dpexec" run "$DIR/joined.onnx" "$DIR/flat" -o "$DIR/joined.csv" --batch-size 1 --threads 1
check "the same predictions" cmp "$DIR/joined.csv" "$DIR/flat.csv"
for kind in run joined.onnx; do
    "$dpexec" eval "$DIR/$kind" --data "images:$DIR/pets" --loss cross-entropy --metric accuracy --batch-size 1 --threads 1 >"$DIR/eval.$kind"
done
check "the same evaluation" cmp "$DIR/eval.run" "$DIR/eval.joined.onnx"
check "of a loss" grep -q '"eval_loss":[0-9]' "$DIR/eval.run"
# A model of others: five classes by number, normalised by flags.
says "  class " "$dpexec" run models/resnet20.onnx "$DIR/flat/0.jpg" --mean imagenet --threads 1
check "five of them" test "$(grep -c . "$DIR/says.log")" = 5
refused 1 "cannot" "$dpexec" run "$best" "$DIR/flat/none.jpg" --threads 1
mkdir "$DIR/empty"
refused 2 "expected images in the folder, found none" "$dpexec" run "$best" "$DIR/empty" --threads 1
"$python" - "$best" "$DIR/damaged.onnx" <<'PY'
import sys, onnx
model = onnx.load(sys.argv[1])
for p in model.metadata_props:
    if p.key == "data.json":
        p.value = '{"fitted":'
onnx.save(model, sys.argv[2])
PY
refused 1 "damaged.onnx: its metadata 'data.json' is not the preprocessing that training fitted" "$dpexec" run "$DIR/damaged.onnx" "$DIR/flat" --threads 1

# Trained again on other data, the metadata are those of the other data.
check "again" "$dpexec" train "$best" --data tests/oracle/data/images32.npz "${flags[@]}" --head 10 --steps 1 --out "$DIR/again"
check "no classes" metadata "$DIR/again/model.onnx" classes none
check "no facts" metadata "$DIR/again/model.onnx" data.json none
check "its task" metadata "$DIR/again/model.onnx" task classification

# ---- tables ----
check "tables" "$python" tests/cli/table.py "$DIR"
cd "$DIR" || exit 1
check "train on a table" "$dpexec" train scores.onnx --data csv:kinds.csv,target=kind --loss cross-entropy --batch-size 8 --lr 0.1 --threads 1 \
    --epochs 2 --quiet --out kinds
cp kinds/model.onnx alone/kinds.onnx
check "classes of a table" metadata alone/kinds.onnx classes '["cheap","dear","luxury"]'
check "rows" "$dpexec" run alone/kinds.onnx flats.csv -o rows.csv --threads 1
check "rows beside the run" "$dpexec" run kinds/model.onnx flats.csv -o beside_rows.csv --threads 1
check "the same rows" cmp rows.csv beside_rows.csv
check "named" grep -q '^row,class,cheap,dear,luxury' rows.csv
check "joined to a table with categories" "$dpexec" export kinds --export-preprocess -o joined_kinds.onnx     # run in tests/interop/joined.py
awk -F, 'NR == 1 { print "age,kind"; next } { print $1 "," (NR % 2 ? "odd" : "even") }' kinds.csv >numbers.csv
"$python" - <<'PY'
import numpy as np, onnx
from onnx import TensorProto, helper, numpy_helper
value = lambda n, k: helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", k])
graph = helper.make_graph([helper.make_node("Gemm", ["x", "w", "b"], ["y"])], "g", [value("x", 1)], [value("y", 2)],
                          [numpy_helper.from_array(np.ones((1, 2), "f4"), "w"), numpy_helper.from_array(np.zeros(2, "f4"), "b")])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), "two.onnx")
PY
check "numbers alone" "$dpexec" train two.onnx --data numbers.csv,target=kind --loss cross-entropy --batch-size 8 --lr 0.1 --threads 1 --steps 3 \
    --quiet --out numbers
check "joined to a table of numbers" "$dpexec" export numbers --export-preprocess -o numbers.onnx
"$python" - <<'PY'
import csv, numpy as np
rows = list(csv.DictReader(open("numbers.csv")))
np.save("age.npy", np.array([[float("nan") if r["age"] == "NA" else float(r["age"])] for r in rows]))
PY
cp numbers.onnx numbers/joined.onnx     # beside what was fitted, which is in the file already
for kind in "run numbers/joined.onnx numbers.csv" "eval numbers/joined.onnx --data numbers.csv --loss cross-entropy"; do
    # shellcheck disable=SC2086
    refused 2 "the model's file contains the preprocessing of its table, and takes raw columns" "$dpexec" $kind --threads 1
done
check "raw numbers" "$dpexec" run numbers.onnx --input age=age.npy --out raw --threads 1
check "predictions for rows" "$dpexec" run numbers numbers.csv -o numbers_y.csv --threads 1
check "agree" "$python" -c "
import csv, numpy as np
rows = np.array([r[2:] for r in list(csv.reader(open('numbers_y.csv')))[1:]], 'f4')
assert rows.shape == (60, 2) and np.abs(np.load('raw/y.npy') - rows).max() <= 1e-6"
check "exported from the run" "$dpexec" export kinds -o kinds.onnx
check "whole" cmp kinds.onnx kinds/model.onnx
check "train a regression" "$dpexec" train line.onnx --data csv:price.csv,target=price --loss mse --batch-size 8 --lr 0.01 --threads 1 --epochs 1 \
    --quiet --out price
check "regression" metadata price/model.onnx task regression
check "without classes" metadata price/model.onnx classes none
finish
