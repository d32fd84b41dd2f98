#!/bin/bash
# What torch.nn.DataParallel, DistributedDataParallel and PyTorch-Encoding compute on uneven batches and with empty parts, in float64
# (tests/cli/compat.py): 4 replicas on 1 and on 4 devices, 10 steps, losses and what is left after them to 1e-8.
. "$(dirname "$0")/lib.sh"

here=tests/cli/compat
python=${PYTHON:-/usr/bin/python3}

cat >"$DIR/same.py" <<'END'
import json
import sys

import numpy as np
import onnx
from onnx import numpy_helper

run, case, *want = sys.argv[1:]
got = [json.loads(line)["loss"] for line in open(run + "/metrics.jsonl")]
assert len(got) == len(want), (got, want)
worst = max(abs(g - float(w)) for g, w in zip(got, want))
after = np.load("tests/cli/compat/after.npz")
left = {t.name: numpy_helper.to_array(t) for t in onnx.load(run + "/model.onnx").graph.initializer}
tensors = [n for n in after.files if n.startswith(case + "/")]
assert len(tensors) == 8
for n in tensors:
    worst = max(worst, abs(after[n] - left[n.split("/")[1]]).max())
print(worst)
sys.exit(not worst <= 1e-8)
END

train=("$dpexec" train --threads 1 --no-shuffle --quiet --lr 0.2 --momentum 0.5 --steps 10)
while IFS='|' read -r name options want; do
    name=${name% }
    options=$here/${options# }
    options=${options//--data /--data $here/}
    options=${options//--class-weights /--class-weights $here/}
    for devices in cpu:0 'cpu*4'; do
        rm -rf "$DIR/run"
        "${train[@]}" --devices "$devices" --replicas 4 $options --out "$DIR/run" >"$DIR/log" 2>&1 || cat "$DIR/log"
        check "$name, $devices" "$python" "$DIR/same.py" "$DIR/run" "$name" $want
    done
done <$here/torch.txt

# In two processes, and stopped in the middle of an epoch: the sets of all replicas are state.
case="MM, averaged buffers, 13 samples"
want=$(grep "^$case |" $here/torch.txt | cut -d'|' -f3)
options=(--no-shuffle --quiet --threads 1 --lr 0.2 --momentum 0.5 --compat ddp --bn average --batch-size 10)
data=($here/model.onnx --data $here/data13.npz --loss cross-entropy)
rm -rf "$DIR/run"
check "two processes" together 2 train "${data[@]}" "${options[@]}" --replicas 4 --devices 'cpu*2' --steps 10 --out "$DIR/run"
check "$case, in two processes" "$python" "$DIR/same.py" "$DIR/run" "$case" $want
check "a part of it" "$dpexec" train "${data[@]}" "${options[@]}" --replicas 4 --steps 3 --out "$DIR/cut"
check "goes on" "$dpexec" train "${data[@]}" "${options[@]}" --replicas 4 --steps 10 --resume "$DIR/cut"
check "$case, resumed" cmp "$DIR/run/model.onnx" "$DIR/cut/model.onnx"

# The report says what is in force, whatever the order of options.
for said in '--bn sync --compat dp' '--compat dp --bn sync' '--compat ddp --compat dp --bn sync'; do
    says "in force are --split chunk, --bn sync, --loss-scaling exact, --mean-over all" "$graph_transform" $here/model.onnx --loss cross-entropy \
        --batch-size 5 --replicas 4 $said --report
done
says "in force are --split chunk, --bn sync, --loss-scaling mean-of-means, --mean-over filled" "$graph_transform" $here/model.onnx \
    --loss cross-entropy --batch-size 5 --replicas 4 --compat encoding --report
finish
