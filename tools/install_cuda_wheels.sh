#!/bin/bash
# Installs NVIDIA's packages from PyPI that the CUDA plug-in is built with and runs with, at the versions it was tested with, for a
# machine that has no CUDA toolkit.
#   tools/install_cuda_wheels.sh [PYTHON]       PYTHON: of a virtual environment, else of a new one in ./cuda-wheels
# Prints what to give to CMake.  About 3 GB.
set -eu
python=${1:-}
if [ -z "$python" ]; then
    python3 -m venv cuda-wheels
    python=cuda-wheels/bin/python
fi
"$python" -m pip install --quiet --disable-pip-version-check \
    nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-cccl==13.0.85 \
    nvidia-cuda-runtime==13.0.96 nvidia-cuda-nvrtc==13.0.88 nvidia-cublas==13.1.0.3 nvidia-cudnn-cu13==9.19.0.56 nvidia-nccl-cu13==2.28.9
root=$("$python" -c 'import nvidia; print(next(iter(nvidia.__path__)) + "/cu13")')
echo "cmake -S . -B build -DDPX_CUDA=ON -DCUDAToolkit_ROOT=$root"
