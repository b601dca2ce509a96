#!/usr/bin/env bash
# Trains with one of the paper's algorithms and settings on a Ray cluster with GPUs; train_gtpo.sh, train_grpo_s.sh and
# train_dapo.sh call it. Run it on the head node, or from anywhere:
#
#   ray job submit --working-dir . -- bash launch/train_gtpo.sh
#   SIZE=32b DATA=/data/dapo17k/train.jsonl bash launch/train_grpo_s.sh --logger.wandb.enable
#   bash launch/train_dapo.sh --dry-run        # checks the flags and prints the plan; starts nothing, needs no GPU
#
# docs/training.md, "Launch variables", has what can be set; PRESET is gtpo, grpo_s, dapo, dapo_forking or grpo. Flags
# after the script's name are passed on and override the script's. Prompts, updates, lengths, steps and learning rate
# are the preset's, which is the paper's run; what stands here and in launch/flags fits it to the machines, and
# checks/room.py decides what their memory has room for.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
fail() {
    echo "launch/train_cluster.sh: $*" >&2
    exit 2
}
. "$here/find_python.sh"
if [ -n "${REHEARSE:-}" ] && [ -z "${RAY_ADDRESS:-}" ]; then
    [ "${SIZE:-7b}" = 7b ] || export NODES=${NODES:-8} GPUS=${GPUS:-8}
    export NODES=${NODES:-2} GPUS=${GPUS:-1} DEVICE=cpu
    SCRIPT=${BASH_SOURCE[0]} NAME=${PRESET:-} . "$here/rehearse.sh" # and does not return
fi
preset=${PRESET:?set it to gtpo, grpo_s, dapo, dapo_forking or grpo} device=${DEVICE:-gpu} gpus=${GPUS:-8}
case ${SIZE:=7b} in
    7b) nodes=${NODES:-1} engine=1 like=Qwen/Qwen2.5-7B ;; # which fits on one GPU: eight engines need not synchronise
    32b) nodes=${NODES:-8} engine=4 like=Qwen/Qwen2.5-32B ;;
    *) fail "SIZE is $SIZE, but needs to be 7b or 32b." ;;
esac
[ "$device" = gpu ] || engine=1
((nodes == 1)) || [ -n "${REWARD_URL:-}" ] ||
    fail "$nodes nodes share a reward service: start \`math-reward serve\` where all of them reach it and set" \
        "REWARD_URL=http://HOST:PORT."

model=${MODEL:-$like} out=${OUT:-$HOME/checkpoints/$preset-$SIZE}
flags=(--preset "$preset" $(sed '/^#/d' "$here/flags/run.flags") ${STEPS:+--train.max_steps "$STEPS"} --device "$device")
flags+=(--actor.model_name_or_path "$model" --actor.num_nodes "$nodes" --actor.num_gpus_per_node "$gpus")
flags+=(--data.prompt_dataset "${DATA:-data/train.jsonl}" --ds.zero_stage 3 --vllm.tensor_parallel_size $engine)
flags+=(--data.input_key "${INPUT_KEY:-input}" --data.label_key "${LABEL_KEY:-label}")
flags+=(--ckpt.output_dir "$out/model" --ckpt.path "$out/state" --logger.metrics_path "$out/metrics.jsonl")
flags+=(--ckpt.max_num 2) # the older one goes before the next is written
if [ "$device" = gpu ] || [ -n "${REHEARSE:-}" ]; then
    flags+=(--ds.overlap_comm $(sed '/^#/d' "$here/flags/gpu.flags")) # gradients are sent while the next are computed
    fitted=$("$python" -m openrlhf_gtpo.checks.room "$like" "${flags[@]}" "$@") || exit 2
    flags+=($fitted)
else
    flags+=(--vllm.num_engines $((nodes * gpus)))
fi
[ "$device" = gpu ] || flags+=($(sed '/^#/d' "$here/flags/cpu.flags"))
[[ $device = gpu || $preset != dapo* ]] ||
    flags+=(--reward.overlong_buffer_len 10 --rollout.over_sampling_batch_size 32) # of the 40, for the 16
# Engine and policy round differently; OpenRLHF leaves out tokens whose probabilities differ by much.
[ "$preset" = grpo_s ] || flags+=(--algo.advantage.is_correction_level token)
[ -z "${REWARD_URL:-}" ] || flags+=(--reward.remote_url "$REWARD_URL")
echo "launch/train_cluster.sh: $preset for $model on $nodes x $gpus ${device}s; metrics, checkpoints, policy go to $out"
exec "$python" -m openrlhf_gtpo.train "${flags[@]}" "$@"
