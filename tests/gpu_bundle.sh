#!/bin/bash
# Builds what tests/gpu.sh needs on a machine that has a GPU and PyTorch but none of the packages that dpexec is built with.
#   tests/gpu_bundle.sh [ARCHITECTURES]        compute capabilities, as DPX_CUDA_ARCHS has them [90-real]
# Writes build-gpu/bundle.tar.gz: the tools, the library, the CUDA plug-in, the test programs, and the libraries that they load but
# for those of the C library, the compiler and CUDA, which are there.  Carry it with the tree and run tests/gpu.sh.
set -eu
cd "$(dirname "$0")/.."
archs=${1:-90-real}
tree=build-gpu-tree
into=build-gpu
limit=$((64 << 20))             # bytes of the archive
programs="dpexec graph-transform test_ops test_exec bench_kernels"
libraries="libdpexec.so.0 libdpexec_cuda.so libdpexec_nodriver.so"

command -v ccache >/dev/null && export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
# Any processor of the last ten years; libraries are looked for beside the programs first.
cmake -S . -B "$tree" -G Ninja -DCMAKE_BUILD_TYPE=Release -DDPX_CUDA=ON "-DDPX_CUDA_ARCHS=$archs" -DDPX_CARRIED="$into" -DDPX_MARCH=x86-64-v3 \
    -DCMAKE_SKIP_INSTALL_RPATH=ON -DCMAKE_BUILD_RPATH='$ORIGIN/lib' -DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags \
    -DCMAKE_SHARED_LINKER_FLAGS=-Wl,--disable-new-dtags >/dev/null
# shellcheck disable=SC2086
cmake --build "$tree" --target $programs libdpexec dpexec_cuda

rm -rf "$into"
mkdir -p "$into/lib"
for file in $programs $libraries; do
    strip --strip-unneeded -o "$into/$file" "$tree/$file"
done
ln -s libdpexec.so.0 "$into/libdpexec.so"
there='lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|cuda|cudart|cublas|cublasLt|cudnn[a-z_]*|nccl|nvrtc[a-z-]*|nvJitLink)\.so|ld-linux|linux-vdso|libdpexec'
(cd "$into" && ldd $programs libdpexec.so.0) | awk '$2 == "=>" { print $1, $3 }' | sort -u | grep -vE "^($there)" | while read -r name path; do
    [ "$path" != not ] || { echo "$name is not found" >&2; exit 1; }
    strip --strip-unneeded -o "$into/lib/$name" "$path"
done
tar -C "$into" -czf "$into.tar.gz" .
rm -rf "$into"
mkdir "$into"
mv "$into.tar.gz" "$into/bundle.tar.gz"
size=$(stat -c %s "$into/bundle.tar.gz")
echo "$into/bundle.tar.gz: $((size >> 20)) MiB"
[ "$size" -lt $limit ] || { echo "larger than $((limit >> 20)) MiB" >&2; exit 1; }
