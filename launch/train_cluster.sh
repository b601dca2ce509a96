#!/usr/bin/env bash
# Trains with one of the paper's algorithms and settings on a Ray cluster with GPUs; train_gtpo.sh, train_grpo_s.sh and
# train_dapo.sh call it. Run it on the head node, or from anywhere:
#
#   ray job submit --working-dir . -- bash launch/train_gtpo.sh
#   SIZE=32b DATA=/data/dapo17k/train.jsonl bash launch/train_grpo_s.sh --logger.wandb.enable
#   bash launch/train_dapo.sh --dry-run        # checks the flags and prints the plan; starts nothing, needs no GPU
#
# PRESET  gtpo, grpo_s, dapo, dapo_forking or grpo
# SIZE    7b: Qwen2.5-7B on one node of 8 GPUs (default); 32b: Qwen2.5-32B on 8 nodes of 8 GPUs
# MODEL   the policy, a folder or a hub id (Qwen/Qwen2.5-7B, Qwen/Qwen2.5-32B)
# DATA    prompts and reference answers, one JSON object a line (data/train.jsonl)
# INPUT_KEY, LABEL_KEY  its columns (input, label)
# NODES, GPUS  machines, and GPUs of each (1 and 8, or 8 and 8)
# GPU_GB  memory of a GPU in GiB (80); with less, micro-batches have fewer tokens
# REWARD_URL   reward services, separated by commas; without it one is started, on a single node only
# MATH_REWARD_TOKEN_FILE  file with their token, on the node where this runs; see launch/runtime_env.yaml
# WANDB_API_KEY  key of --logger.wandb.enable, which `wandb login` can leave on every node instead. Ray's processes have
#         the environment of `ray start`, so set it before that
# OUT     folder for checkpoints and metrics that every node can reach (~/checkpoints/PRESET-SIZE). Not in a Ray job's
#         working directory, which Ray deletes
# PYTHON  interpreter with openrlhf-gtpo (that of .venv here, else python3)
# DEVICE  gpu (default), or cpu to test a cluster with a small policy: three small steps, without the flags that need a
#         GPU; launch/runtime_env_cpu.yaml has a job's settings for that
# REHEARSE  1: run all of this script's flags on this machine's CPU, for three small steps, on a Ray cluster of NODES
#         raylets (2) with GPUS logical GPUs each (1); MODEL and DATA are those of the quickstart. With SIZE=32b (8 nodes
#         of 8) it only prints where every actor would be placed
#
# Flags after the script's name are passed on and override the script's. Prompts, updates, lengths, steps and learning
# rate are the preset's, which is the paper's run (plugin/openrlhf_gtpo/presets); here stands what fits it to the
# machines.
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/find_python.sh"
if [ -n "${REHEARSE:-}" ] && [ -z "${RAY_ADDRESS:-}" ]; then
    [ "${SIZE:-7b}" = 7b ] || export NODES=${NODES:-8} GPUS=${GPUS:-8}
    export NODES=${NODES:-2} GPUS=${GPUS:-1} DEVICE=cpu
    SCRIPT=${BASH_SOURCE[0]} NAME=${PRESET:-} . "$(dirname "${BASH_SOURCE[0]}")/rehearse.sh" # and does not return
fi

case ${SIZE:=7b} in
    7b)
        nodes=${NODES:-1}
        engine_gpus=1 # 15 GiB of weights fit on one GPU, and eight such engines need not synchronise at every layer
        model=${MODEL:-Qwen/Qwen2.5-7B}
        ;;
    32b)
        nodes=${NODES:-8}
        engine_gpus=4
        model=${MODEL:-Qwen/Qwen2.5-32B}
        ;;
    *)
        echo "launch/train_cluster.sh: SIZE is $SIZE, but needs to be 7b or 32b." >&2
        exit 2
        ;;
