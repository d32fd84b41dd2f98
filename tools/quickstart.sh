#!/bin/bash
# From a bare Debian machine, as root, to a trained model: installs the packages, builds, and trains models/fashion_cnn.onnx on
# Fashion-MNIST on two CPU replicas with synchronised batch-norm.  The run's folder is runs/fashion_cnn (or the argument).
set -eu
cd "$(dirname "$0")/.."
out=${1:-runs/fashion_cnn}
data=/usr/share/datasets/fashion-mnist

tools/install_packages.sh build
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release
cmake --build build
mkdir -p "$(dirname "$out")"
build/dpexec models/fashion_cnn.onnx \
    --data "idx:$data/train-images-idx3-ubyte.gz,$data/train-labels-idx1-ubyte.gz" \
    --val "idx:$data/t10k-images-idx3-ubyte.gz,$data/t10k-labels-idx1-ubyte.gz" \
    --loss cross-entropy --metric accuracy \
    --optimizer adam --lr 0.003 --lr-schedule cosine --batch-size 100 --epochs 4 \
    --devices 'cpu*2' --bn sync --out "$out"
