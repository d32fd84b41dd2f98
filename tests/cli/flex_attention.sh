#!/bin/bash
# FlexAttention trains as PyTorch's, in float64 (tests/cli/flex_attention.py), on 1 and 3 replicas: with graphs that change scores, whose
# constants are trained, and probabilities; with heads that are shared; over a batch that the file leaves open.  In 16 bits it rounds where the
# function body of onnx does (tests/cli/flex_attention_16.py), which the official tolerances tell from rounding elsewhere.
. "$(dirname "$0")/lib.sh"
here=tests/cli/flex_attention

# alike NAME EXPECTED...: the losses of both runs, to 1e-9.
alike() {
    python3 - "$DIR" "$@" <<'END2'
import json, sys
want = list(map(float, sys.argv[3:]))
for replicas in "13":
    got = [row["loss"] for row in map(json.loads, open("%s/%s-%s/metrics.jsonl" % (sys.argv[1], sys.argv[2], replicas))) if "loss" in row]
    if len(got) != 20 or len(want) != 20 or not max(abs(g - w) for g, w in zip(got, want)) <= 1e-9:
        sys.exit("%s replicas: %s, expected %s" % (replicas, got, want))
END2
}

while read -r name want; do
    for replicas in 1 3; do
        "$dpexec" train $here/$name.onnx --data $here/data.npz --target target --loss mse --batch-size 5 --no-shuffle \
            --steps 20 --optimizer sgd --lr 0.2 --momentum 0.9 --dtype float64 --threads 1 --replicas $replicas --quiet \
            --out "$DIR/$name-$replicas" >"$DIR/log" 2>&1 || cat "$DIR/log"
    done
    check "$name" alike $name $want
done <$here/torch.txt

mkdir "$DIR/16"
/usr/bin/python3 tests/cli/flex_attention_16.py "$DIR/16"
says "48 passed (48 planned throughout), 0 failed" "$dpexec" check "$DIR/16/case_"*
says "48 passed (0 planned throughout), 0 failed" "$dpexec" check --interpreter "$DIR/16/case_"*
finish
