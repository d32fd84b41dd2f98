#!/bin/bash
# Inputs and outputs that are sequences, optional, lists or maps, against PyTorch in float64 (tests/cli/structure.py): five steps and the
# outputs of all samples, on 1 replica and on 3 and 5, whose parts are uneven or empty.
. "$(dirname "$0")/lib.sh"

here=tests/cli/structure
python=${PYTHON:-/usr/bin/python3}
serve_python
expected_losses() { grep "^$1 |" $here/torch.txt | cut -d'|' -f2; }

# same.py KIND CASE FOLDER: parameters of a model, or outputs in files, within 1e-12.
cat >"$DIR/same.py" <<'END'
import os
import sys

import numpy as np
import onnx
from onnx import numpy_helper

kind, case, folder = sys.argv[1:]
want = {n.split("/")[2]: a for n, a in np.load("tests/cli/structure/after.npz").items() if n.startswith(f"{case}/{kind}/")}
if kind == "after":
    got = {t.name: numpy_helper.to_array(t) for t in onnx.load(folder + "/model.onnx").graph.initializer}
else:
    got = {f[:-4]: np.load(os.path.join(folder, f)) for f in os.listdir(folder) if f.endswith(".npy")}
    assert set(got) == set(want), set(got) ^ set(want)
assert want
for n, a in want.items():
    assert got[n].shape == a.shape and abs(got[n] - a).max() <= 1e-12, (n, got[n].shape, a.shape)
END

train=("$dpexec" train --loss mse --logits scores --batch-size 4 --lr 0.1 --steps 5 --no-shuffle --threads 1 --quiet --plain-defaults)
trains() { # CASE MODEL DATA OPTIONS...
    local case=$1 model=$2 data=$3
    shift 3
    rm -rf "$DIR/run"
    check "$case $*" "${train[@]}" $here/$model.onnx --data $here/$data.npz "$@" --out "$DIR/run"
    check "$case $*: losses" near "$(losses "$DIR/run")" "$(expected_losses "$case")"
    check "$case $*: parameters" py "$DIR/same.py" after "$case" "$DIR/run"
}
for n in 1 2 3; do
    for model in sequences open; do
        for replicas in 1 3 5; do
            trains data$n $model data$n --replicas $replicas
            trains data${n}m $model data${n}m --replicas $replicas
        done
    done
done
trains data2m sequences data2m --devices 'cpu*3' --split chunk
trains data2m sequences data2m --devices 'cpu*3' --batch-input xs --batch-input m --batch-input target
trains data2m open data2m --devices 'cpu*3' --batch-input xs:-2 --batch-input m:-2 --batch-input target:-2
trains scripted scripted data3
trains scripted scripted data3 --replicas 3
trains exported exported mapped
trains exported exported mapped --replicas 3
for replicas in 1 3 5; do
    rm -rf "$DIR/run"
    check "criterion, $replicas" "${train[@]:0:2}" --criterion $here/criterion.onnx "${train[@]:6}" $here/sequences.onnx --data $here/data2.npz --replicas $replicas --out "$DIR/run"
    check "criterion, $replicas: losses" near "$(losses "$DIR/run")" "$(expected_losses criterion)"
    check "criterion, $replicas: parameters" py "$DIR/same.py" after criterion "$DIR/run"
done
rm -rf "$DIR/run"
check "two processes" together 2 "${train[@]:1}" $here/sequences.onnx --data $here/data3m.npz --devices 'cpu*2' --out "$DIR/run"
check "two processes: losses" near "$(losses "$DIR/run")" "$(expected_losses data3m)"
check "part of a run" "${train[@]/#5/2}" $here/open.onnx --data $here/data3m.npz --replicas 3 --out "$DIR/part"
check "goes on" "${train[@]}" $here/open.onnx --data $here/data3m.npz --replicas 3 --resume "$DIR/part"
check "goes on: parameters" py "$DIR/same.py" after data3m "$DIR/part"

# What is exported has tensors alone, in the eyes of onnx.checker too, and the formula's scores.
"$python" - "$DIR" <<'END'
import sys

import numpy as np

