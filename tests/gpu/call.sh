#!/usr/bin/env bash
# One of the four calls on a borrowed GPU machine: bash tests/gpu/call.sh 1 (then 2, 3, 4); see README.md beside this.
# Words after the number go to the call's own program, which then runs alone: call.sh 4 --only train,resume
#
# OUT     folder for results (runs/gpu/out): logs, and an archive of everything that is written again every 15 seconds
# SITE    folder for packages (/tmp/openrlhf_gtpo_site)
# DEVICE  gpu (default), or cpu to try a call here with small sizes and this environment's packages
# PYTHON  interpreter (python3)
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
call=${1:-}
shift || true
[[ $call =~ ^[1-4]$ ]] || {
    echo "tests/gpu/call.sh: takes the number of a call, 1 to 4." >&2
    exit 2
}
python=${PYTHON:-python3} out=${OUT:-runs/gpu/out} device=${DEVICE:-gpu}
export SITE=${SITE:-/tmp/openrlhf_gtpo_site} PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
mkdir -p "$out"
results=$(mktemp -d) # few files come back from such a machine
sizes=() failed=0
if [ "$device" = gpu ]; then
    "$python" tests/gpu/unpack.py "runs/gpu/$call" "$SITE"
    # The machine's own torch and transformers stay; what is packed comes first otherwise.
    export PYTHONPATH=$SITE:$PWD/plugin:$PWD/reward_server PATH=$SITE/bin:$PATH
    export HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 VLLM_USE_FLASHINFER_SAMPLER=0 RAY_USAGE_STATS_ENABLED=0
    unset TORCH_CUDA_ARCH_LIST # some images have 9.0a, which DeepSpeed cannot read
    nvidia-smi --query-gpu=name,driver_version,memory.used,memory.total --format=csv | tee "$results/gpu.csv"
else
    sizes=(--device cpu --layers 2 --vocabulary 2000 --sequences 8 --tokens 8)
fi

run() { # its output to the terminal and to a log; a failure does not end the others
    local name=$1
    shift
    echo "== $name, $SECONDS s after the call began"
    "$@" 2>&1 | tee "$out/$name.log" || failed=1
}

keep() { # a call that is killed at its limit leaves what it had found
    tar czf "$results.part" --exclude=model --exclude=work -C "$results" . 2>/dev/null
    mv "$results.part" "$out/call$call.tar.gz"
}

while sleep 15; do keep; done &

case $call in
    1 | 2) ;; # bring packages alone
    3)
        if [ $# = 0 ]; then
            run exactness env TRITON_F32_DEFAULT=ieee "$python" tests/versions/exactness.py "$results/exactness.json"
            cat "$results/exactness.json"
        fi
        run rollout "$python" tests/gpu/rollout.py --out "$results" "${sizes[@]}" "$@"
        ;;
    4)
        run loop "$python" tests/gpu/loop.py --out "$results" --device "$device" "$@"
        for drafts in "" --drafts; do
            [ $# != 0 ] || run "preemption$drafts" env TRITON_F32_DEFAULT=ieee \
                "$python" tests/gpu/preemption.py --out "$results" --device "$device" $drafts
        done
        ;;
esac
kill %1
keep
rm -rf "$results"
exit $failed
