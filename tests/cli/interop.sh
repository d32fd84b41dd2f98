#!/bin/bash
# What training exports is an inference model in other runtimes: every model of models/, exports of training mode with every
# dropout that frameworks write, and the spellings of all opsets, trained for two steps and compared with ONNX Runtime and
# onnx.reference.  The runtimes are in BUILD_DIR/python: tests/interop/install.sh BUILD_DIR.
. "$(dirname "$0")/lib.sh"
python=$build/python/bin/python
if ! cmp -s tests/interop/requirements.txt "$build/python/requirements.txt"; then
    fail "no runtimes to compare with: tests/interop/install.sh $build installs them"
    finish
fi

mkdir "$DIR/spellings"
check "spellings" "$python" tests/interop/spellings.py "$DIR/spellings" 7 9 10 11 12 13 15 17 18 21
"$python" tests/interop/train.py "$dpexec" "$DIR/runs" models/*.onnx tests/interop/models/*.onnx "$DIR"/spellings/spellings_*.onnx >"$DIR/log" 2>&1
while read -r line; do
    case $line in
    FAILED:*) fail "${line#FAILED: }" ;;
    *" outputs agree, "*) pass ;;
    *) fail "$line" ;;
    esac
done <"$DIR/log"
check "all models were tried" test "$(grep -c . "$DIR/log")" = "$(ls models/*.onnx tests/interop/models/*.onnx "$DIR"/spellings/spellings_*.onnx | wc -l)"

# The networks of dpexec new, as they begin.
mkdir "$DIR/new"
check "networks" "$python" tests/cli/new.py make "$dpexec" "$DIR/new"
"$python" -c "import numpy, sys; numpy.save(sys.argv[1], numpy.array([2, 5, 1], numpy.int32))" "$DIR/lengths.npy"
for model in "$DIR"/new/*.onnx; do
    others=()
    case $model in */texts.onnx) others=(--no-reference) ;; esac     # onnx.reference (1.22) ignores an LSTM's sequence_lens
    says "outputs agree" "$python" tests/interop/compare.py "$dpexec" "$model" --size T=5 --input lengths="$DIR/lengths.npy" "${others[@]}"
done

# The head of a new vit is zero, and so are its outputs.
check "vit trains" "$dpexec" train "$DIR/new/vit.onnx" --data "$DIR/new/vit.npz" --loss cross-entropy --steps 4 --lr 0.05 --batch-size 4 --threads 1 \
    --out "$DIR/vit"
says "outputs agree" "$python" tests/interop/compare.py "$dpexec" "$DIR/vit/model.onnx"

# What draws random numbers for anything else is kept, and said.
out=$DIR/noise
check "data" "$python" tests/interop/data.py "$DIR/spellings/noise.onnx" "$DIR/noise.npz"
says "draws random numbers in evaluation, inference and an exported model too" \
    "$dpexec" "$DIR/spellings/noise.onnx" --data "$DIR/noise.npz" --loss cross-entropy --batch-size 4 --steps 1 --threads 1 --out "$out"
check "noise is kept" "$python" -c "
import onnx, sys
sys.exit('RandomNormalLike' not in [n.op_type for n in onnx.load(sys.argv[1]).graph.node])" "$out/model.onnx"

# The preprocessing of a table takes raw columns.
check "tables" "$python" tests/cli/table.py "$DIR"
says "price: 360 features agree" "$python" tests/interop/table.py "$dpexec" "$DIR"
check "rows that training has not seen" grep -q "^flats: 12 features agree" "$DIR/says.log"
check "ids of categories, of rank 1 and 2" test "$(grep -c "^ids agree" "$DIR/says.log")" = 2

# Exports that contain the preprocessing of images.
says "joined outputs agree" "$python" tests/interop/joined.py "$dpexec" "$DIR"

# Steps in ONNX's operators.
"$python" tests/interop/standard.py "$dpexec" "$graph_transform" "$DIR/standard" >"$DIR/log" 2>&1
while read -r line; do
    case $line in
    *" steps agree, "*) pass ;;
    *) fail "${line#FAILED: }" ;;
    esac
done <"$DIR/log"
check "all of them" test "$(grep -c . "$DIR/log")" = 10

# Branches that data or sizes decide are an If again.
check "branches" "$python" tests/interop/branches.py "$dpexec" "$DIR/branches" tests/api/branches_{pick,loop,sized}.onnx

# Inputs that the command line gives.
"$python" tests/interop/given.py "$dpexec" "$DIR/given" >"$DIR/log" 2>&1
while read -r line; do
    case $line in
    *" outputs agree, ['x']") pass ;;
    *) fail "${line#FAILED: }" ;;
    esac
done <"$DIR/log"
check "all inputs that are given" test "$(grep -c . "$DIR/log")" = 5

# The model alone, where graphs stood around it.
around=(--preprocess tests/api/attached_image.onnx --threads 1 --quiet)
cat >"$DIR/images.py" <<'END'
import sys

import numpy as np

rng = np.random.default_rng(3)
image = rng.integers(0, 256, (9, 6)).astype(np.uint8)
np.save(sys.argv[1] + "/image.npy", image)
np.savez(sys.argv[1] + "/images.npz", image=image, label=rng.integers(0, 4, 9), place=rng.standard_normal((9, 2)))
END
cat >"$DIR/alone.py" <<'END'
import sys

import numpy as np
import onnx
import onnxruntime

folder = sys.argv[1]
model = onnx.load(folder + "/run/model.onnx")
onnx.checker.check_model(model, full_check=True)
assert [i.name for i in model.graph.input] == ["x"]
image = onnxruntime.InferenceSession("tests/api/attached_image.onnx", providers=["CPUExecutionProvider"])
x, = image.run(None, {"image": np.load(folder + "/image.npy")})
session = onnxruntime.InferenceSession(folder + "/run/model.onnx", providers=["CPUExecutionProvider"])
for output, y in zip(session.get_outputs(), session.run(None, {"x": x})):
    assert abs(y - np.load(f"{folder}/predicted/{output.name}.npy")).max() < 1e-10
END
check "images" "$python" "$DIR/images.py" "$DIR"
check "a criterion and preprocessing" "$dpexec" tests/api/attached_net.onnx "${around[@]}" --criterion tests/api/attached_both_new.onnx \
    --data "$DIR/images.npz" --batch-size 3 --replicas 2 --epochs 2 --out "$DIR/run"
check "predictions" "$dpexec" run "$DIR/run/model.onnx" "${around[@]}" --input "$DIR/image.npy" --out "$DIR/predicted"
check "the model alone" "$python" "$DIR/alone.py" "$DIR"
finish
