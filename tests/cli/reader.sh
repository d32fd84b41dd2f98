#!/bin/bash
# Every process of a world reads its own part of the data: the bytes of one process with as many devices, whatever the format, the order
# and the sizes of batches; no sample is read that another process takes; what is wrong in one part ends all.
# Needs python3-numpy.
. "$(dirname "$0")/lib.sh"
python=${PYTHON:-/usr/bin/python3}
data=tests/oracle/data

check "files" "$python" - "$DIR" <<'PY'
import gzip, io, os, struct, sys, zipfile
import numpy as np
out, data = sys.argv[1], 'tests/oracle/data/'
digits, fashion = (dict(np.load(f'{data}{n}.npz')) for n in ('digits', 'fashion'))
x, y = digits['x'], digits['target']

def folder(name, **arrays):
    os.mkdir(f'{out}/{name}')
    for k, v in arrays.items():
        np.save(f'{out}/{name}/{k}.npy', v)

def idx(name, array):
    array = np.ascontiguousarray(array.astype('u1'))
    raw = bytes([0, 0, 8, array.ndim]) + struct.pack(f'>{array.ndim}I', *array.shape) + array.tobytes()
    open(f'{out}/{name}', 'wb').write(raw)
    gzip.open(f'{out}/{name}.gz', 'wb').write(raw)

np.savez(f'{out}/stored.npz', x=x, target=y)
np.savez_compressed(f'{out}/deflated.npz', x=x, target=y)
# Stored ones as other programs write them: wide numbers wherever they may stand, a comment, something before the archive, two ways of
# packing, columns before rows.
def archive(name, comment=b'', packed=(), order='C', wide=False, before=b''):
    limit = zipfile.ZIP64_LIMIT
    zipfile.ZIP64_LIMIT = 100 if wide else limit
    with open(f'{out}/{name}.npz', 'wb') as f:
        f.write(before)
        with zipfile.ZipFile(f, 'w') as z:
            z.comment = comment
            for k, v in (('x', np.asarray(x, order=order)), ('target', y)):
                text = io.BytesIO()
                np.save(text, v)
                z.writestr(f'{k}.npy', text.getvalue(), zipfile.ZIP_DEFLATED if k in packed else zipfile.ZIP_STORED)
    zipfile.ZIP64_LIMIT = limit
