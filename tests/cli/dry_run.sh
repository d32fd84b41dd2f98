#!/bin/bash
# --dry-run: what a run would execute is printed and nothing is run, read or written.
. "$(dirname "$0")/lib.sh"
export DPEXEC_CUDA_PLUGIN=/no/plugin.so DPEXEC_CACHE_DIR=
plan=("$dpexec" models/mlp.onnx --loss cross-entropy --batch-size 8 --threads 1 --dry-run)

says "training step: 24 nodes" "${plan[@]}" --out "$DIR/none"
check "nothing is written" test ! -e "$DIR/none"
says "cpu:0: threads: 1" "${plan[@]}"
says "cpu_gemm                 Gemm fc1 -> fc1 float32[8,128] arena+" "${plan[@]}"
says "in fc1.weight" "${plan[@]}"                     # the parameter is updated in place
says "fc1.weight@d1" "${plan[@]}" --devices 'cpu*2'
check "two plans are the same" diff <("${plan[@]}" --devices 'cpu*2' --quiet) <("${plan[@]}" --devices 'cpu*2' --quiet)
says "one of the batches of a step: " "${plan[@]}" --accumulate 2
says "the update of a step: " "${plan[@]}" --accumulate 2
# Small sums wait whole, those of three others here.  A library that adds has all that is added and all that comes of it: 17,226 parameters and the loss, each twice, and rounding of shares.
staged() { "${plan[@]}" --devices 'cpu*4' --reduce "$1" | sed -n 's/.*, and \(.*\) KiB that come from the others.*/\1/p' | sort -n | tail -1; }
check "what a library's sums take" awk -v had="$(staged library)" 'BEGIN { least = 2 * 4 * 17227 / 1024; exit !(least <= had && had < 1.05 * least) }'
check "what sums by the tree take" awk -v had="$(staged tree)" 'BEGIN { least = 3 * 4 * 17227 / 1024; exit !(least <= had && had < 1.05 * least) }'
says "inference: " "$dpexec" run models/mlp.onnx --dry-run
says "training step: " "${plan[@]}" --lr-schedule cosine        # needs no number of steps
refused 2 "--loss is missing" "$dpexec" models/mlp.onnx --dry-run
refused 1 "a plan needs shapes that are known before the step; these depend on data: NonZero" "$dpexec" run tests/api/apart.onnx --dry-run
refused 1 "none.onnx" "$dpexec" none.onnx --loss cross-entropy --dry-run
refused 1 "cuda:0: the CUDA plug-in /no/plugin.so cannot be loaded" "${plan[@]}" --devices cuda

# Nothing of a training step is computed by the host, losses, dropout and metric included.
on_device_alone() {
    local loss=(cross-entropy --metric accuracy)
    [ "$1" != models/gan.onnx ] || loss=(outputs)       # it computes its own
    "$dpexec" "$1" --loss "${loss[@]}" --batch-size 8 --devices cuda:0@tests/devices/h100.json --dry-run --quiet |
        awk '/^ *[0-9]+ +compute /{ device++ } /^ *[0-9]+ +host /{ host++ } END { exit !(device && !host) }'
}
for model in models/*.onnx; do
    check "$model has no nodes on the host" on_device_alone "$model"
done

# A language model of 50,304 words and 16 x 1,024 tokens: its scores, 1.5 GiB, are there a chunk of 2,048 rows at a time.
/usr/bin/python3 - "$DIR/thin.onnx" <<'END'
import sys
sys.path.insert(0, "bench")
import gpu_models
gpu_models.gpt2(length=1024, layers=1, width=32, heads=1, vocabulary=50304).save(sys.argv[1])
END
# arena_mib FLAG...: of the plan of its step, rounded down.
arena_mib() {
    "$dpexec" "$DIR/thin.onnx" --loss output:loss --batch-size 16 --precision bfloat16 --devices cuda:0@tests/devices/h100.json --dry-run --quiet "$@" |
        awk '/^  memory: /{ sub(/.*arena /, ""); print int($1 * ($2 ~ /^GiB/ ? 1024 : 1)) }'
}
check "whole scores: $(arena_mib) MiB" test "$(arena_mib)" -ge 1536
check "scores in chunks: $(arena_mib --chunk-loss auto) MiB" test "$(arena_mib --chunk-loss auto)" -le 260
check "in chunks of 512 rows: $(arena_mib --chunk-loss 512) MiB" test "$(arena_mib --chunk-loss 512)" -le 120
finish
