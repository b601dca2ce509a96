#!/usr/bin/env bash
# Writes launch/requirements-cpu.txt and launch/requirements-gpu.txt: every package of the CPU stack (with hashes) and of
# the GPU set, with the extras of both distributions, for Python 3.10 to 3.12. Versions in the old files are kept where the
# requirements still allow them.
#
#   bash launch/lock.sh              # after a change of requirements-*.in, *.overrides or of a pyproject.toml
#   bash launch/lock.sh --upgrade    # the newest versions that fit
#
# OUT  folder for the files (launch)
#
# Needs uv.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
uv=$(command -v uv || echo .venv/bin/uv)
out=${OUT:-launch}
lock() { # lock cpu|gpu ARGUMENT...
    local kind=$1
    shift
    "$uv" pip compile pyproject.toml reward_server/pyproject.toml --extra server \
        --override "launch/requirements-$kind.overrides" --universal --python-version 3.10 --no-python-downloads \
        --no-emit-package math-reward --no-annotate --custom-compile-command "bash launch/lock.sh" --quiet \
        --output-file "$out/requirements-$kind.txt" "$@"
}
lock cpu launch/requirements-cpu.in --extra quickstart --extra test --extra docs --extra client --extra math-verify \
    --generate-hashes "$@"
lock gpu --extra train --extra ray-serve "$@"