data = np.load("tests/cli/structure/data3m.npz")
for n in data.files:
    np.save(f"{sys.argv[1]}/{n}.npy", data[n])
np.save(sys.argv[1] + "/short.npy", data["xs.1"][:7])
np.save(sys.argv[1] + "/k.npy", np.array(2))
END
for data in data2 data2m; do
    rm -rf "$DIR/run" "$DIR/out"
    check "trained on $data" "${train[@]}" $here/sequences.onnx --data $here/$data.npz --replicas 3 --out "$DIR/run"
    given=(--input "xs.0=$DIR/xs.0.npy" --input "xs.1=$DIR/xs.1.npy")
    [ $data = data2 ] || given+=(--input "m=$DIR/m.npy")
    check "exported, $data" "$dpexec" run "$DIR/run/model.onnx" "${given[@]}" --out "$DIR/out"
    check "exported, $data, to others" "$python" - "$DIR" "$data" <<'END'
import sys

import numpy as np
import onnx
from onnx import numpy_helper

folder, there = sys.argv[1], sys.argv[2] == "data2m"
model = onnx.load(folder + "/run/model.onnx")
onnx.checker.check_model(model, full_check=True)
assert [i.name for i in model.graph.input] == ["xs.0", "xs.1"] + ["m"] * there
assert [o.name for o in model.graph.output] == ["scores", "all.0", "all.1"] + ["gate"] * there
p = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
x, y, m = (np.load(f"{folder}/{n}.npy") for n in ("xs.0", "xs.1", "m"))
scores = (np.tanh(x @ p["v"]) + np.tanh(x @ p["w"] + p["b"]) + np.tanh(y @ p["w"] + p["b"])) * (m if there else 1)
assert abs(np.load(folder + "/out/scores.npy") - scores).max() <= 1e-12
END
done

# Processes whose data have another structure are refused, by the input.
starts_apart() { # DATA of rank 1, WHAT rank 0 says
    next_port
    for r in 0 1; do
        local given=data2m
        [ $r = 0 ] || given=$1
        start $r 2 "${train[@]:1}" $here/sequences.onnx --data $here/$given.npz
    done
    wait
    tells 0 2 "$2"
}
starts_apart data2 "rank 1 has no input 'm' of type"
starts_apart data3m "rank 1 has input 'xs.2' of type 'float64', rank 0 has none"

# Structure that is told, against what the arrays have.
rm -rf "$DIR/run"
check "told" "${train[@]}" $here/sequences.onnx --data $here/data2.npz --input-members xs=2 --input-members m=absent --out "$DIR/run"
check "told: losses" near "$(losses "$DIR/run")" "$(expected_losses data2)"
says "input 'm' is optional, and absent: no array is called 'm'" "${train[@]/--quiet/--debug}" $here/sequences.onnx --data $here/data2.npz
says "warning: --val $here/data3.npz: array 'xs.2' is not used: the model has inputs to 'xs.1'" "${train[@]/--quiet/--debug}" \
    $here/sequences.onnx --data $here/data2.npz --val $here/data3.npz
refused 2 "the model has no input 'ys' that is a sequence or optional" "${train[@]}" $here/sequences.onnx --data $here/data2.npz --input-members ys=2
refused 2 "the model has no input 'xs.0' that is a sequence or optional" "$graph_transform" $here/sequences.onnx --loss mse --input-members xs=1 \
    --input-members m=absent --input-members xs.0=1
refused 2 "no array for input 'xs.2'" "${train[@]}" $here/sequences.onnx --data $here/data2.npz --input-members xs=3
refused 2 "input 'xs' cannot be absent: it is a sequence, and not optional" "${train[@]}" $here/sequences.onnx --data $here/data2.npz \
    --input-members xs=absent
refused 2 "input 'm' has one tensor, or is absent, found 2" "${train[@]}" $here/sequences.onnx --data $here/data2.npz \
    --input-members m=2
refused 2 "--input-members: expected NAME=N, NAME=present or NAME=absent, found 'xs'" "${train[@]}" $here/sequences.onnx \
    --data $here/data2.npz --input-members xs
