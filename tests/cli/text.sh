#!/bin/bash
# text: and tokens: as the data of a run: any number of processes, and a run that is stopped and resumed, write the same bytes; the ids
# of a text are kept where they can be written; ids that the model's embedding lacks are refused before training.
. "$(dirname "$0")/lib.sh"
tokenizer=tests/cli/tokenize/gpt2.json
mkdir "$DIR/data"
cp docs/reference/semantics.md "$DIR/data/book.txt"
text="text:$DIR/data/book.txt"
gpt=(models/transformer.onnx --loss cross-entropy --val-split 0.1 --optimizer adamw --lr 0.001 --batch-size 12 --replicas 3 --seed 5
     --threads 1 --quiet)
run=("${gpt[@]}" --data "$text,limit=120" --epochs 2)       # 9 steps an epoch

check "one process" "$dpexec" train "${run[@]}" --out "$DIR/one"
check "three processes" "$dpexec" launch -n 3 -- train "${run[@]}" --workers 2 --out "$DIR/three"
check "the same in three processes" same_run "$DIR/three" "$DIR/one"
for n in 1 3; do
    # Within the second epoch, whose windows lie elsewhere than those of the first.
    check "steps in $n" "$dpexec" launch -n $n -- train "${run[@]/#2/1}" --out "$DIR/part$n"
    check "stopped in $n" "$dpexec" launch -n $n -- train "${gpt[@]}" --data "$text,limit=120" --steps 13 --resume "$DIR/part$n"
    check "resumed in $n" "$dpexec" launch -n $((4 - n)) -- train "${run[@]}" --workers 4 --resume "$DIR/part$n"
    check "the same when resumed after $n" cmp "$DIR/part$n/model.onnx" "$DIR/one/model.onnx"
done

# Ids of a tokenizer: kept beside the text, taken again, and made anew for another text.
ids=("${gpt[@]}" --data "$text,tokenizer=$tokenizer" --steps 2)
refused 2 "takes ids below 256, the rows of its embedding" "$dpexec" train "${ids[@]}"
kept=("$DIR"/data/book.txt.*.npy)
check "ids beside the text" test -s "${kept[0]}"
check "are those of dpexec tokenize" "$dpexec" tokenize $tokenizer "$DIR/data/book.txt" -o "$DIR/data/ids.npy" --quiet
check "to the byte" cmp "$DIR/data/ids.npy" "${kept[0]}"
refused 2 "ids.npy: token" "$dpexec" train "${gpt[@]}" --data "tokens:$DIR/data/ids.npy" --steps 2
rm "${kept[0]}"

says "broken.txt: not UTF-8 in 39 places, the first at byte 143; read as U+FFFD" "$dpexec" data \
    "text:tests/cli/tokenize/broken.txt,block=8,tokenizer=$tokenizer,cache=$DIR/data"

# A folder that cannot be written: root can write anywhere, and becomes another user.
chmod 755 "$DIR" "$DIR/data"
mkdir "$DIR/home"
cp models/transformer.onnx $tokenizer "$DIR/data"
as=()
if [ "$(id -u)" = 0 ]; then
    chown 65534 "$DIR/home"
    as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
else
    chmod a-w "$DIR/data"
fi
elsewhere=(env DPEXEC_CACHE_DIR="$DIR/home/a/b" "${as[@]}" "$dpexec" data "$text,block=64,tokenizer=$DIR/data/gpt2.json")
if [ "$(id -u)" = 0 ] && ! "${as[@]}" test -x "$dpexec"; then
    skip "ids of a text whose folder cannot be written" "$dpexec cannot be run by another user"
else
    check "reads" "${elsewhere[@]}"
    check "ids in the cache folder" test -s "$DIR"/home/a/b/book.txt.*.npy
    check "none beside the text" test ! -e "${kept[0]}"
    check "reads again" "${elsewhere[@]}"
    refused 1 "cache=DIR says where" env DPEXEC_CACHE_DIR= "${as[@]}" "$dpexec" data "$text,block=64,tokenizer=$DIR/data/gpt2.json"
fi
chmod u+w "$DIR/data"

# Files stay where they are: ids and arrays of 512 MiB (a hole in the file) with 256 MiB for everything that the process writes.
truncate -s 512M "$DIR/large.bin"
mkdir "$DIR/large"
"${PYTHON:-/usr/bin/python3}" - "$DIR/large" <<'END'
import sys
import numpy as np
for name, dtype, shape in ("x", "f4", (1 << 21, 64)), ("target", "i8", (1 << 21,)):
    with open(f"{sys.argv[1]}/{name}.npy", "wb") as f:
        np.lib.format.write_array_header_1_0(f, {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": shape})
        f.truncate(f.tell() + np.dtype(dtype).itemsize * int(np.prod(shape)))
END
small() { (ulimit -d 262144 && "$dpexec" train "$@" --steps 2 --batch-size 8 --loss cross-entropy --threads 1 --quiet); }
if grep -q '^DPX_SANITIZE:[A-Z]*=.' "$build/CMakeCache.txt"; then
    skip "files larger than memory" "a sanitizer needs memory of its own"
else
    check "ids larger than memory" small models/transformer.onnx --data "tokens:$DIR/large.bin"
    check "arrays larger than memory" small models/mlp.onnx --data "$DIR/large"
fi
finish
