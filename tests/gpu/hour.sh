#!/usr/bin/env bash
# One hour on a node of eight GPUs of 80 GB: what only several ranks show. From a fresh clone, with driver 580 or later,
# 16 cores, 400 GiB of memory, 250 GB of disk and a route to the hub:
#
#   mkdir -p ~/hour && nohup bash tests/gpu/hour.sh >~/hour/log 2>&1 &        # `kill` ends it, and what it runs
#   DEVICE=cpu GPUS=2 OUT=/tmp/hour bash tests/gpu/hour.sh               # the same commands on logical GPUs, smaller
#
# Before the hour: build flash-attn elsewhere (FLASH_ATTN=WHEEL), or it takes one to two hours of CPU time; download the
# models, 1 GB and 15 GB, into HF_HOME.
#
# A part that fails or exceeds its limit does not stop the next. Each writes OUT/PART/out.txt; at the end all but weights
# is packed into OUT.tar.gz. PARTS="1 3 3tp" runs these alone.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export OUT=${OUT:-$HOME/hour} HF_HOME=${HF_HOME:-$HOME/hf} NCCL_DEBUG=WARN GPUS=${GPUS:-8} DEVICE=${DEVICE:-gpu}
hour=3600 running=
mkdir -p "$OUT"
trap 'kill -INT $running; wait $running; exit 143' TERM INT
trap 'kill $(jobs -p) 2>/dev/null' EXIT

part() { # part NAME SECONDS COMMAND...
    local name=$1 limit=$2 left=$((hour - SECONDS)) status
    shift 2
    [[ " ${PARTS:-$name} " == *" $name "* ]] || return 0
    if ((left < 120)) && [ "$DEVICE" = gpu ]; then
        echo "== $name: left out, the hour is over"
        return 0
    fi
    mkdir -p "$OUT/$name"
    echo "== $name, minute $((SECONDS / 60)), at most $((limit / 60)): $*"
    timeout --signal INT --kill-after 60 "$limit" "$@" >"$OUT/$name/out.txt" 2>&1 &
    running=$!
    wait $running
    status=$?
    tail -n 3 "$OUT/$name/out.txt" | cut -c1-300
    echo "   exit status $status, minute $((SECONDS / 60))"
}
train() { # train SCRIPT FOLDER FLAGS...: what a part runs with the small model, or that of MODEL
    local script=$1 folder=$2
    shift 2
    OUT=$OUT/$folder/run bash "launch/train_$script.sh" "$@"
}
export -f train

# 0. The environment. Decides whether launch/requirements-gpu.txt and toolkit.sh are whole on a real node.
part 0 900 bash launch/setup_gpu.sh $([ "$DEVICE" = gpu ] || echo --check)
. .venv/bin/activate || exit
{
    nvidia-smi topo -m
    nvidia-smi
    df -h . /dev/shm
    ulimit -a
    free -g
    nproc --all
    getent hosts "$(hostname)"
} >"$OUT/machine.txt" 2>&1
while sleep 5; do
    echo "$(date +%s) $(grep -E 'MemAvailable|Mlocked|Shmem:' /proc/meminfo | tr -s ' \n' ' ')"
done >"$OUT/host.txt" &
if [ "$DEVICE" = gpu ]; then
    nvidia-smi --query-gpu=timestamp,index,memory.used,utilization.gpu --format=csv,noheader --loop 2 >"$OUT/gpus.csv" &
    seven=Qwen/Qwen2.5-7B-Instruct
    few="--rollout.batch_size 64 --train.batch_size 256 --rollout.max_new_tokens 512 --data.max_len 1024"
    prepare="openrlhf-gtpo data prepare"
    $prepare gsm8k --from openai/gsm8k --config main --split train --out "$OUT/data"
    $prepare dapo17k --from BytedTsinghua-SIA/DAPO-Math-17k --split train --out "$OUT/data"
    export MODEL=Qwen/Qwen2.5-0.5B-Instruct DATA=$OUT/data/gsm8k.jsonl
