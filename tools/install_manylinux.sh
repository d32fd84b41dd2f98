#!/bin/bash
# Installs what dpexec is built with in the manylinux_2_28 image of PyPA (AlmaLinux 8), for cibuildwheel (pyproject.toml).  Nobody has
# run it yet: the wheels that dpexec was tested with are made by tools/make_wheel.sh, for glibc 2.34.
set -eu
dnf install -y epel-release
dnf config-manager --set-enabled powertools
dnf install -y ninja-build protobuf-c-compiler protobuf-c-devel jansson-devel xxhash-devel libzip-devel zlib-devel libjpeg-turbo-devel \
    libpng-devel libwebp-devel libarchive-devel re2-devel pcre2-devel utf8proc-devel libsodium-devel
# oneDNN with GNU's OpenMP, the definition of ONNX, and DLPack's header: into /usr/local, where CMake looks.
python=/opt/python/cp310-cp310/bin/python
"$python" -m pip install --target /tmp/parts onednn-cpu-gomp onednn-devel-cpu-gomp onnx==1.22.0
cp -r /tmp/parts/include/. /usr/local/include/
cp -P /tmp/parts/lib*/libdnnl.so* /usr/local/lib/
install -D /tmp/parts/onnx/onnx.proto /usr/local/include/onnx/onnx.proto
curl -sSfL https://raw.githubusercontent.com/dmlc/dlpack/v1.0/include/dlpack/dlpack.h --create-dirs -o /usr/local/include/dlpack/dlpack.h
ldconfig
