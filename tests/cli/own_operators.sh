#!/bin/bash
# Operators of one's own in a library, --operators: docs/example/statistics.c and soft_clip.c of docs/guide/own-operators.md, trained by
# dpexec, checked by graph-transform, run and resumed; what is wrong with a library is told in a line.
. "$(dirname "$0")/lib.sh"
cc=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
sanitize=$(sed -n 's/^DPX_SANITIZE:[A-Z]*=//p' "$build/CMakeCache.txt")
library() { "$cc" -std=c11 -shared -fPIC -Iinclude ${sanitize:+-fsanitize=$sanitize} "$DIR/$1.c" -lm -o "$DIR/$1.so"; }
cp docs/example/statistics.c docs/example/soft_clip.c "$DIR"
check "compile the example of docs/guide/own-operators.md" library statistics
check "compile its example of a gradient in nodes" library soft_clip

python3 - "$DIR/data.npz" "$DIR/x.npy" "$DIR/narrow.npz" <<'EOF'
import io, math, struct, sys, zipfile

def npy(descr, shape, data):
    head = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00\x76\x00" + head + data

with zipfile.ZipFile(sys.argv[1], "w") as z:
    x = npy("<f4", (22, 3, 4), struct.pack("<264f", *[math.sin(1 + 0.7 * i * i) for i in range(264)]))
    z.writestr("x.npy", x)
    open(sys.argv[2], "wb").write(x)
    z.writestr("target.npy", npy("<i8", (22,), struct.pack("<22q", *[i % 3 for i in range(22)])))
with zipfile.ZipFile(sys.argv[3], "w") as z:
    z.writestr("x.npy", npy("<f4", (22, 4), struct.pack("<88f", *[2 * math.sin(1 + 0.7 * i * i) for i in range(88)])))
    z.writestr("target.npy", npy("<i8", (22,), struct.pack("<22q", *[i % 3 for i in range(22)])))
EOF
folder=tests/operators
model=$folder/statistics.onnx
own=(--operators "$DIR/statistics.so")
how=(--data "$DIR/data.npz" --loss cross-entropy --batch-size 8 --dtype float64 --threads 1 --lr 0.3 --epochs 2)

# Batches of 8, 8 and 6, twice; over several replicas, whose parts may be empty, and in two processes.
check "batch-norm" "$dpexec" $folder/batch_norm.onnx "${how[@]}" --out "$DIR/known"
known=$(losses "$DIR/known")
check "six steps" test "$(wc -w <<<"$known")" = 6
for parts in "--replicas 1" "--devices cpu*2" "--devices cpu*2 --replicas 5" "--devices cpu*3 --split 1,0,2"; do
    rm -rf "$DIR/run"
    check "train $parts" "$dpexec" $model "${how[@]}" "${own[@]}" $parts --out "$DIR/run"
    check "losses of $parts: $(losses "$DIR/run")" near "$(losses "$DIR/run")" "$known"
done
check "train in two processes" "$dpexec" launch -n 2 -- $model "${how[@]}" "${own[@]}" --replicas 5 --out "$DIR/two"
check "losses of two processes: $(losses "$DIR/two")" near "$(losses "$DIR/two")" "$known"

# On a GPU they are the host's, with copies around them.
if [ -e "$build/libdpexec_cudasim.so" ]; then
    export DPEXEC_CUDA_PLUGIN=$build/libdpexec_cudasim.so
    for devices in cuda:0 cuda:0,cuda:1; do
        rm -rf "$DIR/gpu"
        says "StatisticsCombine norm" "$dpexec" $model "${how[@]}" "${own[@]}" --replicas 5 --devices $devices --out "$DIR/gpu"
        check "losses on $devices: $(losses "$DIR/gpu")" near "$(losses "$DIR/gpu")" "$known"
    done
    check "no batch is put together" bash -c "! grep -q 'StatisticsCollect_.*bytes' '$DIR/says.log'"
    unset DPEXEC_CUDA_PLUGIN
else
    skip "operators of one's own on a GPU" "no simulated one was built"
fi

# A gradient in nodes: over replicas, in two processes, and on a GPU, whose the gradient is though the operator is the host's.
clip=$folder/soft_clip.onnx
nodes=(--operators "$DIR/soft_clip.so")
narrow=(--data "$DIR/narrow.npz" "${how[@]:2}")
check "soft clip in ONNX's operators" "$dpexec" $folder/soft_clip_known.onnx "${narrow[@]}" --out "$DIR/clip_known"
known_clip=$(losses "$DIR/clip_known")
check "six steps of it" test "$(wc -w <<<"$known_clip")" = 6
for parts in "--replicas 1" "--devices cpu*2 --replicas 5" "--devices cpu*3 --split 1,0,2"; do
    rm -rf "$DIR/clip"
    check "train soft clip $parts" "$dpexec" $clip "${narrow[@]}" "${nodes[@]}" $parts --out "$DIR/clip"
    check "losses of soft clip $parts: $(losses "$DIR/clip")" near "$(losses "$DIR/clip")" "$known_clip"
