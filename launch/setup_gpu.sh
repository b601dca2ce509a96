#!/usr/bin/env bash
# Makes .venv for training on GPUs. On every node, or once for all in an image (plugin/Dockerfile):
#
#   bash launch/setup_gpu.sh
#   bash launch/setup_gpu.sh --dry-run     # prints the versions that it would install, and installs nothing
#   FLASH_ATTN=flash_attn-2.8.3-cp312-cp312-linux_x86_64.whl bash launch/setup_gpu.sh
#
# pip cannot install everything at once: OpenRLHF needs flash-attn, whose build needs torch but does not declare it. So
# the script installs vLLM with its torch, OpenRLHF and the rest; then flash-attn, against that torch; then this project.
#
# PYTHON      an interpreter of Python 3.10, 3.11 or 3.12 (the first of python3.12, python3.11, python3.10, python3)
# VENV        where the environment goes (.venv)
# FLASH_ATTN  a wheel of flash-attn that fits torch, CUDA and Python. Without it flash-attn is compiled, which takes an
#             hour with few cores. MAX_JOBS limits how many compilers run at once
#
# nvcc of torch's CUDA is needed in any case: DeepSpeed compiles its optimizer with it when training starts.
#
# Needs Linux, uv (or pip, to install it), 25 GB of disk and a package index. uv's own settings (UV_*) are used.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=${VENV:-.venv}
python=$venv/bin/python
overrides=launch/requirements-gpu.overrides
extras=(--extra train --extra server --extra ray-serve) # the plugin's, then math-reward's

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

check_compiler() { # nvcc of the CUDA that torch was built with
    local nvcc wanted found compiled="flash-attn and DeepSpeed's optimizer are"
    [ -z "${FLASH_ATTN:-}" ] || compiled="DeepSpeed's optimizer is"
    wanted=$("$python" -c 'import torch; print(torch.version.cuda or "")')
    [ -n "$wanted" ] || fail "the torch in $venv is a build without CUDA: remove $venv, then run this again."
    nvcc=$(PATH="${CUDA_HOME:-/usr/local/cuda}/bin:$PATH" command -v nvcc) ||
        fail "$compiled compiled by nvcc, and there is none: install the toolkit of CUDA $wanted or use plugin/Dockerfile."
    found=$("$nvcc" --version | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
    [ "$found" = "${wanted%%.*}" ] ||
        fail "torch is of CUDA $wanted, but $nvcc, by which $compiled compiled, is of CUDA $found: install the toolkit of" \
            "CUDA $wanted and set CUDA_HOME to it."
}

[ $# = 0 ] || [ "$*" = --dry-run ] || fail "takes --dry-run and nothing else, not '$*'."
[ -z "${FLASH_ATTN:-}" ] || [ -f "$FLASH_ATTN" ] || fail "FLASH_ATTN is $FLASH_ATTN, but there is no such wheel."
base=$(find_python)

if [ "$*" = --dry-run ]; then
    uv=$(command -v uv || command -v .venv/bin/uv) || fail "--dry-run needs uv: install it by \`pip install uv\`."
    exec "$uv" pip compile --quiet --no-header --no-annotate --python "$base" --override "$overrides" \
        --no-emit-package math-reward pyproject.toml reward_server/pyproject.toml "${extras[@]}"
fi

[ -x "$python" ] || "$base" -m venv "$venv"
if ! uv=$(command -v uv); then
    "$python" -m pip install --quiet uv
    uv=$venv/bin/uv
fi

echo "1 of 3: vLLM with its torch, OpenRLHF, DeepSpeed and Ray"
"$uv" pip install --python "$python" --override "$overrides" \
    -r pyproject.toml -r reward_server/pyproject.toml "${extras[@]}"

echo "2 of 3: flash-attn, against this torch"
wanted=${FLASH_ATTN:-$("$python" -c 'from importlib.metadata import requires
print(next(line for line in requires("openrlhf") if line.startswith("flash-attn")))')}
check_compiler
if [ -z "${FLASH_ATTN:-}" ]; then
    "$uv" pip install --python "$python" setuptools wheel packaging psutil ninja
fi
"$uv" pip install --python "$python" --no-build-isolation --no-deps "$wanted"

echo "3 of 3: this project, the plugin and math-reward"
"$uv" pip install --python "$python" --no-deps . ./reward_server
"$python" -c 'import flash_attn, deepspeed, ray, vllm, openrlhf, openrlhf_gtpo, math_reward'
echo "Done. \`source $venv/bin/activate\` puts openrlhf-gtpo and math-reward on this shell's PATH; next: openrlhf-gtpo doctor"
