#!/usr/bin/env bash
# Runs each adapter with the library that it is for, in an environment of its own under runs/cache/adapters.
#
#   bash launch/adapters.sh                   # all of them
#   bash launch/adapters.sh trl inspect       # some: trl, verl, molt, verifiers, inspect
#   bash launch/adapters.sh trl_vllm          # TRL over launch/setup.sh's .venv, which has vLLM
#
# Needs Python 3.11 or 3.12 and a connection to a package index. Disk: trl 1.2 GB, verl 1.9 GB, inspect and verifiers
# 0.3 GB each; molt goes beside launch/setup.sh's .venv too. No GPU, no model and no data set is downloaded: the model of
# TRL's run is made on the spot.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source launch/uv_as_pip.sh

torch=2.13.0
declare -A library=([trl]=trl==1.16.0 [verl]="verl[verl-core]==0.9.1" [molt]=molt-rl==0.1.6
    [verifiers]=verifiers==0.4.0 [inspect]=inspect_ai==0.3.285)
library[trl_vllm]=${library[trl]}

folder=runs/cache/adapters
mkdir -p "$folder"

fail() {
    echo "launch/adapters.sh: $*" >&2
    exit 1
}

python=
for candidate in ${PYTHON:-.venv/bin/python python3.11 python3.12 python3}; do
    if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
[ -n "$python" ] || fail "needs Python 3.11 or 3.12: install one, or name it with PYTHON=/path/to/python3.11."

if ! uv=$(command -v uv || ls .venv/bin/uv 2>/dev/null); then
    "$python" -m venv "$folder/uv"
    "$folder/uv/bin/python" -m pip install --quiet uv
    uv=$folder/uv/bin/uv
fi
uv_as_pip "$python"

install() { # install NAME: the library, what the service needs, and pytest
    local environment=$folder/$1 packages=("${library[$1]}" pytest -r reward_server/pyproject.toml --extra server --extra client)
    if [ "$1" = molt ] || [ "$1" = trl_vllm ]; then # beside launch/setup.sh's packages, which have all that these need
        [ -x .venv/bin/vllm ] || fail "$1 needs the packages of .venv: run \`bash launch/setup.sh\` first."
        "$uv" venv --quiet --allow-existing --python .venv/bin/python "$environment"
        .venv/bin/python -c 'import site; print(*site.getsitepackages())' \
            >"$(echo "$environment"/lib/python3.*/site-packages)/beside.pth"
        "$uv" pip install --quiet --no-deps --python "$environment/bin/python" "${library[$1]}"
        return
    fi
    [ -x "$environment/bin/python" ] || "$uv" venv --quiet --python "$python" "$environment"
    case $1 in
        trl | verl) # the CPU build of torch, as launch/setup.sh installs it
            if echo "torch==$torch+cpu" | "$uv" pip compile --quiet --no-deps --python "$python" - >/dev/null 2>&1; then
                packages+=("torch==$torch+cpu")
            else
                packages+=("torch==$torch" --torch-backend cpu)
            fi
            ;;
    esac
    [ "$1" != trl ] || packages+=(peft) # GTPOTrainer is checked with LoRA too
    "$uv" pip install --quiet --python "$environment/bin/python" "${packages[@]}"
}

[ $# -gt 0 ] || set -- trl verl molt verifiers inspect
for name in "$@"; do
    [ -n "${library[$name]:-}" ] || fail "there is no adapter '$name': name some of trl, verl, molt, verifiers, inspect."
done
failed=()
for name in "$@"; do
    echo "== $name: ${library[$name]}"
    install "$name" || fail "the packages of $name cannot be installed."
    # Without this project's own pytest settings and the other tests' conftest.py, which need its environment.
    PYTHONPATH=$PWD/plugin:$PWD/reward_server CUDA_VISIBLE_DEVICES='' "$folder/$name/bin/python" -m pytest -c /dev/null \
        --rootdir . --confcutdir tests/adapters -p no:cacheprovider -v -rP tests/adapters/check_"$name"*.py ||
        failed+=("$name")
done
[ ${#failed[@]} -eq 0 ] || fail "failed: ${failed[*]}."
