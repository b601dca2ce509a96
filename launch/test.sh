#!/usr/bin/env bash
# Runs all checks: style and types, the fast tests, then the tests that start engines and the real loop.
#
#   bash launch/test.sh                 # everything
#   bash launch/test.sh fast            # checks without an engine, before each commit
#   bash launch/test.sh tests/plugin    # only these tests; further flags go to pytest
#   bash launch/test.sh nightly         # what takes hours: before a release, and each night
#   bash launch/test.sh same COMMIT     # does training give the same as at COMMIT, to the last bit? launch/same/compare.py
#   bash launch/test.sh mutants [N]     # how many of N random changes of the code do the tests notice?
#
# Runs launch/setup.sh first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bash launch/setup.sh

if [ "${1:-}" = same ]; then
    exec .venv/bin/python launch/same/compare.py "${@:2}"
fi
if [ "${1:-}" = mutants ]; then
    exec .venv/bin/python tests/benchmarks/mutants.py --mutants "${2:-300}"
fi

tier=everything
case ${1:-} in
    fast | nightly) tier=$1 && shift ;;
esac
if [ $# -gt 0 ]; then
    exec .venv/bin/python -m pytest "$@"
fi

declare -A number_of=([fast]=2 [everything]=3 [nightly]=8)
phases=${number_of[$tier]}
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

# What the suite makes for a while is in a folder of its own, Ray's note of the current cluster too.
folder=$(mktemp -d /tmp/gtpo.XXXXXX)
export TMPDIR=$folder RAY_TMPDIR=$folder
touch "$folder/begin"
leave() { # remove the folder; a process of the suite that is left, after half a minute, is a failure
    local code=$? left memory
    [ $code -eq 0 ] || status=$code # also where a signal ended it
    unset TMPDIR RAY_TMPDIR
    for _ in $(seq 30); do
        left=$(grep -lsz "^TMPDIR=$folder" /proc/[0-9]*/environ | cut -d/ -f3) || true
        [ -n "$left" ] || break
        sleep 1
    done
    if [ -n "$left" ]; then
        echo "launch/test.sh: these processes were left running:" >&2
        ps -o pid,args $left | cut -c1-150 >&2 || true
        kill -9 $left 2>/dev/null || true
        status=1
    fi
    # vLLM leaves shared memory of an engine with two workers: what came meanwhile and no process has mapped.
    for memory in $(find /dev/shm -user "$(id -u)" -newer "$folder/begin" \
        \( -name 'psm_*' -o -name 'sem.mp-*' -o -name 'vllm_dist_*' \) 2>/dev/null); do
        grep -qsF " $memory" /proc/[0-9]*/maps || rm -f "$memory"
    done
    rm -rf "$folder"
    exit $status
}
trap leave EXIT
# By default torch would use every core in each worker.
export OMP_NUM_THREADS=1
# What the first of some hundred processes compiles the others read.
unset PYTHONDONTWRITEBYTECODE
if [ "$tier" = nightly ]; then
    phase 1 "tests that take long, and a real language model" \
        .venv/bin/python -m pytest -v -rs -m nightly
    phase 2 "a million generated pairs" .venv/bin/python tests/benchmarks/differential.py --pairs 1000000
    phase 3 "a million generated documents" .venv/bin/python tests/benchmarks/differential.py --documents --pairs 1000000
    phase 4 "texts made to slow each regular expression down" .venv/bin/python tests/benchmarks/pattern_times.py
    phase 5 "attacks on the reward service" .venv/bin/python tests/benchmarks/service_attacks.py
    phase 6 "other trainers" bash launch/adapters.sh
    phase 7 "vLLM versions" bash tests/versions/run.sh
    phase 8 "300 mutants" .venv/bin/python tests/benchmarks/mutants.py --mutants 300
    exit $status
fi
phase 1 "style and types" style
phase 2 "fast tests, 3 at a time: some wait, for a service or a clock" \
    .venv/bin/python -m pytest -q -rs --durations=10 -n 3 --dist worksteal -m "not engine and not nightly"
[ "$tier" = fast ] || phase 3 "engines and the real loop, 2 at a time (a policy is trained first: a minute without a line)" \
    .venv/bin/python -m pytest -v -rs --durations=10 -n 2 --dist loadfile --no-loadscope-reorder -m "engine and not nightly" # conftest.py orders
exit $status