esac
gpus=${GPUS:-8}
[[ ${GPU_GB:=80} =~ ^[1-9][0-9]*$ ]] || {
    echo "launch/train_cluster.sh: GPU_GB is $GPU_GB, but needs to be the memory of a GPU in GiB, a whole number." >&2
    exit 2
}
# Tokens of a micro-batch, in training and for log-probabilities. What a micro-batch costs whatever its size, which is
# gathering the weights and DeepSpeed's hooks, was most of a step with two responses in each: docs/training.md.
if ((GPU_GB >= 78)); then
    learn=16384 score=32768
else
    learn=8192 score=12288
fi
export GPU_GB
[ "${DEVICE:=gpu}" = gpu ] || engine_gpus=1
if ((nodes * gpus % engine_gpus)); then
    echo "launch/train_cluster.sh: $nodes x $gpus GPUs do not divide into vLLM engines of $engine_gpus: change NODES or GPUS." >&2
    exit 2
fi
if ((nodes > 1)) && [ -z "${REWARD_URL:-}" ]; then
    echo "launch/train_cluster.sh: $nodes nodes share a reward service: start \`math-reward serve\` where all of them" \
        "reach it and set REWARD_URL=http://HOST:PORT." >&2
    exit 2
fi

out=${OUT:-$HOME/checkpoints/${PRESET:-}-$SIZE}
flags=(
    --preset "${PRESET:?set it to gtpo, grpo_s, dapo, dapo_forking or grpo}"
    --actor.model_name_or_path "$model"
    --data.prompt_dataset "${DATA:-data/train.jsonl}"
    --data.input_key "${INPUT_KEY:-input}"
    --data.label_key "${LABEL_KEY:-label}"
    --data.apply_chat_template
    --actor.gradient_checkpointing_enable
    --ds.zero_stage 3
    --actor.num_nodes "$nodes"
    --actor.num_gpus_per_node "$gpus"
    --vllm.num_engines $((nodes * gpus / engine_gpus))
    --vllm.tensor_parallel_size "$engine_gpus"
    --ckpt.output_dir "$out/model"
    --ckpt.path "$out/state"
    --ckpt.save_steps 20
    --ckpt.max_num 2 # the older one goes before the next is written
    --logger.logging_steps 1
    --logger.metrics_path "$out/metrics.jsonl"
    --shaping.save_rollouts 2 # for the report's token view
    --device "$DEVICE"
)
# The same GPUs generate and train, in turn.
[ "$DEVICE" = cpu ] && [ -z "${REHEARSE:-}" ] || flags+=(
    --ds.packing_samples
    --train.dynamic_batch_enable
    --train.max_tokens_per_gpu "$learn"
    --rollout.max_tokens_per_gpu "$score"
    --ds.overlap_comm # gradients are sent while the next are computed
    --train.colocate_all
    --vllm.enable_sleep
    --ds.enable_sleep
    --vllm.gpu_memory_utilization 0.8 # while the policy sleeps, which keeps a share of its weights
    --vllm.enable_prefix_caching # a prompt's responses share its keys and values
    --vllm.sync_backend nccl
)
# On a CPU the same flags with small numbers.
[ "$DEVICE" = gpu ] || flags+=(
    --data.max_len 96
    --data.max_samples 48
    --train.num_episodes 1
    --train.max_steps 3
    --train.batch_size 64
    --rollout.batch_size 16
    --rollout.n_samples_per_prompt 8
    --rollout.max_new_tokens 40
)
[[ $DEVICE = gpu || $PRESET != dapo* ]] ||
    flags+=(--reward.overlong_buffer_len 10 --rollout.over_sampling_batch_size 32) # of the 40, for the 16
# Engine and policy round differently, so a token's probability differs; OpenRLHF leaves out tokens where it does by much.
[ "$PRESET" = grpo_s ] || flags+=(--algo.advantage.is_correction_level token)
[ -z "${REWARD_URL:-}" ] || flags+=(--reward.remote_url "$REWARD_URL")
echo "launch/train_cluster.sh: $PRESET for $model on $nodes x $gpus ${DEVICE}s; metrics, checkpoints and the policy go to $out"
exec "$python" -m openrlhf_gtpo.train "${flags[@]}" "$@"
