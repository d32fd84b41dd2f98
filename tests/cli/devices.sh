#!/bin/bash
# What `devices` lists, and what a run says when a CUDA device cannot be had.
. "$(dirname "$0")/lib.sh"
unset DPEXEC_PLUGIN_DIR DPEXEC_CUDA_PLUGIN
run=(run models/mlp.onnx --batch-size 1 --out "$DIR/out")

# Alone in a folder the program finds no plug-in.
mkdir -p "$DIR/alone/bin" "$DIR/plugins"
cp "$dpexec" "$DIR/alone/bin/"
alone=$DIR/alone/bin/dpexec
says "cpu:0  " "$alone" devices
says "no GPU: there is no CUDA plug-in libdpexec_cuda.so" "$alone" devices
refused 1 "cuda:0: there is no CUDA plug-in libdpexec_cuda.so" "$alone" "${run[@]}" --devices cuda
check "it says where it looked" grep -qE "looked in: $DIR/alone/bin; $DIR/alone/bin/\.\./lib" "$DIR/refused.err"
DPEXEC_PLUGIN_DIR=$DIR/plugins refused 1 "looked in: $DIR/plugins; $DIR/alone/bin" "$alone" "${run[@]}" --devices 0,1
refused 2 "input 'x' is missing" "$alone" "${run[@]}" --devices all        # the CPU

# The first file found counts, whatever is wrong with it.
echo "no library" >"$DIR/plugins/libdpexec_cuda.so"
DPEXEC_PLUGIN_DIR=$DIR/plugins refused 1 "the CUDA plug-in $DIR/plugins/libdpexec_cuda.so cannot be loaded: " "$alone" "${run[@]}" --devices cuda
DPEXEC_PLUGIN_DIR=$DIR/plugins says "no GPU: the CUDA plug-in $DIR/plugins/libdpexec_cuda.so cannot be loaded: " "$alone" devices
DPEXEC_CUDA_PLUGIN=libm.so.6 refused 1 "libm.so.6 is no plug-in" "$alone" "${run[@]}" --devices cuda

# A GPU's line: name, size, memory, compute capability, driver.
sim=$build/libdpexec_cudasim.so
DPEXEC_CUDA_PLUGIN=$sim says "cuda:3  Simulated GPU, 4 multiprocessors, 4.0 GiB, compute capability 9.0, driver for CUDA 13.0" "$dpexec" devices

refused 2 "cpu:0 and cuda:1: CPU and CUDA devices do not work together" "$dpexec" "${run[@]}" --devices cpu,cuda:1
echo '{"name": "half"}' >"$DIR/half.json"
refused 2 "'memory' is missing" "$dpexec" "${run[@]}" --devices "cuda@$DIR/half.json"
refused 1 "$DIR/none.json: cannot be read: No such file or directory" "$dpexec" "${run[@]}" --devices "cuda@$DIR/none.json"
refused 1 "$DIR: cannot be read: Is a directory" "$dpexec" "${run[@]}" --devices "cuda@$DIR"
finish
