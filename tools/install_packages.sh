#!/bin/bash
# Installs the Debian packages of the groups named on the command line (build mpi slurm test ci; default build), as root.  The only list of
# what dpexec needs: README, tests/all.sh and .ci/run use it.
set -eu

build="gcc g++ libc6-dev cmake ninja-build pkg-config protobuf-c-compiler
    libonnx-dev             onnx.proto, the definition of the format
    libprotobuf-c-dev       reads and writes it
    libdnnl-dev
    libjansson-dev libxxhash-dev libzip-dev zlib1g-dev libdlpack-dev
    libjpeg62-turbo-dev libpng-dev      images
    libwebp-dev                         WebP images; optional
    libarchive-dev                      tar shards of WebDataset; optional
    libre2-dev              regular expressions, as ONNX means them
    libpcre2-dev libutf8proc-dev        patterns and normalisation of tokenizers
    libsodium-dev           processes prove to each other that they belong together
    dataset-fashion-mnist"
mpi="libopenmpi-dev openmpi-bin      the plug-in of Open MPI, and its launcher
    libmpich-dev mpich      that of MPICH"
slurm="slurmctld slurmd slurm-client munge      tests/cluster, which runs a Slurm of its own where there is one
    slurm-wlm-basic-plugins             srun --mpi"
test="libcunit1-dev libonnx-testdata
    locales                             a decimal comma
    python3-numpy python3-onnx          compare with the PyTorch oracle
    python3-venv                        what exports are compared with (tests/interop)
    chromium                            measures the text of pages and pictures (tests/cli/browser.sh)"
ci="clang clang-format libclang-rt-dev libomp-dev"

# The words of a list up to each line's remark, which two spaces or more set off.
packages_of() { sed -E 's/^ +//; s/ {2,}.*//' <<<"$1"; }

wanted=()
for group in "${@:-build}"; do
    case $group in build | mpi | slurm | test | ci) ;; *) echo "usage: $0 [build] [mpi] [slurm] [test] [ci]" >&2; exit 2 ;; esac
    mapfile -t -O ${#wanted[@]} wanted < <(packages_of "${!group}" | tr ' ' '\n')
done
missing=()
for p in "${wanted[@]}"; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
done
if [ ${#missing[@]} != 0 ]; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q
    apt-get install -y -q --no-install-recommends "${missing[@]}"
fi