archive('plain')
archive('wide', wide=True)
archive('comment', comment=b'of a camera')
archive('behind', before=b'#!/bin/sh\n')
archive('mixed', packed=('target',))
archive('standing', order='F')
whole = open(f'{out}/plain.npz', 'rb').read()
at = whole.index(x[20].tobytes())
open(f'{out}/spoilt.npz', 'wb').write(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
folder('folder', x=x, target=y)
folder('columns', x=np.asfortranarray(x), target=y.astype('f4'))
idx('images', (fashion['image'][:, 0] * 255).round())
idx('labels', fashion['target'])
bad = y.copy()
bad[17] = 12
folder('bad_label', x=x, target=bad)
bad = y.astype('f4')
bad[40] = 2.5
folder('fraction', x=x, target=bad)
folder('0', x=x, target=y)
folder('1', x=x, target=(y + 1) % 10)

# An input that no replica shares: its 3 numbers do not grow with the batch, so it is taken whole.
r = np.random.default_rng(5)
folder('table', x=r.standard_normal((42, 4)).astype('f4'), entry=r.integers(0, 7, 42), target=r.integers(0, 3, 42),
       scale=r.random(3).astype('f4'))

# Copies for each of two processes that hold NaN where the other one reads: neither in the own half of any batch, nor in the pieces that
# all compare (16 of 64 KiB, evenly spread, of an array above 1 MiB).
batch, n, width, piece = 1024, 16384, 64, 65536
big, label = r.standard_normal((n, width)).astype('f4'), r.integers(0, 10, n)
folder('big', x=big, target=label)
known = np.zeros(big.nbytes, bool)
for i in range(16):
    at = (big.nbytes - piece) // 15 * i
    known[at:at + piece] = True
known = known.reshape(n, -1).any(axis=1)
for rank in range(2):
    own = (np.arange(n) % batch) // (batch // 2) == rank
    part = big.copy()
    part[~own & ~known] = np.nan
    assert np.isnan(part).mean() > 0.3
    folder(f'big{rank}', x=part, target=label)
PY

mlp=(models/mlp.onnx --loss cross-entropy --lr 0.01 --momentum 0.9 --threads 1 --quiet)
cnn=(models/fashion_cnn.onnx --loss cross-entropy --lr 0.01 --threads 1 --quiet)

# what DIR FIELD: what the epochs' last steps say was read, one number an epoch.
what() { grep -o '"read":{[^}]*}' "$1/metrics.jsonl" | sed -E "s/.*\"$2\":([0-9]+).*/\1/" | tr '\n' ' '; }

# reads DIR ALL MOST FILES [MOST_OF_FILES]: samples' bytes of each epoch, by all and by the one that read most; the files' bytes by all,
# in the same terms, and by the one that read most, which of samples that are read where they lie are those samples' bytes.
reads() {
    check "$1: bytes of all" test "$(what "$DIR/$1" bytes)" = "$2 "
    check "$1: bytes of one" test "$(what "$DIR/$1" most_bytes)" = "$3 "
    check "$1: bytes of files" test "$(what "$DIR/$1" file_bytes)" = "$4 "
    check "$1: bytes of files of one" test "$(what "$DIR/$1" most_file_bytes)" = "${5:-$3} "
}

# same NAME N ARGS...: one process of N devices, and N processes of one; if N is 4, also 2 of 2.
same() {
    local name=$1 n=$2
    shift 2
    check "$name: one process" "$dpexec" "$@" --devices "cpu*$n" --out "$DIR/$name-1"
    check "$name: $n processes" "$dpexec" launch -n "$n" -- "$@" --out "$DIR/$name-$n"
    check "$name: the bytes of $n processes" same_run "$DIR/$name-1" "$DIR/$name-$n"
    [ "$n" = 4 ] || return 0
    check "$name: 2 processes of 2 devices" "$dpexec" launch -n 2 -- "$@" --devices 'cpu*2' --out "$DIR/$name-2x2"
    check "$name: the bytes of 2 processes of 2 devices" same_run "$DIR/$name-1" "$DIR/$name-2x2"
}

# zipped NAME [MEMBER]: bytes that the archive's members take in it.
zipped() {
    "$python" -c 'import sys, zipfile
print(sum(f.compress_size for f in zipfile.ZipFile(sys.argv[1]).infolist() if sys.argv[2] in f.filename))' "$DIR/$1.npz" "${2:-}"
}

# ---- formats, orders, sizes ----

# 43 samples of 264 bytes in batches of 10, 10, 10, 10 and 3: the first of two processes takes 5, 5, 5, 5, 2 of them, the first of three
# 4, 4, 4, 4, 1, of four 3, 3, 3, 3, 1.
all=$((43 * 264))
same folder 2 "${mlp[@]}" --data "$DIR/folder" --batch-size 10 --epochs 2
reads folder-1 "$all $all" "$all $all" "$all $all"
reads folder-2 "$all $all" "$((22 * 264)) $((22 * 264))" "$all $all"
same ordered 3 "${mlp[@]}" --data "$DIR/folder" --batch-size 10 --epochs 2 --no-shuffle
reads ordered-3 "$all $all" "$((17 * 264)) $((17 * 264))" "$all $all"
same four 4 "${mlp[@]}" --data "$DIR/folder" --batch-size 10 --epochs 1 --split chunk
reads four-4 "$all" "$((13 * 264))" "$all"
same dropped 4 "${mlp[@]}" --data "$DIR/folder" --batch-size 12 --drop-last --no-shuffle
reads dropped-4 $((36 * 264)) $((9 * 264)) $((36 * 264))
reads dropped-2x2 $((36 * 264)) $((18 * 264)) $((36 * 264))
same few 4 "${mlp[@]}" --data "$DIR/folder" --batch-size 3 --steps 4
reads few-4 $((12 * 264)) $((4 * 264)) $((12 * 264))
same groups 3 "${mlp[@]}" --data "$DIR/folder" --batch-size 5 --accumulate 4 --replicas 7 --val "$DIR/stored.npz" --metric accuracy
# What an archive stores as it is is read there.
same stored 2 "${mlp[@]}" --data "$DIR/stored.npz" --batch-size 10 --epochs 2
reads stored-2 "$all $all" "$((22 * 264)) $((22 * 264))" "$all $all"
check "the same data, stored" cmp "$DIR/stored-2/model.onnx" "$DIR/folder-2/model.onnx"
# What is unpacked is read once, by every process.
same deflated 2 "${mlp[@]}" --data "$DIR/deflated.npz" --batch-size 10
deflated=$(zipped deflated)
reads deflated-2 "$all" $((22 * 264)) $((2 * deflated)) "$deflated"
check "the same data, deflated" cmp "$DIR/deflated-1/model.onnx" <(cat "$DIR/deflated-2/model.onnx")
behind=$((2 * 128 + 43 * 264))
for kind in "plain $all" "wide $all" "comment $((2 * behind)) $behind" "behind $all" \
    "mixed $((2 * $(zipped mixed target) + 43 * 256)) $(($(zipped mixed target) + 22 * 256))" \
    "standing $((2 * (128 + 43 * 256) + 43 * 8)) $((128 + 43 * 256 + 22 * 8))"; do
    read -r name files most <<<"$kind"
    check "$name" "$dpexec" launch -n 2 -- "${mlp[@]}" --data "$DIR/$name.npz" --batch-size 10 --epochs 1 --out "$DIR/$name-2"
    reads "$name-2" "$all" $((22 * 264)) "$files" "$most"
    check "the same data, $name" cmp "$DIR/$name-2/model.onnx" "$DIR/deflated-2/model.onnx"
done
spoilt="spoilt.npz: x: damaged: the checksum is not the archive's"
for role in spoilt "plain.npz --val $DIR/spoilt"; do
    # shellcheck disable=SC2086     # several words
    refused 1 "$spoilt" "$dpexec" "${mlp[@]}" --data $DIR/$role.npz
    for n in 2 3; do
        refused 1 "$spoilt" "$dpexec" launch -n $n -- "${mlp[@]}" --data $DIR/$role.npz
        check "all of $n say so" test "$(grep -c 'spoilt.npz: x: damaged' "$DIR/refused.err")" = $n
    done
done
cp "$DIR/plain.npz" "$DIR/packed0.npz"
cp "$DIR/deflated.npz" "$DIR/packed1.npz"
check "packed in two ways" "$dpexec" launch -n 2 -- "${mlp[@]}" --data "$DIR/packed{rank}.npz" --batch-size 10 --out "$DIR/two-ways"
check "the same data, packed in two ways" cmp "$DIR/two-ways/model.onnx" "$DIR/deflated-2/model.onnx"
refused 1 "$spoilt" "$dpexec" eval models/mlp.onnx --loss cross-entropy --data "$DIR/spoilt.npz"
same columns 3 "${mlp[@]}" --data "$DIR/columns" --batch-size 10
# Columns are put in order once, by every process; the labels, of 4 bytes, lie as they are read.
columns=$((128 + 43 * 256))
reads columns-3 $((43 * 260)) $((17 * 260)) $((3 * columns + 43 * 4)) $((columns + 17 * 4))
same idx 2 "${cnn[@]}" --data "idx:$DIR/images,$DIR/labels" --batch-size 10 --no-shuffle
reads idx-2 $((46 * 785)) $((23 * 785)) $((46 * 785))
same packed 2 "${cnn[@]}" --data "idx:$DIR/images.gz,$DIR/labels.gz" --batch-size 10 --no-shuffle
check "the same images, packed" cmp "$DIR/idx-2/model.onnx" "$DIR/packed-2/model.onnx"
packed=$(cat "$DIR/images.gz" "$DIR/labels.gz" | wc -c)
reads packed-2 $((46 * 785)) $((23 * 785)) $((2 * packed)) "$packed"
# 42 samples in batches of 3, of which the processes have 2 and 1; what is taken whole is no part of a batch.
same table 2 tests/api/part_named.onnx --data "$DIR/table" --loss cross-entropy --batch-size 3 --lr 0.1 --threads 1 --quiet
reads table-1 $((42 * 32)) $((42 * 32)) $((42 * 32))
reads table-2 $((42 * 32)) $((28 * 32)) $((42 * 32))
same sizes 4 tests/api/part_named.onnx --data "$DIR/table" --loss cross-entropy --batch-size 3 --lr 0.1 --threads 1 --quiet
same inner 3 tests/cli/sequence_first/words.onnx --data tests/cli/sequence_first/data.npz --batch-size 4 --lr 0.5 --loss cross-entropy --threads 1 --quiet

# ---- nothing else is read ----

check "the whole" "$dpexec" launch -n 2 -- "${mlp[@]}" --data "$DIR/big" --batch-size 1024 --no-shuffle --out "$DIR/big-2"
check "own samples alone" "$dpexec" launch -n 2 -- "${mlp[@]}" --data "$DIR/big{rank}" --batch-size 1024 --no-shuffle --out "$DIR/own-2"
check "are enough" same_run "$DIR/big-2" "$DIR/own-2"
refused 1 'the loss of step 1 is nan' "$dpexec" launch -n 2 -- "${mlp[@]}" --data "$DIR/big0" --batch-size 1024 --no-shuffle --out "$DIR/nan"

# ---- going on with another number of processes ----

going=("${mlp[@]}" --batch-size 1000 --data)
check "four processes" "$dpexec" launch -n 4 -- "${going[@]}" "$DIR/big" --steps 5 --out "$DIR/went"
check "go on as two" "$dpexec" launch -n 2 -- "${going[@]}" "$DIR/big" --steps 12 --devices 'cpu*2' --resume "$DIR/went"
check "and as one" "$dpexec" "${going[@]}" "$DIR/big" --steps 20 --devices 'cpu*4' --resume "$DIR/went"
check "all at once" "$dpexec" "${going[@]}" "$DIR/big" --steps 20 --devices 'cpu*4' --out "$DIR/straight"
check "the same bytes" cmp "$DIR/straight/model.onnx" "$DIR/went/model.onnx"
refused 2 "--data by digest was" "$dpexec" "${going[@]}" "$DIR/big0" --steps 24 --devices 'cpu*4' --resume "$DIR/went"

# ---- what is wrong in one part ----

# Sample 17 is the eighth of the second batch: the last of three processes has it.
refused 1 "rank 2: --data $DIR/bad_label: sample 17: the label is 12, not one of 10 classes" \
    "$dpexec" launch -n 3 -- "${mlp[@]}" --data "$DIR/bad_label" --batch-size 10 --no-shuffle --out "$DIR/label"
check "the others name it" grep -qE "rank [01]: .*rank 2 of 3: element 7 of input 'target' is 12" "$DIR/refused.err"
# And row 40 is in the last third of the file.
refused 2 "cannot hold the value of row 40, 2.5" "$dpexec" launch -n 3 -- "${mlp[@]}" --data "$DIR/fraction" --batch-size 10 --out "$DIR/row"
check "the others name its rank" grep -qE "rank 0: .*rank 2 of 3: .*value of row 40, 2.5" "$DIR/refused.err"
refused 2 "rank 1 has --data of digest" "$dpexec" launch -n 2 -- "${mlp[@]}" --data "$DIR/{rank}" --batch-size 10
finish
