#!/bin/bash
# From a bare Debian machine, as root, to a trained model: installs the packages, builds, and trains models/fashion_cnn.onnx on
# Fashion-MNIST on two CPU replicas with synchronised batch-norm.  The run's folder is runs/fashion_cnn (or the argument).
#   tools/quickstart.sh [--with-cuda] [FOLDER]
# The CUDA plug-in, whose kernels take minutes to compile, is built where a GPU is seen or --with-cuda asks for it.
set -eu
cd "$(dirname "$0")/.."
data=/usr/share/datasets/fashion-mnist
cuda=OFF
targets=(dpexec graph-transform libdpexec)
[ -e /dev/nvidiactl ] && cuda=AUTO
if [ "${1:-}" = --with-cuda ]; then
    cuda=ON
    shift
fi
[ $cuda = OFF ] || targets=(all)
out=${1:-runs/fashion_cnn}

# stage NAME COMMAND...: says how long it took.
stage() {
    local name=$1 start=$SECONDS
    shift
    "$@"
    printf '== %s: %d s\n' "$name" $((SECONDS - start))
}
build() {
    cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DDPX_CUDA=$cuda >/dev/null
    cmake --build build --target "${targets[@]}"
}
stage 'packages' tools/install_packages.sh build
stage 'build' build
mkdir -p "$(dirname "$out")"
stage 'training' build/dpexec models/fashion_cnn.onnx \
    --data "idx:$data/train-images-idx3-ubyte.gz,$data/train-labels-idx1-ubyte.gz" \
    --val "idx:$data/t10k-images-idx3-ubyte.gz,$data/t10k-labels-idx1-ubyte.gz" \
    --loss cross-entropy --metric accuracy \
    --optimizer adam --lr 0.003 --lr-schedule cosine --batch-size 100 --epochs 4 \
    --devices 'cpu*2' --bn sync --out "$out"
