#!/bin/bash
# --isa: each instruction set that this build has and this processor runs computes the losses of the reference kernels, which no
# fast kernel takes part in; checkpoints say which it was, and a resumed run says that it is another.
. "$(dirname "$0")/lib.sh"
"${PYTHON:-/usr/bin/python3}" - "$DIR" <<'PY'
import sys
import numpy as np
r = np.random.default_rng(3)
np.savez(sys.argv[1] + "/train.npz", x=r.standard_normal((32, 3, 32, 32)).astype("f"), target=r.integers(0, 10, 32))
PY
train=("$dpexec" models/resnet20.onnx --data "$DIR/train.npz" --loss cross-entropy --batch-size 16 --threads 1 --quiet --checkpoint-every 2)
# Attention, layer normalisation and GELU.
check "a transformer" "$dpexec" new gpt --layers 2 --width 64 --heads 2 --block 32 --quiet -o "$DIR/gpt.onnx"
write=("$dpexec" "$DIR/gpt.onnx" --data text:README.md --loss cross-entropy --batch-size 8 --optimizer adamw --threads 1 --quiet)

refused 2 "--isa: expected auto|" "${train[@]}" --isa sse --steps 1
mapfile -t sets < <(sed -n "s/.*expected auto|\([^,]*\), found.*/\1/p" "$DIR/refused.err" | tr '|' '\n')
check "there is a set of instructions" test "${#sets[@]}" -gt 0
# losses RUN: one a step, of a run's metrics.
losses() { grep -o '"loss":[^,}]*' "$1/metrics.jsonl" | cut -d: -f2; }
check "in float64, by reference kernels" "${train[@]}" --dtype float64 --steps 2 --out "$DIR/float64"
check "the transformer" "${write[@]}" --dtype float64 --steps 3 --out "$DIR/gpt-float64"
# near RUN RUN: their losses, to 1e-4.
near() {
    awk 'function abs(x) { return x < 0 ? -x : x }
        NR == FNR { of[FNR] = $1; n = FNR; next } abs($1 - of[FNR]) > 1e-4 * abs(of[FNR]) { exit 1 } END { if (n < 2 || FNR != n) exit 1 }' \
        <(losses "$1") <(losses "$2")
}
for isa in "${sets[@]}"; do
    check "$isa" "${train[@]}" --isa "$isa" --steps 2 --out "$DIR/$isa"
    check "$isa has the losses of float64" near "$DIR/float64" "$DIR/$isa"
    check "$isa, the transformer" "${write[@]}" --isa "$isa" --steps 3 --out "$DIR/gpt-$isa"
    check "it has them, too" near "$DIR/gpt-float64" "$DIR/gpt-$isa"
    check "its checkpoint names it" grep -qF "\\\"isa\\\":\\\"$isa\\\"" "$DIR/$isa/checkpoints/step-000000002/manifest.json"
    check "and its page" grep -qF "\"isa\": \"$isa\"" "$DIR/$isa/args.json"
done
check "auto" "${train[@]}" --steps 2 --out "$DIR/auto"
check "is the first" cmp "$DIR/auto/model.onnx" "$DIR/${sets[0]}/model.onnx"
check "and is named" grep -qF "\\\"isa\\\":\\\"${sets[0]}\\\"" "$DIR/auto/checkpoints/step-000000002/manifest.json"
if [ "${#sets[@]}" -gt 1 ]; then
    says "--isa was '${sets[0]}', is '${sets[1]}' from here on: the last bits depend on it" \
        "${train[@]}" --isa "${sets[1]}" --steps 4 --resume "$DIR/auto"
else
    skip "a resumed run on another processor" "this build has one instruction set (-DDPX_ISA_LEVELS=ON)"
fi
# oneDNN keeps to these sets of instructions, where the processor has them; its rules for products differ between them.
for set in AVX512_CORE AVX2_VNNI AVX2 SSE41; do
    check "teams of threads change no bits of products, $set" env ONEDNN_MAX_CPU_ISA=$set "$(dirname "$dpexec")/test_kernels" product
done
finish
