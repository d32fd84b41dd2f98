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
refused 1 "damaged.onnx: its metadata 'data.json' is not what training fitted" "$dpexec" run "$DIR/damaged.onnx" "$DIR/flat" --threads 1

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
check "exported from the run" "$dpexec" export kinds -o kinds.onnx
check "whole" cmp kinds.onnx kinds/model.onnx
check "train a regression" "$dpexec" train line.onnx --data csv:price.csv,target=price --loss mse --batch-size 8 --lr 0.01 --threads 1 --epochs 1 \
    --quiet --out price
check "regression" metadata price/model.onnx task regression
check "without classes" metadata price/model.onnx classes none
finish
