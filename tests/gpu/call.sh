#!/usr/bin/env bash
# One of the four calls on a borrowed GPU machine: bash tests/gpu/call.sh 1 (then 2, 3, 4); see README.md beside this.
#
# OUT     folder for results (runs/gpu/out)
# SITE    folder for packages (/tmp/openrlhf_gtpo_site)
# DEVICE  gpu (default), or cpu to try a call here with small sizes and this environment's packages
# PYTHON  interpreter (python3)
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
call=${1:-}
[[ $call =~ ^[1-4]$ ]] || {
    echo "tests/gpu/call.sh: takes the number of a call, 1 to 4." >&2
    exit 2
}
python=${PYTHON:-python3} out=${OUT:-runs/gpu/out} device=${DEVICE:-gpu} site=${SITE:-/tmp/openrlhf_gtpo_site}
mkdir -p "$out"
small=() sizes=() failed=0
if [ "$device" = gpu ]; then
    "$python" tests/gpu/unpack.py "runs/gpu/$call" "$site"
    # The machine's own torch and transformers stay; what is packed comes first otherwise.
    export PYTHONPATH=$site:$PWD/plugin:$PWD/reward_server PATH=$site/bin:$PATH
    export HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 VLLM_USE_FLASHINFER_SAMPLER=0 RAY_USAGE_STATS_ENABLED=0
    unset TORCH_CUDA_ARCH_LIST # some images have 9.0a, which DeepSpeed cannot read
    nvidia-smi --query-gpu=name,driver_version,memory.used,memory.total --format=csv | tee "$out/gpu.csv"
else
    small=(--device cpu --vocabularies 500 --rows 1 8)
    sizes=(--device cpu --layers 2 --vocabulary 2000 --sequences 8 --tokens 8)
fi
export PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1

run() { # its output to the terminal and to a log; a failure does not end the others
    local name=$1
    shift
    echo "== $name"
    "$@" 2>&1 | tee "$out/$name.log" || failed=1
}

case $call in
    1) run kernel "$python" tests/gpu/kernel.py --out "$out" "${small[@]}" ;;
    2)
        run exactness env TRITON_F32_DEFAULT=ieee "$python" tests/versions/exactness.py "$out/exactness.json"
        cat "$out/exactness.json"
        run rollout "$python" tests/gpu/rollout.py --out "$out" "${sizes[@]}"
        ;;
    3) run loop "$python" tests/gpu/loop.py --out "$out" --only loop,resume --device "$device" ;;
    4)
        run preemption env TRITON_F32_DEFAULT=ieee "$python" tests/gpu/preemption.py --out "$out" --device "$device"
        run lora "$python" tests/gpu/loop.py --out "$out" --only lora --device "$device"
        ;;
esac
# A call's answer has few files: everything else goes into one.
tar czf "$out/call$call.tar.gz" --exclude='*.tar.gz' --exclude=model -C "$out" .
exit $failed