done
for parts in "--accumulate 2" "--strategy master" "--shard parameters" "--clip-norm 0.1 --optimizer adam"; do
    rm -rf "$DIR/clip" "$DIR/clip_as"
    check "ONNX's $parts" "$dpexec" $folder/soft_clip_known.onnx "${narrow[@]}" --replicas 3 $parts --out "$DIR/clip_as"
    check "soft clip $parts" "$dpexec" $clip "${narrow[@]}" "${nodes[@]}" --devices 'cpu*2' --replicas 3 $parts --out "$DIR/clip"
    check "losses of soft clip $parts: $(losses "$DIR/clip")" near "$(losses "$DIR/clip")" "$(losses "$DIR/clip_as")"
done
check "soft clip in two processes" "$dpexec" launch -n 2 -- $clip "${narrow[@]}" "${nodes[@]}" --replicas 5 --out "$DIR/clip_two"
check "losses of soft clip in two processes" near "$(losses "$DIR/clip_two")" "$known_clip"
check "--verify of soft clip" "$graph_transform" $clip "${nodes[@]}" --batch-size 7 --loss cross-entropy --replicas 3 --verify
says '"gradient of clip" @r2' "$graph_transform" $clip "${nodes[@]}" --batch-size 6 --loss cross-entropy --replicas 3 --until partition
if [ -e "$build/libdpexec_cudasim.so" ]; then
    export DPEXEC_CUDA_PLUGIN=$build/libdpexec_cudasim.so
    rm -rf "$DIR/clip"
    says "SoftClip clip" "$dpexec" $clip "${narrow[@]}" "${nodes[@]}" --replicas 3 --devices cuda:0 --out "$DIR/clip"
    check "its gradient is not the host's" bash -c "! grep -q 'gradient of clip' '$DIR/says.log'"
    check "losses of soft clip on cuda:0: $(losses "$DIR/clip")" near "$(losses "$DIR/clip")" "$known_clip"
    unset DPEXEC_CUDA_PLUGIN
else
    skip "a gradient in nodes on a GPU" "no simulated one was built"
fi

# The run says what it was given; resuming, evaluating and running need it again.
check "args.json" grep -q '"operators": ".*statistics.so"' "$DIR/run/args.json"
check "to be resumed" "$dpexec" $model "${how[@]}" "${own[@]}" --steps 4 --out "$DIR/part"
check "resumed" "$dpexec" $model "${how[@]}" "${own[@]}" --resume "$DIR/part"
check "losses behind a resume" near "$(losses "$DIR/part")" "$known"
check "eval" "$dpexec" eval $model --resume "$DIR/part" --data "$DIR/data.npz" --loss cross-entropy --dtype float64 "${own[@]}"
check "run" "$dpexec" run "$DIR/part/model.onnx" --input "$DIR/x.npy" "${own[@]}" --out "$DIR/out"
refused 1 "com.example" "$dpexec" run "$DIR/part/model.onnx" --input "$DIR/x.npy" --out "$DIR/none"
refused 1 "com.example" "$dpexec" $model "${how[@]}"

# A name without a slash is a file of the folder, not a library of the system.
check "by its name alone" bash -c "cd '$DIR' && '$graph_transform' '$root/$model' --operators statistics.so --batch-size 4 --loss cross-entropy"
says "StatisticsCombine" "$graph_transform" $model "${own[@]}" --batch-size 4 --loss cross-entropy --devices 'cpu*2'
check "--verify" "$graph_transform" $model "${own[@]}" --batch-size 7 --loss cross-entropy --replicas 3 --verify
sed 's/\.float64 = &kernels,//' "$DIR/statistics.c" >"$DIR/narrow.c"
check "a library without float64" library narrow
refused 1 "StatisticsCollect norm (output 'StatisticsCollect_" "$graph_transform" $model --operators "$DIR/narrow.so" --batch-size 7 --loss cross-entropy \
    --replicas 3 --verify
check "it names the type" grep -q "no reference kernel for float64" "$DIR/refused.err"
refused 1 "no kernel computes" "$dpexec" $model "${how[@]}" --operators "$DIR/narrow.so"
check "float32" "$dpexec" $model "${how[@]/%64/32}" --operators "$DIR/narrow.so"

# What is wrong with a library.
flawed() { # NAME TEXT SED: the example, changed
    sed "$3" "$DIR/statistics.c" >"$DIR/$1.c"
    check "compile $1" library "$1"
    refused 2 "$2" "$graph_transform" $model --operators "$DIR/$1.so" --batch-size 4
}
refused 2 "--operators $DIR/none.so: No such file" "$dpexec" $model "${how[@]}" --operators "$DIR/none.so"
refused 2 "--operators: cannot be loaded" "$dpexec" $model "${how[@]}" --operators "$DIR/data.npz"
flawed other "does not define dpx_operator_library" 's/^const dpx_library dpx_operator_library/const dpx_library other_library/'
flawed newer "interface 9 of" 's/{ sizeof(dpx_library), DPX_LIBRARY_ABI, add }/{ sizeof(dpx_library), 9, add }/'
flawed foreign "domain 'ai.onnx'" 's/"com.example"/"ai.onnx"/'
refused 2 "is in two sets" "$graph_transform" $model "${own[@]}" "${own[@]}" --batch-size 4
finish
