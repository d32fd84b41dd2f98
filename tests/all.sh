#!/bin/bash
# From a bare Debian machine, as root: installs the packages, builds, and runs all tests.
set -eu
cd "$(dirname "$0")/.."
tools/install_packages.sh build mpi test
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DDPX_SIM_ALIGNMENT=ON -DDPX_ISA_LEVELS=ON
cmake --build build
tests/interop/install.sh build
tests/run.sh build
