#!/usr/bin/env bash
# Writes launch/requirements-cpu.txt: every package of the CPU stack and of the extras of both distributions, for Python
# 3.10 to 3.12, with hashes. Versions in the old file are kept where the requirements still allow them.
#
#   bash launch/lock.sh              # after a change of requirements-cpu.in or of a pyproject.toml
#   bash launch/lock.sh --upgrade    # the newest versions that fit
#
# Needs uv.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
uv=$(command -v uv || echo .venv/bin/uv)
exec "$uv" pip compile launch/requirements-cpu.in pyproject.toml --extra quickstart --extra test --extra docs \
    reward_server/pyproject.toml --extra server --extra client --extra math-verify \
    --override launch/requirements-cpu.overrides --universal --python-version 3.10 --no-python-downloads --generate-hashes \
    --no-emit-package math-reward --no-annotate --custom-compile-command "bash launch/lock.sh" --quiet \
    --output-file launch/requirements-cpu.txt "$@"
