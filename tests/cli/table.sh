#!/bin/bash
# Tables as data: a CSV file trains to the bytes of its features as .npz; --val, eval and run take the columns as training fitted
# them; what is wrong is named by row and column.  Needs python3-numpy and python3-onnx.
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-/usr/bin/python3}
check "files" "$python" tests/cli/table.py "$DIR"
cd "$DIR" || exit 1
how=(--loss mse --optimizer sgd --lr 0.01 --batch-size 7 --epochs 3 --threads 1 --quiet)

# The run writes what it fitted; a model that returns its input shows the features.
check "train" "$dpexec" train line.onnx --data csv:price.csv,target=price "${how[@]}" --out run
check "fitted" grep -q '"table"' run/data.json
check "preprocessing" test -s run/preprocess.onnx
cp run/data.json .
check "run" "$dpexec" run same.onnx csv:price.csv -o features.csv --threads 1
check "features" "$python" "$root/tests/cli/table_npz.py" .
rm data.json
check "train on arrays" "$dpexec" train line.onnx --data price.npz "${how[@]}" --out arrays
bare() { "$python" -c "
import sys, onnx
m = onnx.load(sys.argv[1])
del m.metadata_props[:]
sys.stdout.buffer.write(m.SerializeToString())" "$1"; }
bare run/model.onnx >run_bare.onnx
bare arrays/model.onnx >arrays_bare.onnx
check "the same bytes, but for what was fitted" cmp run_bare.onnx arrays_bare.onnx
check "a file alone" "$dpexec" train line.onnx --data price.csv,target=price "${how[@]}" --out again
check "again the same bytes" cmp run/model.onnx again/model.onnx

# Validation data have what training fitted, and the columns in any order; the target is not asked for.
check "eval" "$dpexec" eval run/model.onnx --data csv:price.csv,target=price --loss mse --threads 1
check "predictions" "$dpexec" run run/model.onnx flats.csv -o flats_y.csv --threads 1
says "row,prediction" head -1 flats_y.csv
check "lines of the file" test "$(cut -d, -f1 flats_y.csv | tr '\n' ' ')" = "row 2 3 "
check "standard output" test "$("$dpexec" run run/model.onnx csv:flats.csv --threads 1)" = "$(cat flats_y.csv)"

check "the folder of a run" "$dpexec" run run flats.csv -o run_y.csv --threads 1
check "its model" cmp flats_y.csv run_y.csv

# Balanced class weights of a table: 12 rows of class 0 and 4 of class 1 weigh 16 / (2 * 12) and 16 / (2 * 4).
awk 'BEGIN { print "age,size,target"; for (i = 0; i < 16; i++) printf "%d,%d,%d\n", i * 7 % 11, i * 5 % 13, i % 4 == 3 }' >uneven.csv
check "weights" "$python" -c 'import numpy; numpy.save("weights.npy", [16 / 24, 2])'
check "a network of two classes" "$dpexec" new mlp --inputs 2 --outputs 2 --width 8 -o two.onnx
check "balanced weights" "$dpexec" train two.onnx --data uneven.csv --loss cross-entropy --class-weights balanced --epochs 2 --threads 1 --quiet --out balanced
for what in balanced balanced/model.onnx; do
    for weights in balanced weights.npy; do
        "$dpexec" eval $what --data uneven.csv --loss cross-entropy --class-weights $weights --quiet
    done >evals
    check "of an evaluation of $what" test "$(grep -c eval_loss evals) $(uniq evals | grep -c '')" = "2 1"
done
check "the run's own" test "$("$dpexec" eval balanced --data uneven.csv --quiet)" = "$(head -1 evals)"

# A list of columns that is cut off says how many more there are.
{ seq -s, -f 'measurement_%02g' 40; seq -s, 40; } >wide.csv
"$dpexec" train line.onnx --data wide.csv,target=none --loss mse >"$DIR/log" 2>&1
refused 2 "target=cit: no such column, did you mean city? (has: " "$dpexec" train line.onnx --data price.csv,target=cit --loss mse
listed=$(grep -o "'measurement_[0-9]*'" "$DIR/log" | sort -u | grep -c '')
check "columns" test "$listed" -gt 5 -a "$listed" -lt 40
check "and how many more" grep -q "' and $((40 - listed)) more)" "$DIR/log"

# Categories that no training row has are said: in other files, and in the rows that --val-split holds back.
printf 'age,size,city\n1,2,Oslo\n3,4,Paris\n5,6,\n7,8,"Rome, Lazio"\n' >abroad.csv
unseen="abroad.csv: column 'city': 2 rows have a category that no training row has, first 'Paris' in line 3; it sets no indicator"
says "dpexec: warning: --data: $unseen" "$dpexec" run run/model.onnx abroad.csv -o abroad_y.csv --threads 1
says "column 'city': 1 row has a category that no training row has, first 'Paris' in line 3;" \
    "$dpexec" run run/model.onnx abroad.csv,limit=3 -o abroad_y.csv --threads 1
sed 's/$/,1/; 1s/,1$/,price/' abroad.csv >abroad_price.csv
says "dpexec: warning: --val: abroad_price.csv: column 'city': 2 rows have" "$dpexec" train line.onnx --data csv:price.csv,target=price \
    --val abroad_price.csv,target=price "${how[@]}"
says "dpexec: warning: --data: abroad_price.csv: column 'city': 2 rows have" "$dpexec" eval run/model.onnx \
    --data abroad_price.csv,target=price --loss mse --threads 1
check "none is said" test -z "$("$dpexec" run run/model.onnx csv:price.csv -o features.csv --threads 1 2>&1 | grep warning)"
printf 'age,size,city,price\n' >rare.csv
for i in 1 2 3 4 5 6 7 8; do printf '%d,%d,%s,%d\n' $i $i $([ $i -lt 8 ] && echo Oslo || echo Paris) $i; done >>rare.csv
says "dpexec: warning: --data: rare.csv: column 'city': 1 row has a category that no training row has, first 'Paris' in line 9;" \
    "$dpexec" train three.onnx --data csv:rare.csv,target=price --val-split 0.25,last "${how[@]}"

# --val-split keeps the rows of a group together: all rows that are held back have a `copy` that no training row has.
awk 'BEGIN { print "patient,copy,x,target"; for (i = 0; i < 60; i++) { g = (i * i * 7 + i) % 13; printf "P%d,P%d,%d,%d\n", g, g, i % 7, i } }' >groups.csv
grouped=(--data groups.csv --val-split 0.3,group=patient --loss mse --optimizer sgd --lr 0.001 --batch-size 8 --threads 1)
check "groups" "$dpexec" train narrow.onnx "${grouped[@]}" --epochs 2 --devices cpu*2 --out grouped
mv check.log groups.log
held=$(sed -n 's/.*evaluates on \([0-9]*\) held out.*/\1/p' groups.log)
check "a part is held back" test "${held:-0}" -ge 18 -a "${held:-60}" -lt 40
check "whole groups" grep -q "column 'copy': $held rows have a category that no training row has" groups.log
check "groups in two processes" "$dpexec" launch -n 2 -- train narrow.onnx "${grouped[@]}" --epochs 2 --devices cpu --out grouped2
check "the same groups" cmp grouped/model.onnx grouped2/model.onnx
check "one epoch" "$dpexec" train narrow.onnx "${grouped[@]}" --epochs 1 --devices cpu*2 --out grouped3
check "another" "$dpexec" train narrow.onnx "${grouped[@]}" --epochs 2 --devices cpu*2 --resume grouped3
check "the same groups when resumed" cmp grouped/model.onnx grouped3/model.onnx
check "evaluate without groups" "$dpexec" eval grouped/model.onnx --data groups.csv,limit=5 --loss mse --threads 1
refused 2 "group=pat: no such column (has: 'patient', 'copy', 'x', 'target')" "$dpexec" train narrow.onnx "${grouped[@]/patient/pat}"
refused 2 "group=target: it is the target" "$dpexec" train narrow.onnx "${grouped[@]/patient/target}"
sed '4s/^P[0-9]*,/,/' groups.csv >nobody.csv
refused 1 "line 4, column 'patient': the group is missing" "$dpexec" train narrow.onnx "${grouped[@]/groups.csv/nobody.csv}"

# Classes by name.
check "classes" "$dpexec" train scores.onnx --data csv:kinds.csv,target=kind --val csv:kinds.csv,target=kind --loss cross-entropy \
    --metric accuracy --batch-size 20 --epochs 4 --optimizer adam --lr 0.1 --threads 1 --quiet --out kinds
check "classes by name" "$dpexec" run kinds/model.onnx flats.csv -o kinds_y.csv --threads 1
says "row,class,cheap,dear,luxury" head -1 kinds_y.csv
check "a class for each" grep -qE '^3,(cheap|dear|luxury),' kinds_y.csv

says "3 classes" "$dpexec" data csv:kinds.csv,target=kind

# Any number of workers and processes gives the same bytes, and so does a run that is resumed.
split=(--data csv:price.csv,target=price --val-split 0.2 --loss mse --optimizer adam --lr 0.01 --batch-size 9 --threads 1 --quiet)
check "one process" "$dpexec" train line.onnx "${split[@]}" --devices cpu*3 --epochs 4 --out one
check "four workers" "$dpexec" train line.onnx "${split[@]}" --devices cpu*3 --epochs 4 --workers 4 --out workers
check "three processes" "$dpexec" launch -n 3 -- train line.onnx "${split[@]}" --devices cpu --epochs 4 --out three
check "two epochs" "$dpexec" train line.onnx "${split[@]}" --devices cpu*3 --epochs 2 --out resumed
check "two more" "$dpexec" train line.onnx "${split[@]}" --devices cpu*3 --epochs 4 --resume resumed
for run in workers three resumed; do
    check "$run: the same model" cmp one/model.onnx $run/model.onnx
    check "$run: the same fit" cmp one/data.json $run/data.json
    check "$run: the same preprocessing" cmp one/preprocess.onnx $run/preprocess.onnx
done

# Rank 0 fits for all processes, which must have the same rows: all of them name the rank whose file differs, before a step is made.
sed '3s/^[^,]*,/99,/' price.csv >cell.csv
sed 's/,Oslo,/,Olso,/' price.csv >city.csv
sed '$d' price.csv >short.csv
sed '1s/size/area/' price.csv >name.csv
for other in "cell rows '60, of digest" "city rows '60, of digest" "short rows '59, of digest" "name columns '4: 'age', 'area', 'city', 'price''"; do
    file=${other%% *}
    check "$file.csv differs" differ price.csv "$file.csv"
    next_port
    for rank in 0 1 2; do
        data=price.csv
        [ $rank != 1 ] || data=$file.csv
        start $rank 3 train line.onnx --data "csv:$data,target=price" --loss mse --optimizer sgd --threads 1 --quiet --out "$file-$rank"
    done
    wait
    for rank in 0 1 2; do
        tells $rank 2 "the processes were started with different settings: rank 1 has --data ${other#* }"
    done
done
next_port
start 0 2 train line.onnx --data csv:price.csv,target=price --loss mse --optimizer sgd --threads 1 --quiet --out bad-0
start 1 2 train line.onnx --data csv:bad.csv,target=price,numeric=size --loss mse --optimizer sgd --threads 1 --quiet
wait
tells 0 1 "rank 1 of 2: bad.csv: line 3, column 'size': expected a number, found 'abc'"

# Inputs that are called as columns.
check "named inputs" "$dpexec" train named.onnx --data csv:price.csv,target=price "${how[@]}" --out named

refused 2 "the columns make 6 features, the model's input 'x' takes 5: 'age', 'size', 'city' 4" \
    "$dpexec" train narrow.onnx --data csv:price.csv,target=price "${how[@]}" --out bad
refused 2 "which column is the target? target=price, or another column" "$dpexec" train line.onnx --data price.csv "${how[@]}" --out bad
refused 2 "column 'size' holds 3 numbers, but 'abc' in line 3" "$dpexec" train line.onnx --data bad.csv,target=price "${how[@]}" --out bad
refused 1 "line 3, column 'size': expected a number, found 'abc'; line 5, column 'price': the target is missing" \
    "$dpexec" train line.onnx --data bad.csv,target=price,numeric=size "${how[@]}" --out bad
refused 2 "there is no option targt" "$dpexec" train line.onnx --data price.csv,targt=price "${how[@]}" --out bad
refused 1 "no column 'age', which the training data have" "$dpexec" eval run/model.onnx --data kinds_y.csv --loss mse --threads 1
refused 2 "neither the model's metadata nor a data.json beside it" "$dpexec" run line.onnx flats.csv
refused 2 "-o is for the predictions of a source" "$dpexec" run line.onnx -o y.csv
finish
