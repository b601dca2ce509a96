#!/usr/bin/env bash
# GTPO on one GPU: Qwen2.5-0.5B-Instruct or 1.5B-Instruct learns GSM8K or MATH. vLLM and the trainer take turns on the
# GPU; the trainer starts the reward service.
#
#   bash launch/setup_gpu.sh && source .venv/bin/activate     # the scripts find .venv; openrlhf-gtpo is on its PATH
#   openrlhf-gtpo data prepare gsm8k --from openai/gsm8k --config main --split train --out data
#   bash launch/train_one_gpu.sh --dry-run                     # the plan, and whether it fits
#   bash launch/train_one_gpu.sh
#   openrlhf-gtpo report ~/checkpoints/gtpo-0.5b-gsm8k         # curves and tokens, one HTML file
#
# GPU_GB  memory of the GPU in GiB (default: nvidia-smi's): 24, 48 or 80; other sizes count as the next smaller one
# SIZE    0.5b (default below 40 GiB) or 1.5b (default above; below, Adam's state is in the node's memory)
# TASK    gsm8k: answers of up to 1,024 tokens (default); math: up to 2,048
# DATA    prompts and references, as `data prepare` writes them (data/gsm8k.jsonl; for math data/other.jsonl, of
#         `data prepare other --from DigitalLearningGmbH/MATH-lighteval --split train`)
# PRESET  gtpo (default), grpo_s, grpo, dapo
# STEPS   number of steps, each of 64 prompts with 8 responses in four updates (100)
# OUT     ~/checkpoints/PRESET-SIZE-TASK
# PYTHON  interpreter with openrlhf-gtpo (that of .venv here, else python3)
# REHEARSE  1: run all of this script's flags on this machine's CPU, for three small steps of a small policy on one logical
#         GPU; MODEL and DATA are those of the quickstart
#
# In metrics.jsonl and the report, look at these:
#   rollout/pass_rate           rises within 20 steps
#   entropy/token_mean          falls slowly; if it falls to 0 at once, the learning rate is too high
#   mismatch/logprob_gap        stays near that of the first step; three times that, policy and engine differ in weights
#   groups/uninformative_share  share of groups from which a step learns nothing
#
# Flags after the script's name are passed on and override the script's.
set -euo pipefail

fail() {
    echo "launch/train_one_gpu.sh: $*" >&2
    exit 2
}

. "$(dirname "${BASH_SOURCE[0]}")/find_python.sh"
if [ -n "${REHEARSE:-}" ] && [ -z "${RAY_ADDRESS:-}" ]; then
    export GPU_GB=${GPU_GB:-80}
    SCRIPT=${BASH_SOURCE[0]} NAME=one_gpu NODES=1 GPUS=1 . "$(dirname "${BASH_SOURCE[0]}")/rehearse.sh" # and does not return
fi

if [ -z "${GPU_GB:-}" ]; then
    mib=$(nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits 2>/dev/null | head -n 1) ||
        fail "nvidia-smi finds no GPU: set GPU_GB to the memory of the GPU in GiB, such as GPU_GB=24."
    GPU_GB=$(((mib + 512) / 1024))
fi
[[ $GPU_GB =~ ^[1-9][0-9]*$ ]] ||
    fail "GPU_GB is $GPU_GB, but needs to be the memory of the GPU in GiB, a whole number."
((GPU_GB >= 22)) || fail "GPU_GB is $GPU_GB, but the smallest supported GPU has 24 GiB."
export GPU_GB

[ -n "${SIZE:-}" ] || SIZE=$( ((GPU_GB >= 40)) && echo 1.5b || echo 0.5b)
case $SIZE in
    0.5b) model=Qwen/Qwen2.5-0.5B-Instruct ;;
    1.5b) model=Qwen/Qwen2.5-1.5B-Instruct ;;
    *) fail "SIZE is $SIZE, but needs to be 0.5b or 1.5b." ;;
esac
case ${TASK:=gsm8k} in
    gsm8k) length=1536 answer=1024 data=data/gsm8k.jsonl ;;
    math) length=3072 answer=2048 data=data/other.jsonl ;;
    *) fail "TASK is $TASK, but needs to be gsm8k or math." ;;
esac
# Tokens of a micro-batch, in training and for log-probabilities.
if ((GPU_GB >= 78)); then
    learn=16384 score=32768
elif ((GPU_GB >= 46)); then
    learn=8192 score=12288
elif [ "$SIZE" = 0.5b ]; then
    learn=4096 score=8192
else
    learn=2048 score=4096 # a card of 24 GB has 22.5 GiB
fi

preset=${PRESET:-gtpo}
steps=${STEPS:-100}
prompts=128 # at once, where some are filtered; a step has half as many
[[ $steps =~ ^[1-9][0-9]*$ ]] || fail "STEPS is $steps, but needs to be a whole number from 1 up."
out=${OUT:-$HOME/checkpoints/$preset-$SIZE-$TASK}
flags=(
    --preset "$preset"
    --device gpu
    --actor.model_name_or_path "${MODEL:-$model}"
    --data.prompt_dataset "${DATA:-$data}"
    --data.input_key input
    --data.label_key label
    --data.apply_chat_template
    --data.max_len "$length"
    --rollout.max_new_tokens "$answer"
    --rollout.batch_size $((prompts / 2))
    --rollout.n_samples_per_prompt 8
    --train.batch_size 128
    --train.dynamic_batch_enable
    --train.max_tokens_per_gpu "$learn"
    --rollout.max_tokens_per_gpu "$score"
    --train.max_steps "$steps"
    --actor.gradient_checkpointing_enable
    --actor.num_nodes 1
    --actor.num_gpus_per_node 1
    --ds.zero_stage 2
    --ds.packing_samples
    --train.colocate_all
    --vllm.num_engines 1
    --vllm.enable_sleep
    --vllm.enable_prefix_caching
    --vllm.sync_backend nccl
    --ckpt.output_dir "$out/model"
    --ckpt.path "$out/state"
    --ckpt.save_steps 20
    --ckpt.max_num 1
    --logger.logging_steps 1
    --logger.metrics_path "$out/metrics.jsonl"
    --shaping.save_rollouts 2
)
if [ "$SIZE" = 1.5b ] && ((GPU_GB < 40)); then
    # 12 bytes a parameter, 18 GB, are in the node's memory; weights and gradients stay beside the engine.
    flags+=(--ds.adam_offload --vllm.gpu_memory_utilization 0.6)
else
    flags+=(--ds.enable_sleep --vllm.gpu_memory_utilization 0.75)
fi
if [ -n "${REHEARSE:-}" ]; then
    answer=40 prompts=32
    flags+=(
        --device cpu
        --data.max_len 96
        --data.max_samples 48
        --train.num_episodes 1
        --train.max_steps 3
        --train.batch_size 64
        --rollout.batch_size 16
        --rollout.max_new_tokens "$answer"
    )
fi
# Engine and policy round differently, so a token's probability differs; OpenRLHF leaves out tokens where it does by much.
[ "$preset" = grpo_s ] || flags+=(--algo.advantage.is_correction_level token)
if [ "$preset" = dapo ]; then
    flags+=(--reward.overlong_buffer_len $((answer / 4)) --rollout.over_sampling_batch_size "$prompts")
fi
echo "launch/train_one_gpu.sh: $preset for ${MODEL:-$model} on ${DATA:-$data}, one GPU of $GPU_GB GiB; everything goes to $out" >&2
exec "$python" -m openrlhf_gtpo.train "${flags[@]}" "$@"