else
    seven=$PWD/runs/quickstart/warm_start/model few="--data.max_samples 128"
    export REHEARSE=1 NODES=1 OMP_NUM_THREADS=1 MODEL=$seven DATA=$PWD/runs/quickstart/warm_start/train.jsonl
fi

# 1. The network alone. Decides whether a later hang is ours or the node's (P2P, /dev/shm, NVLS). 100 GB/s are right.
cat >"$OUT/gather.py" <<'PYTHON'
import os
import time

import torch
import torch.distributed as dist

gpu = os.environ["DEVICE"] == "gpu"
dist.init_process_group("nccl" if gpu else "gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
device = f"cuda:{rank}" if gpu else "cpu"
if gpu:
    torch.cuda.set_device(rank)
own = torch.full((2**27 if gpu else 2**20,), rank, device=device, dtype=torch.bfloat16)
everything = torch.empty(ranks * own.numel(), device=device, dtype=own.dtype)
for _ in range(6):
    dist.barrier()
    begin = time.perf_counter()
    dist.all_gather_into_tensor(everything, own)
    if gpu:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
assert everything[:: own.numel()].tolist() == list(range(ranks))
if rank == 0:
    print(f"{everything.nbytes / seconds / 1e9:.1f} GB/s gathered on {ranks} ranks")
dist.destroy_process_group()
PYTHON
part 1 180 torchrun --nproc-per-node "$GPUS" "$OUT/gather.py"

# 2. Entropies, three steps, a resume, and its refusal on one GPU less. Decides whether hook, CUDA IPC, sleep and ZeRO-3
#    work.
part 2 900 openrlhf-gtpo doctor --device "$DEVICE" --run --gpus "$GPUS" $([ "$DEVICE" = cpu ] || echo "--model $MODEL")

# 3. The scripts' own flags on a small model. mismatch/logprob_gap flat: weights arrive in all engines; three times the
#    first: an engine is stale. timing/broadcast is to be below 10 s. 3tp: two GPUs an engine, by vLLM's Ray executor.
part 3 600 bash -c "train gtpo 3 $few --train.max_steps 4 --ckpt.save_steps 2"
part 3tp 600 bash -c "train gtpo 3tp $few --train.max_steps 4 --ckpt.save_steps -1 \
    --vllm.num_engines $((GPUS / 2)) --vllm.tensor_parallel_size 2"

# 4. Resume: goes on at step 5 with the old gap; on half of the GPUs it is refused in seconds, with exit status 2.
part 4 420 bash -c "train gtpo 3 $few --train.max_steps 5 --ckpt.save_steps 2 --ckpt.load_enable"
part 4half 180 env GPUS=$((GPUS / 2)) bash -c "train gtpo 3 $few --train.max_steps 6 --ckpt.load_enable"

# 5. 7B with the real flags, four steps and a checkpoint. Decides the costs of docs/training.md: timing/step_total (194 s,
#    86 to 567), tokens a second; the peak of gpus.csv against the plan's 53 GiB, host.txt against its 326.
export MODEL=$seven
[ "$DEVICE" = cpu ] || export DATA=$OUT/data/dapo17k.jsonl
part 5 1500 bash -c "train gtpo 5 --train.max_steps 4 --ckpt.save_steps 4 --ckpt.max_num 1"

# 6. DAPO, two steps. timing/generate against part 5's, and rollout/prompts_consumed: decides whether 256 prompts at
#    once cost what docs/gpu.md simulates.
part 6 900 bash -c "train dapo 6 --train.max_steps 2 --ckpt.save_steps -1"

for name in 3 3tp 5 6; do
    [ ! -d "$OUT/$name/run" ] || openrlhf-gtpo report "$OUT/$name/run" || true
done
tar czf "$OUT.tar.gz" --exclude='*.safetensors' --exclude='*.pt' --exclude=state --exclude=data \
    -C "$(dirname "$OUT")" "$(basename "$OUT")" && echo "done in $((SECONDS / 60)) minutes: $OUT.tar.gz"
