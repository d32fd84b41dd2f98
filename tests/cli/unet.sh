#!/bin/bash
# A U-Net whose decoder resizes trains as PyTorch trains it, in float64 (tests/cli/unet.py), on 1 and 3 replicas, with a last part
# of another size.
. "$(dirname "$0")/lib.sh"
here=tests/cli/unet

# losses EXPECTED...: those of the run, to 1e-9.
losses() {
    python3 - "$DIR/run" "$@" <<'END2'
import json, sys
want = list(map(float, sys.argv[2:]))
got = [row["loss"] for row in map(json.loads, open(sys.argv[1] + "/metrics.jsonl")) if "loss" in row]
print(got, want)
sys.exit(len(got) != len(want) or not max(abs(g - w) for g, w in zip(got, want)) <= 1e-9)
END2
}

while read -r mode want; do
    for how in "cpu:0" "cpu*2" "cpu:0 --replicas 3"; do
        rm -rf "$DIR/run"
        "$dpexec" train $here/$mode.onnx --data $here/data.npz --loss cross-entropy --batch-size 5 --no-shuffle --epochs 3 --steps 20 \
            --optimizer sgd --lr 0.1 --momentum 0.9 --threads 1 --devices $how --quiet --out "$DIR/run" >"$DIR/log" 2>&1 || cat "$DIR/log"
        check "$mode, $how" losses $want
    done
done <$here/torch.txt
finish
