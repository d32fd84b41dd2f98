#!/bin/bash
# Batch-norms of several ranks, of a transposed input, of data far from zero, without parameters of their own, and frozen, against PyTorch's
# layers in float64 (tests/cli/batch_norm.py): losses, evaluation and what is left in the exported model, on any number of replicas.
. "$(dirname "$0")/lib.sh"
here=tests/cli/batch_norm
python=${PYTHON:-/usr/bin/python3}

cat >"$DIR/same.py" <<'END'
import sys

import numpy as np
import onnx
from onnx import numpy_helper

case, limit = sys.argv[2], float(sys.argv[3])
model = onnx.load(sys.argv[1] + "/model.onnx")
left = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
after = np.load("tests/cli/batch_norm/after.npz")
tensors = [n for n in after.files if n.startswith(case + "/")]
assert len(tensors) == 10
worst = max(abs(after[n] - left[n.split("/")[1]]).max() / abs(after[n]).max() for n in tensors)
norms = [n for n in model.graph.node if n.op_type == "BatchNormalization"]
assert len(norms) == 3 and all(len(n.output) == 1 and not [a for a in n.attribute if a.name == "training_mode" and a.i] for n in norms)
one = left[norms[2].input[1]] if norms[2].input[1] in left else [numpy_helper.to_array(n.attribute[0].t) for n in model.graph.node
                                                               if norms[2].input[1] in n.output][0]
assert (one == 1).all()
print(worst)
sys.exit(not worst <= limit)
END

# close LIMIT A B: lists of as many numbers, each within LIMIT of the other's.
close() {
    awk -v limit="$1" -v a="$2" -v b="$3" 'BEGIN { n = split(a, x, " "); m = split(b, y, " "); if (n != m || !n) exit 1
        for (i = 1; i <= n; i++) { d = x[i] - y[i]; if (d < 0) d = -d; if (!(d <= limit * (y[i] < 0 ? -y[i] : y[i]))) exit 1 } }'
}

# trains CASE LIMIT MODEL FLAG...
trains() {
    local name=$1 limit=$2 model=$here/$3.onnx data=(--data $here/data.npz --loss cross-entropy --threads 1)
    shift 3
    rm -rf "$DIR/run"
    check "$name $*" "$dpexec" "$model" "${data[@]}" --batch-size 5 --lr 0.2 --momentum 0.5 --epochs 2 --no-shuffle --quiet \
        --bn-variance unbiased --out "$DIR/run" "$@"
    check "losses of $name $*: $(losses "$DIR/run")" close "$limit" "$(losses "$DIR/run")" "$(expected "$name" 3-)"
    check "evaluation of $name $*" close "$limit" "$(evaluated "$DIR/run/model.onnx" "${data[@]}")" "$(expected "$name" 2)"
    check "what is left of $name $*" "$python" "$DIR/same.py" "$DIR/run" "$name" "$limit"
}

for how in "--replicas 1" "--replicas 3" "--devices cpu*2 --replicas 4" "--devices cpu*3 --replicas 7 --split chunk"; do
    trains near 1e-12 near $how
    trains frozen 1e-12 near --freeze 'rows*' $how
    trains far 1e-9 far $how
    trains near 1e-5 near --dtype float32 $how
done

# One value per channel has no variance (rows.onnx: Linear, BatchNorm1d, Relu, Linear): known before the first step.
"$python" - "$DIR" <<'END'
import sys, numpy as np
for n in 11, 12:
    np.savez(f"{sys.argv[1]}/{n}.npz", x=np.linspace(-1, 1, 4 * n, dtype=np.float32).reshape(n, 4) ** 2, target=np.arange(n) % 3)
END
rows() { echo "$dpexec" train "$here/rows.onnx" --loss cross-entropy --threads 1 --out "$DIR/rows-$RANDOM" --data "$DIR/$1.npz" "${@:2}"; }
none="one value per channel, whose variance does not exist"
# shellcheck disable=SC2046     # several words
{
    refused 1 "in the last batch of an epoch, of 1 sample, there is $none; use --drop-last, or --batch-size 4 or 6" $(rows 11 --batch-size 5)
    check 'without the last batch' $(rows 11 --batch-size 5 --drop-last)
    check 'before the last batch' $(rows 11 --batch-size 5 --steps 2)
    check 'the size that is named' $(rows 11 --batch-size 6)
    refused 1 "the whole batch has $none; use a larger --batch-size" $(rows 12 --batch-size 1 --steps 2)
    for system in dp ddp; do
        refused 1 "replica 0 has $none" $(rows 12 --batch-size 4 --replicas 4 --compat $system)
        refused 1 "of 2 samples, replica 0 has $none" $(rows 12 --batch-size 5 --replicas 2 --compat $system)
    done
    for how in '--bn local' '--bn average' '--bn-group 1'; do
        says "warning: /1/BatchNormalization: replica 0 has one value per channel" $(rows 12 --batch-size 4 --replicas 4 $how)
    done
    says "trained 3 steps" $(rows 12 --batch-size 4 --replicas 4 --bn-group 2)
    check 'statistics of two replicas: no warning' test "$($(rows 12 --batch-size 4 --replicas 4 --bn-group 2) 2>&1 | grep -c 'one value per channel')" = 0
}

# Where a momentum for long runs leaves the statistics of a new network, the run says so: 0.99^6 = 94 %.
"$python" - "$here/near.onnx" "$DIR" <<'END'
import sys, onnx
from onnx import numpy_helper

model = onnx.load(sys.argv[1])
norms = [n for n in model.graph.node if n.op_type == "BatchNormalization"]
for n in norms:
    [a] = [a for a in n.attribute if a.name == "momentum"] or [n.attribute.add(name="momentum", type=onnx.AttributeProto.FLOAT)]
    a.f = 0.99
onnx.save(model, sys.argv[2] + "/trained.onnx")
for t in model.graph.initializer:       # those of a new network
    for n in norms:
        if t.name in n.input[3:]:
            t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(t) * 0 + (t.name == n.input[4]), t.name))
onnx.save(model, sys.argv[2] + "/slow.onnx")
END
slow=(--data "$here/data.npz" --loss cross-entropy --threads 1 --batch-size 5 --lr 0.01)
says "'rows' and others: after 6 steps its running statistics are still 94 % those of the new network" \
    "$dpexec" "$DIR/slow.onnx" "${slow[@]}" --steps 6 --out "$DIR/slow"
for how in "slow --steps 300" "trained --steps 6" "slow --steps 6 --freeze *.running_*"; do
    check "$how: no word of it" bash -c "! '$dpexec' '$DIR/${how%% *}.onnx' ${slow[*]} ${how#* } --out '$DIR/none' 2>&1 | grep -q 'those of the new network'"
done
finish
