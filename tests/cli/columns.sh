#!/bin/bash
# Which columns of a table feed which input and target of a model, and in which form: losses are those that NumPy computes
# (columns.py), ids are seen as they are, and what cannot be is named.  Needs python3-numpy and python3-onnx.
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-/usr/bin/python3}
check "files" "$python" tests/cli/columns.py "$DIR"
cd "$DIR" || exit 1
how=(--optimizer sgd --lr 0.001 --batch-size 24 --steps 1 --threads 1 --quiet)

n=0
while read -r model loss expected data flags; do
    found=$("$dpexec" train "$model.onnx" --data "$data" $flags --loss "$loss" "${how[@]}" 2>&1 | sed -n 's/.*, loss //p')
    check "$model $loss of $data $flags: '$found', expected $expected" near "$found" "$expected" 2e-5
    n=$((n + 1))
done <losses.txt
check "all losses" test $n = 18

# Ids: a number is itself, a category has its place; the run keeps which columns an input gets.
check "train on ids" "$dpexec" train ids.onnx --data people.csv,target=price --map x=user+city --loss mse "${how[@]}" --out run
check "the columns are kept" grep -q '"x": "user+city"' run/data.json
cp run/data.json .
check "run" "$dpexec" run same_ids.onnx people.csv -o found.csv --threads 1
check "ids" diff <(tail -n +2 found.csv | cut -d, -f2,3 | tr , ' ') ids.txt
check "evaluate without --map" "$dpexec" eval run/model.onnx --data people.csv,target=price --loss mse --threads 1
printf 'user,city\n3,Paris\n' >new.csv
refused 2 "new.csv, line 2, column 'city': no training row has the category 'Paris', and the embedding of input 'x' has no row for unknown categories" \
    "$dpexec" run same_ids.onnx new.csv
rm data.json
says "columns 'age', 'size', 'rent', 'owns', 'grade' feed no input" "$dpexec" train ids.onnx --data people.csv,target=price \
    --map x=user+city --loss mse "${how[@]}"

# An id that no row of the embedding has, and a category of its own behind the others where one has.
tail -n +2 people.csv | cut -d, -f4,5 | sed 's/^NA/Rome/; 1i city,price' >cities.csv
check "five rows" "$dpexec" train five.onnx --data cities.csv,target=price --loss mse "${how[@]}" --out five
printf 'city\nOslo\nParis\n' >new.csv
says "first 'Paris' in line 3; it is the last id" "$dpexec" run five/model.onnx new.csv -o new_y.csv --threads 1
check "it has a prediction" test "$(grep -c '' new_y.csv)" = 3
printf 'Lima,1\n' | cat cities.csv - >many.csv
check "as many as rows" "$dpexec" train five.onnx --data cities.csv,target=price --loss mse "${how[@]}"
check "all rows" "$dpexec" train five.onnx --data many.csv,target=price --loss mse "${how[@]}" --out all
refused 2 "new.csv, line 3, column 'city': no training row has the category 'Paris', and the embedding of input 'x' has no row for unknown categories" \
    "$dpexec" run all/model.onnx new.csv -o new_y.csv --threads 1
printf 'Bonn,3\n' | cat many.csv - >more.csv
refused 2 "column 'city' has 6 categories, but the embedding of input 'x' has 5 rows" \
    "$dpexec" train five.onnx --data more.csv,target=price --loss mse "${how[@]}"
refused 2 "people.csv, line 2, column 'size': input 'x' takes ids, whole numbers from " \
    "$dpexec" train ids.onnx --data people.csv,target=price --map x=user+size --loss mse "${how[@]}"
printf 'a,b,y\n1,2,3\n9007199254740993,2,3\n' >large.csv       # 2^53 + 1, which no float64 is
refused 2 "large.csv, line 3, column 'a': input 'x' takes ids, whole numbers from " \
    "$dpexec" train ids.onnx --data large.csv,target=y --loss mse "${how[@]}"
refused 2 "takes ids, whole numbers from 0 to 4, found " \
    "$dpexec" train five.onnx --data people.csv,target=price --map x=age --loss mse "${how[@]}"

refused 2 "--map x=age+shoe: no column 'shoe' (has: 'age'" \
    "$dpexec" train one.onnx --data people.csv,target=price --map x=age+shoe --loss mse "${how[@]}"
refused 2 "--map x=age+price: column 'price' is the target" \
    "$dpexec" train one.onnx --data people.csv,target=price --map x=age+price --loss mse "${how[@]}"
refused 2 "--map x=age+age: column 'age' is given twice" \
    "$dpexec" train one.onnx --data people.csv,target=price --map x=age+age --loss mse "${how[@]}"
refused 2 "people.csv: target=price: it is given twice" \
    "$dpexec" train two.onnx --data people.csv,target=price+price --map x=age+size --loss mse "${how[@]}"
refused 2 "people.csv: target=weight: no such column (has: 'age'" \
    "$dpexec" train two.onnx --data people.csv,target=price+weight+rent --map x=age+size --loss mse "${how[@]}"
refused 2 "the columns make 1 feature, the model's input 'x' takes 2: 'size'" \
    "$dpexec" train two.onnx --data people.csv,target=price+rent,drop=user+city+owns+grade+age --loss mse "${how[@]}"
refused 2 "several targets are numbers, and column 'owns' holds categories, such as " \
    "$dpexec" train two.onnx --data people.csv,target=price+owns --map x=age+size --loss mse "${how[@]}"
refused 2 "a class loss takes one column of classes" \
    "$dpexec" train two.onnx --data people.csv,target=price+grade --map x=age+size --loss cross-entropy "${how[@]}"
refused 2 "the target of the training data is target=price" "$dpexec" eval run/model.onnx --data people.csv,target=rent --loss mse
finish