refused 1 "input 'xs': the number of tensors of this sequence is unknown: give --input-members xs=N; input 'm': this optional may be present" \
    "$graph_transform" $here/sequences.onnx --loss mse
says "xs.1: split along axis 0 (N)" "$graph_transform" $here/sequences.onnx --loss mse --batch-size 4 --replicas 3 --input-members xs=2 \
    --input-members m=present --report
check "partitioned and not" "$graph_transform" $here/sequences.onnx --loss mse --batch-size 4 --replicas 3 --input-members xs=2 \
    --input-members m=present --verify

# Outputs: gathered, in parts, of a whole set; the gate is what the mask is, or no output.
given=(--input "xs.0=$DIR/xs.0.npy" --input "xs.1=$DIR/xs.1.npy")
for model in sequences open; do
    for how in "" "--replicas 3" "--devices cpu*3 --output-device host" "--devices cpu*3 --output-device 2"; do
        rm -rf "$DIR/out"
        check "run $how" "$dpexec" run $here/$model.onnx "${given[@]}" $how --out "$DIR/out"
        check "run $how: outputs" py "$DIR/same.py" before data2 "$DIR/out"
        rm -rf "$DIR/out"
        check "run with a factor $how" "$dpexec" run $here/$model.onnx "${given[@]}" --input "m=$DIR/m.npy" $how --out "$DIR/out"
        check "run with a factor $how: outputs" py "$DIR/same.py" before data2m "$DIR/out"
    done
done
rm -rf "$DIR/out"
check "each part" "$dpexec" run $here/sequences.onnx "${given[@]}" --devices 'cpu*3' --output-device each --out "$DIR/out"
"$python" - "$DIR/out" <<'END'
import os
import sys

import numpy as np

for n in ("scores", "all.0", "all.1"):
    np.save(f"{sys.argv[1]}/{n}.npy", np.concatenate([np.load(f"{sys.argv[1]}/{n}@r{r}.npy") for r in range(3)]))
    for r in range(3):
        os.remove(f"{sys.argv[1]}/{n}@r{r}.npy")
END
check "each part: outputs" py "$DIR/same.py" before data2 "$DIR/out"
check "predictions" "$dpexec" eval $here/sequences.onnx --data $here/data2m.npz --batch-size 4 --replicas 3 --predictions "$DIR/predictions" --quiet
check "predictions: outputs" py "$DIR/same.py" before data2m "$DIR/predictions"

# What data decide is interpreted, and takes a sequence by its tensors' names as well.
says "warning: interpreted" "$dpexec" run $here/counted.onnx --input "xs.0=$DIR/xs.0.npy" --input "xs.1=$DIR/xs.1.npy" --input "xs.2=$DIR/xs.2.npy" \
    --input "k=$DIR/k.npy" --out "$DIR/counted"
check "the first two" "$python" -c "
import numpy as np
a, b, y = (np.load('$DIR/' + n) for n in ('xs.0.npy', 'xs.1.npy', 'counted/scores.npy'))
assert (y == a + b).all()"

# What does not fit names the tensor.
for model in sequences open; do
    refused 1 "input 'xs.1' has 7" "$dpexec" run $here/$model.onnx --input "xs.0=$DIR/xs.0.npy" --input "xs.1=$DIR/short.npy" --replicas 3 --out "$DIR/no"
    refused 1 "input 'xs.1' has 7" "$dpexec" run $here/$model.onnx --input "xs.0=$DIR/xs.0.npy" --input "xs.1=$DIR/short.npy" --out "$DIR/no"
done
refused 2 "--batch-input xs:2: the input xs.0 has shape [?,3]" "$graph_transform" $here/sequences.onnx --loss mse --input-members xs=1 \
    --input-members m=absent --batch-input xs:2 --batch-size 4
refused 2 "--batch-input xs.0:-3: the data's array has rank 2" "${train[@]}" $here/open.onnx --data $here/data2.npz --batch-input xs:-3
refused 2 "--batch-input target:-3: the data's array has rank 2" "${train[@]}" $here/open.onnx --data $here/data2.npz --batch-input xs \
    --batch-input target:-3
finish
