#!/bin/bash
# Texts of a table as token ids: those of Hugging Face's tokenizers (reviews_cases.py), cut, padded and masked; losses are those that
# NumPy computes (reviews.py).  Needs python3-numpy and python3-onnx.
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-/usr/bin/python3}
check "files" "$python" tests/cli/reviews.py "$DIR"
cp tests/cli/reviews/reviews.csv tests/cli/tokenize/{gpt2,llama3}.json "$DIR"
cd "$DIR" || exit 1
how=(--loss cross-entropy --optimizer sgd --lr 0.001 --batch-size 12 --steps 1 --threads 1 --quiet)
texts=reviews.csv,target=label,text=review

n=0
while read -r model kind expected options; do
    data=$texts${options/TOKENIZER/$kind.json}
    found=$("$dpexec" train "$model.onnx" --data "$data" "${how[@]}" 2>&1 | sed -n 's/.*, loss //p')
    check "$model of $data: '$found', expected $expected" near "$found" "$expected" 2e-5
    n=$((n + 1))
done <losses.txt
check "all losses" test $n = 18

# The ids themselves; evaluation and predictions take column, tokenizer, block and padding from the run.
gpt2=$texts,tokenizer=gpt2.json,drop=stars
check "train" "$dpexec" train open.onnx --data "$gpt2,block=16,padding=7" --val "$texts" "${how[@]}" --out run
cp run/data.json .
check "run" "$dpexec" run same.onnx reviews.csv -o found.csv --threads 1
check "the ids of tokenizers" diff <(tail -n +2 found.csv | cut -d, -f2- | tr , ' ') padded.txt
{ cat reviews.csv; for i in {2..40}; do tail -n +2 reviews.csv; done; } >many.csv
for n in 1 5; do
    check "$n threads" "$dpexec" run same.onnx many.csv -o many.$n --threads 1 --workers $n
    check "$n threads: the ids of tokenizers" diff <(tail -n +2 many.$n | cut -d, -f2- | tr , ' ') <(for i in {1..40}; do cat padded.txt; done)
done
rm data.json
says "6 of 12 texts are cut to 8 tokens, the longest has 40" "$dpexec" train open.onnx --data "$gpt2,block=8" "${how[@]}"
check "evaluate" "$dpexec" eval run/model.onnx --data "$texts" --loss cross-entropy --metric accuracy --threads 1
check "no preprocessing without features" test ! -e run/preprocess.onnx
printf 'review\ngood\n"well, well"\n' >new.csv
check "predict" "$dpexec" run run/model.onnx new.csv -o new_y.csv --threads 1
check "classes by name" grep -qE '^3,(good|bad),' new_y.csv
check "another tokenizer of the same bytes" cp gpt2.json moved.json
rm gpt2.json
refused 1 "the tokenizer of the training run is missing: tokenizer=FILE.json says where it is" "$dpexec" run run/model.onnx new.csv
check "moved" "$dpexec" run run/model.onnx new.csv,tokenizer=moved.json -o moved_y.csv --threads 1
check "the same predictions" cmp new_y.csv moved_y.csv
refused 2 "llama3.json is not the tokenizer of the training run" "$dpexec" run run/model.onnx new.csv,tokenizer=llama3.json
refused 2 "text=stars: training took the texts of column 'review'" "$dpexec" eval run/model.onnx --loss cross-entropy \
    --data reviews.csv,target=label,text=stars,tokenizer=moved.json
mv moved.json gpt2.json

# Any number of workers and processes, and a resumed run, give the same bytes.
split=(--data "$texts,tokenizer=gpt2.json" --val-split 0.25 --loss cross-entropy --optimizer adam --lr 0.01 --batch-size 3 --threads 1 --quiet)
check "one process" "$dpexec" train rest.onnx "${split[@]}" --devices cpu*3 --epochs 4 --out one
check "three processes" "$dpexec" launch -n 3 -- train rest.onnx "${split[@]}" --devices cpu --workers 2 --epochs 4 --out three
check "two epochs" "$dpexec" train rest.onnx "${split[@]}" --devices cpu*3 --epochs 2 --out resumed
check "two more" "$dpexec" train rest.onnx "${split[@]}" --devices cpu*3 --epochs 4 --resume resumed
check "the same in three processes" cmp one/model.onnx three/model.onnx
check "the same when resumed" cmp one/model.onnx resumed/model.onnx
says "2 classes: 0 (bad): 7, 1 (good): 5" "$dpexec" data "$texts"

refused 2 "line 2, column 'review': token 5 has id 419, but the model's input 'input_ids' takes ids below 300" \
    "$dpexec" train few.onnx --data "$gpt2" "${how[@]}"
refused 2 "tokenizer=, block= and padding= are for a column of texts: text=COL" "$dpexec" train open.onnx --data reviews.csv,block=3 "${how[@]}"
refused 2 "text=revue: no such column" "$dpexec" train open.onnx --data reviews.csv,target=label,text=revue "${how[@]}"
refused 2 "text=label: it is the target" "$dpexec" train open.onnx --data reviews.csv,target=label,text=label "${how[@]}"
refused 2 "is a second column" "$dpexec" train open.onnx --data reviews.csv,target=label,text=review+stars "${how[@]}"
refused 2 "padding: expected a whole number from 0" "$dpexec" train open.onnx --data "$texts,padding=-1" "${how[@]}"
refused 2 "the id that pads is 600, and input 'input_ids' takes ids below 506: padding=ID gives another" \
    "$dpexec" train open.onnx --data "$texts,padding=600" "${how[@]}"
refused 1 "cannot open" "$dpexec" train open.onnx --data "$texts,tokenizer=none.json" "${how[@]}"
finish
