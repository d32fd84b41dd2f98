#!/bin/bash
# What `devices` lists, and what a run says when a CUDA device cannot be had.
. "$(dirname "$0")/lib.sh"
unset DPEXEC_PLUGIN_DIR DPEXEC_CUDA_PLUGIN
"${PYTHON:-/usr/bin/python3}" -c "import numpy; numpy.save('$DIR/x.npy', numpy.zeros((1, 64), 'float32'))"
run=(run models/mlp.onnx --input "x=$DIR/x.npy" --out "$DIR/out")

# Alone in a folder the program finds no plug-in.
mkdir -p "$DIR/alone/bin" "$DIR/plugins"
cp "$dpexec" "$build/libdpexec.so.0" "$DIR/alone/bin/"
alone=$DIR/alone/bin/dpexec
says "cpu:0  " "$alone" devices
says "no GPU: there is no CUDA plug-in libdpexec_cuda.so" "$alone" devices
refused 1 "cuda:0: there is no CUDA plug-in libdpexec_cuda.so" "$alone" "${run[@]}" --devices cuda
check "it says where it looked" grep -qE "looked in: $DIR/alone/bin; $DIR/alone/bin/dpexec$" "$DIR/refused.err"
DPEXEC_PLUGIN_DIR=$DIR/plugins refused 1 "looked in: $DIR/plugins; $DIR/alone/bin" "$alone" "${run[@]}" --devices 0,1
check "all devices: the CPU" "$alone" "${run[@]}" --devices all

# The first file found counts, whatever is wrong with it.
echo "no library" >"$DIR/plugins/libdpexec_cuda.so"
DPEXEC_PLUGIN_DIR=$DIR/plugins refused 1 "the CUDA plug-in $DIR/plugins/libdpexec_cuda.so cannot be loaded: " "$alone" "${run[@]}" --devices cuda
DPEXEC_PLUGIN_DIR=$DIR/plugins says "no GPU: the CUDA plug-in $DIR/plugins/libdpexec_cuda.so cannot be loaded: " "$alone" devices
DPEXEC_CUDA_PLUGIN=libm.so.6 refused 1 "libm.so.6 is no plug-in" "$alone" "${run[@]}" --devices cuda

# A GPU's line: name, size, memory, compute capability, driver.
sim=$build/libdpexec_cudasim.so
DPEXEC_CUDA_PLUGIN=$sim says "cuda:3  Simulated GPU, 4 multiprocessors, 4.0 GiB, compute capability 9.0, driver for CUDA 13.0" "$dpexec" devices

# All: as many GPUs as there are, or the CPU.
planned() { "$@" run models/mlp.onnx --batch-size 8 --devices all --dry-run 2>/dev/null | sed -nE 's/^(c[a-z]+:[0-9]+): .*/\1/p' | tr '\n' ' '; }
gpus=$(DPEXEC_CUDA_PLUGIN=$sim "$dpexec" devices | sed -nE 's/^(cuda:[0-9]+)  .*/\1/p' | tr '\n' ' ')
check "several GPUs: $gpus" test "${gpus#* }" != ""
check "all are the GPUs" test "$(DPEXEC_CUDA_PLUGIN=$sim planned "$dpexec")" = "$gpus"
check "without any all are the CPU" test "$(planned "$alone")" = "cpu:0 "

# Measured: a description that --simulate takes, of as many devices as there are, the same whoever carries the messages.
measured() { # NODES PER_NODE LINKS FILE
    "${PYTHON:-/usr/bin/python3}" - "$@" <<'PY'
import json, sys
nodes, each, links, d = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].split(), json.load(open(sys.argv[4]))
assert (d["nodes"], d["devices_per_node"], list(d["links"])) == (nodes, each, links), d
assert 1e8 < d["device"]["flops"] < 1e13 and 1e8 < d["device"]["memory_bandwidth"] < 1e12 and d["device"]["cores"] == 1, d
for link in d["links"].values():
    assert 1e7 < link["bandwidth"] < 1e12 and 0 < link["latency"] < 0.1, d
