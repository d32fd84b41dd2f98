#!/bin/bash
# The forms in which numpy stores one and the same data: 16-bit floats, big-endian numbers, columns before rows (Fortran order),
# labels and tokens as floats.  The same values train to the same bytes; what would lose meaning is refused by row and value.
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
refused 2 "no array is called like input 'x' [?,64] float32, and 2 fit; the data has 'a' [43,64] float32, 'b' [43,64] float32, 'target' [43] int64" \
    "${one[@]}" --data "$DIR/two_fit.npz"
refused 2 "no array for input 'x' [?,64] float32: none is called so or fits; the data has 'a' [43,60] float32, 'target' [43] int64" \
    "${one[@]}" --data "$DIR/none_fits.npz"
refused 2 "the only one of its shape does not fit: text: the data's float64 becomes int64, but row 0 holds" "$dpexec" models/transformer.onnx \
    --data "$DIR/no_letters.npz" --loss cross-entropy --batch-size 10 --steps 1 --threads 1
refused 2 "3 arrays could be the target, name one with --target: 'labels' [43] int64, 'ids' [43] int64, 'wide' [43,65] float64" \
    "${one[@]}" --data "$DIR/with_others.npz"
refused 2 "no array 'lable' for the target; the data has 'images' [43,64] float32, 'labels'" "${one[@]}" --data "$DIR/called_otherwise.npz" --target lable

check "run without the name of the only input" "$dpexec" run models/mlp.onnx --input "$DIR/x.npy" --out "$DIR/run_unnamed" --quiet
check "which gives the same outputs" diff -r "$DIR/run_x" "$DIR/run_unnamed"
refused 2 "--input x is given twice" "$dpexec" run models/mlp.onnx --input "$DIR/x.npy" --input "x=$DIR/x.npy" --out "$DIR/none"
refused 2 "expected NAME=FILE.npy, for the model has 2 inputs" "$dpexec" run "$DIR/two_inputs.onnx" --input "$DIR/x.npy" --out "$DIR/none"

refused 2 "target: the data's float32 becomes int64, but row 3 holds 2.5" "$dpexec" models/mlp.onnx --data "$DIR/fraction.npz" "${how[@]}" --out "$DIR/none"
refused 2 "row 3 holds nan" "$dpexec" models/mlp.onnx --data "$DIR/nan.npz" "${how[@]}" --out "$DIR/none"
refused 2 "row 3 holds 1e+30" "$dpexec" models/mlp.onnx --data "$DIR/huge.npz" "${how[@]}" --out "$DIR/none"
refused 2 "row 2 holds" "$dpexec" models/transformer.onnx --data "$DIR/token_fraction.npz" "${how[@]}" --out "$DIR/none"
check "nothing was written" test ! -e "$DIR/none"
finish
