#!/usr/bin/env bash
# Runs everything that is tested: linters and types, the fast tests in parallel, then the real loop.
#
#   bash launch/test.sh                 # all of it, about a quarter of an hour on 2 cores
#   bash launch/test.sh tests/plugin    # only these, with any further flags of pytest
#
# Sets up what is missing first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bash launch/setup.sh

if [ $# -gt 0 ]; then
    exec .venv/bin/python -m pytest "$@"
fi

echo "── 1 of 4: style and types"
.venv/bin/ruff check .
.venv/bin/ruff format --check .
.venv/bin/mypy

# Each worker would take every core for torch's threads otherwise.
export OMP_NUM_THREADS=1
status=0
echo "── 2 of 4: fast tests, 2 at a time"
.venv/bin/python -m pytest -q -n 2 --dist loadscope --ignore tests/end_to_end --ignore tests/plugin/test_vllm_entropy.py || status=1
echo "── 3 of 4: the real vLLM engine"
.venv/bin/python -m pytest -q tests/plugin/test_vllm_entropy.py || status=1
echo "── 4 of 4: the real loop, 2 files at a time (the first trains its policy: a minute without a line)"
.venv/bin/python -m pytest -v -n 2 --dist loadfile --timeout 600 tests/end_to_end || status=1
exit $status
