#!/bin/bash
# --batch-size auto: the size agrees with the memory that --dry-run prints and the free memory that the kernel tells.  It is a power of
# two, no larger than the data, the same in all processes, and a number in the run's folder.
. "$(dirname "$0")/lib.sh"
serve_python
py -c 'import sys, numpy as np; r = np.random.default_rng(0)
np.savez(sys.argv[1], input=r.random((300, 1, 28, 28), "f"), target=r.integers(0, 10, 300))' "$DIR/rows.npz"
cnn=(models/fashion_cnn.onnx --loss cross-entropy --threads 1)
run=("${cnn[@]}" --data "$DIR/rows.npz" --steps 2)

# share SIZE: the share of the free memory halfway (in the logarithm) between the needs of a step of SIZE and of 2 SIZE samples.
share() {
    local size
    for size in "$1" $((2 * $1)); do "$dpexec" train "${cnn[@]}" --batch-size "$size" --dry-run 2>/dev/null; done >"$DIR/plans"
    py -c '
import glob, re, sys
need = [float(m) for m in re.findall(r"memory: ([0-9.]+) MiB", open(sys.argv[1]).read())]
free = [int(re.search(r"MemAvailable: *(\d+) kB", open("/proc/meminfo").read())[1]) * 1024]
limits = glob.glob("/sys/fs/cgroup/memory.max") + glob.glob("/sys/fs/cgroup/memory/memory.limit_in_bytes")
free += [int(s) for s in (open(f).read().strip() for f in limits) if s != "max"]
assert len(need) == 2 and need[1] > 1.8 * need[0], need
print((need[0] * need[1]) ** 0.5 * 2 ** 20 / min(free))' "$DIR/plans"
}

for size in 16 64; do
    part=$(share $size)
    says "batch-size auto: $size" "$dpexec" train "${run[@]}" --batch-size "auto:$part" --out "$DIR/run-$size"
    check "$size is stored as a number" grep -qF "\"batch-size\": \"$size\"" "$DIR/run-$size/args.json"
    check "$size samples by number" "$dpexec" train "${run[@]}" --batch-size $size --out "$DIR/number-$size"
    check "the run of $size samples" same_run "$DIR/run-$size" "$DIR/number-$size"
done
check 'resumed, with the number' "$dpexec" resume "$DIR/run-16" --steps 4
check 'resumed with auto, with the number of the checkpoint' "$dpexec" train "${run[@]/%2/4}" --batch-size auto --resume "$DIR/number-16" \
    --out "$DIR/resumed"
check 'both as one' cmp "$DIR/run-16/model.onnx" "$DIR/resumed/model.onnx"
says 'batch-size auto: 256' "$dpexec" train "${run[@]/%2/1}" --batch-size auto --out "$DIR/data"      # of 300 samples

# Two processes of a machine need twice the memory of their parts.
says "batch-size auto: 64" "$dpexec" launch -n 2 -- "${run[@]}" --devices cpu:0 --batch-size "auto:$(share 64)" --out "$DIR/two"
check 'the number in two processes' grep -qF '"batch-size": "64"' "$DIR/two/args.json"
says "batch-size auto: 64" "$dpexec" train "${run[@]}" --devices 'cpu*2' --batch-size "auto:$(share 64)" --out "$DIR/devices"
says "batch-size auto: 64" "$dpexec" train "${run[@]}" --batch-size "auto:$(share 64)" --accumulate 2 --optimizer adam --out "$DIR/adam"

refused 1 'a step of 1 samples needs more than 1e-09 of the free memory' "$dpexec" train "${run[@]}" --batch-size auto:1e-9
for text in auto: auto:0 auto:1.5 auto:x automatic; do
    refused 2 "--batch-size $text: expected auto or auto:SHARE" "$dpexec" train "${run[@]}" --batch-size $text
done
refused 2 'give a number' "$dpexec" train "${cnn[@]}" --batch-size auto --dry-run
refused 2 '--split by weights' "$dpexec" train "${run[@]}" --devices 'cpu*2' --split 1,2 --batch-size auto
refused 2 'batch-size' "$dpexec" eval models/fashion_cnn.onnx --data "$DIR/rows.npz" --batch-size auto
finish
