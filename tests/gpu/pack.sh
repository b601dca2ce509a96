#!/usr/bin/env bash
# Packs what a borrowed GPU machine without a network lacks, into runs/gpu/1 to runs/gpu/4, one folder a call:
#
#   bash launch/setup.sh && bash tests/gpu/pack.sh
#
# Needs a package index, Python 3.12 (PYTHON_312 names it), 12 GB of disk and ten minutes; what was downloaded and compiled
# stays in runs/gpu.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
python=${PYTHON:-.venv/bin/python} uv=.venv/bin/uv out=runs/gpu
if [ ! -f $out/flash/site/flash_attn_2_cuda.so ]; then # against the machine's torch, with its CUDA
    . launch/toolkit.sh
    mkdir -p $out/flash
    "$uv" venv --quiet --allow-existing --python "${PYTHON_312:-3.12}" $out/torch
    "$uv" pip install --quiet --python $out/torch/bin/python torch==2.11.0 'setuptools<80' numpy ninja \
        nvidia-{cuda-nvcc,cuda-crt,nvvm,cuda-cccl}==13.0.*
    make_toolkit $out/torch/bin/python $out/torch
    download="$python -m pip download --quiet --no-deps --no-binary :all: --no-build-isolation"
    FLASH_ATTENTION_SKIP_CUDA_BUILD=TRUE $download flash-attn==2.8.3 -d $out/flash
    PATH=$PWD/$out/torch/bin:$PATH $out/torch/bin/python tests/gpu/flash.py $out/flash/flash_attn-2.8.3.tar.gz $out/flash
fi
exec "$python" tests/gpu/pack.py "$@"