PY
}
takes() { "$graph_transform" models/mlp.onnx --loss mse --batch-size 10 --simulate "$1"; }
check "one device" "$dpexec" devices --links --threads 1 -o "$DIR/one.json"
check "what one device can do" measured 1 1 "" "$DIR/one.json"
check "devices of a process" "$dpexec" devices --links --devices 'cpu*3' --threads 1 -o "$DIR/three.json"
check "what devices of a process can do" measured 1 3 node "$DIR/three.json"
check "processes" "$dpexec" launch -n 2 -- devices --links --threads 1 -o "$DIR/two.json"
check "what processes can do" measured 1 2 node "$DIR/two.json"
for f in one two three; do check "--simulate takes $f.json" takes "$DIR/$f.json"; done
"$dpexec" launch -n 2 -- devices --links --threads 1 >"$DIR/printed.json"
check "rank 0 alone prints" measured 1 2 node "$DIR/printed.json"
refused 2 "--threads: is for --links" "$dpexec" devices --threads 1
refused 2 "expected as many in each" bash -c "exec '$dpexec' launch -n 2 -- devices --links --devices 'cpu*{rank}1'"
refused 1 "where.json: cannot write" "$dpexec" devices --links -o "$DIR/no/where.json"

# --links chooses how large buckets are: read by rank 0, kept, and no bit of what is trained.
data=tests/oracle/data
mlp=(models/mlp.onnx --data "$data/digits.npz" --loss cross-entropy --batch-size 10 --steps 5 --threads 1)
check "processes with --links" "$dpexec" launch -n 2 -- train "${mlp[@]}" --links "$DIR/two.json" --out "$DIR/linked"
check "devices without" "$dpexec" train "${mlp[@]}" --devices 'cpu*2' --out "$DIR/plain"
check "the bytes with and without --links" same_run "$DIR/linked" "$DIR/plain"
kept=$(sed -n 's/.*"links": "\([0-9.e,-]*\)",*$/\1/p' "$DIR/linked/args.json")
check "what was read is kept: $kept" [ "$(tr -cd , <<<"$kept")" = ,,, ]
check "and in the checkpoint" grep -qF "\\\"links\\\":\\\"$kept\\\"" "$DIR/linked/checkpoints/step-000000005/manifest.json"
says "--links: 0.1 MB of gradients are summed in buckets of up to 1 MiB" "$dpexec" train "${mlp[@]/#5/8}" --devices 'cpu*2' --resume "$DIR/linked"
check "by the run that goes on" grep -qF "\"links\": \"$kept\"" "$DIR/linked/args.json"
says "--links: 0.1 MB of gradients" "$graph_transform" models/mlp.onnx --loss mse --batch-size 8 --devices 'cpu*2' --report --links "$DIR/two.json"
check "processes with --links auto" "$dpexec" launch -n 2 -- train "${mlp[@]}" --links auto --out "$DIR/measured"
check "the bytes with --links auto" same_run "$DIR/measured" "$DIR/plain"
says "so small sums are sent whole to all processes" "$dpexec" launch -n 2 -- train "${mlp[@]}" --links "$DIR/two.json"
check "processes where bytes are dear" "$dpexec" launch -n 2 -- train "${mlp[@]}" --links 1e-9,1,1e10,0 --out "$DIR/shared"
check "the bytes of sums that are shared out" same_run "$DIR/shared" "$DIR/plain"
check "what was measured is kept" grep -qE '"links": "[0-9.e-]+,[0-9.e-]+,[0-9.e+]+,0"' "$DIR/measured/args.json"
says "--links: 0.1 MB of gradients" "$dpexec" train "${mlp[@]}" --devices 'cpu*2' --links auto
refused 2 "a100.json only describes a device" "$graph_transform" models/mlp.onnx --loss mse --batch-size 8 \
    --devices "cuda:0@tests/devices/a100.json,cuda:1@tests/devices/a100.json" --links auto --report
refused 2 "two.json: describes 2 devices, expected the 3 of the run or more" "$dpexec" train "${mlp[@]}" --devices 'cpu*3' --links "$DIR/two.json"
refused 1 "none.json: cannot be read" "$dpexec" launch -n 2 -- train "${mlp[@]}" --links "$DIR/none.json"
refused 2 "plain/args.json: the description of the cluster is wrong" "$dpexec" train "${mlp[@]}" --devices 'cpu*2' --links "$DIR/plain/args.json"

refused 2 "cpu:0 and cuda:1: CPU and CUDA devices do not work together" "$dpexec" "${run[@]}" --devices cpu,cuda:1
echo '{"name": "half"}' >"$DIR/half.json"
refused 2 "'memory' is missing" "$dpexec" "${run[@]}" --devices "cuda@$DIR/half.json"
refused 1 "$DIR/none.json: cannot be read: No such file or directory" "$dpexec" "${run[@]}" --devices "cuda@$DIR/none.json"
refused 1 "$DIR: cannot be read: Is a directory" "$dpexec" "${run[@]}" --devices "cuda@$DIR"
finish
