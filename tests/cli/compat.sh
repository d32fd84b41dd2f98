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

train=("$dpexec" train $here/model.onnx --threads 1 --no-shuffle --quiet --lr 0.2 --momentum 0.5 --steps 10)
while IFS='|' read -r name options want; do
    name=${name% }
    options=${options//--data /--data $here/}
    options=${options//--class-weights /--class-weights $here/}
    for devices in cpu:0 'cpu*4'; do
        rm -rf "$DIR/run"
        "${train[@]}" --devices "$devices" --replicas 4 $options --out "$DIR/run" >"$DIR/log" 2>&1 || cat "$DIR/log"
        check "$name, $devices" "$python" "$DIR/same.py" "$DIR/run" "$name" $want
    done
done <$here/torch.txt
finish
