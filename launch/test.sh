#!/usr/bin/env bash
# Runs all checks: style and types, the fast tests, then the tests that start engines and the real loop.
#
#   bash launch/test.sh                 # everything
#   bash launch/test.sh fast            # checks without an engine, before each commit
#   bash launch/test.sh tests/plugin    # only these tests; further flags go to pytest
#   bash launch/test.sh same COMMIT     # does training give the same as at COMMIT, to the last bit? launch/same/compare.py
#   bash launch/test.sh mutants [N]     # how many of N random changes to the grader do its rows notice?
#
# Runs launch/setup.sh first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bash launch/setup.sh

if [ "${1:-}" = same ]; then
    exec .venv/bin/python launch/same/compare.py "${@:2}"
fi
if [ "${1:-}" = mutants ]; then
    exec .venv/bin/python tests/benchmarks/mutants.py --mutants "${2:-200}"
fi

fast=
[ "${1:-}" != fast ] || { fast=1 && shift; }
if [ $# -gt 0 ]; then
    exec .venv/bin/python -m pytest "$@"
fi

phases=3
[ -z "$fast" ] || phases=2
status=0
phase() { # phase NUMBER NAME COMMAND...
    local name="$1 of $phases: $2" begin=$SECONDS
    shift 2
    echo "── $name"
    "$@" || status=1
    echo "── $name took $((SECONDS - begin)) s"
}
style() {
    .venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/mypy &&
        .venv/bin/lint-imports --no-cache --no-logo
}

# By default torch would use every core in each worker.
export OMP_NUM_THREADS=1
phase 1 "style and types" style
phase 2 "fast tests, 3 at a time: some wait, for a service or a clock" \
    .venv/bin/python -m pytest -q -rs -n 3 --dist loadscope -m "not engine"
[ -n "$fast" ] || phase 3 "engines and the real loop, 2 at a time (a policy is trained first: a minute without a line)" \
    .venv/bin/python -m pytest -v -rs -n 2 --dist loadfile --no-loadscope-reorder -m engine # tests/conftest.py orders
exit $status
