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
# SIZE    0.5b or 1.5b (the larger whose training fits the GPU, with Adam's state)
# TASK    gsm8k: answers of up to 1,024 tokens (default); math: up to 2,048, with data/other.jsonl of
#         `data prepare other --from DigitalLearningGmbH/MATH-lighteval --split train`
# PRESET  gtpo (default), grpo_s, grpo, dapo
# STEPS   number of steps, each of 64 prompts with 8 responses in four updates (100)
# GPU_GB  memory in GiB of a GPU that is not in this machine, for --dry-run (80)
#
# docs/training.md has the other variables ("Launch variables") and the curves to look at ("Monitoring"). Flags after
# the script's name are passed on and override the script's.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
fail() {
    echo "launch/train_one_gpu.sh: $*" >&2
    exit 2
}
. "$here/find_python.sh"
if [ -n "${REHEARSE:-}" ] && [ -z "${RAY_ADDRESS:-}" ]; then
    SCRIPT=${BASH_SOURCE[0]} NAME=one_gpu NODES=1 GPUS=1 . "$here/rehearse.sh" # and does not return
fi
case ${TASK:=gsm8k} in
    gsm8k) length=1536 answer=1024 data=data/gsm8k.jsonl ;;
    math) length=3072 answer=2048 data=data/other.jsonl ;;
    *) fail "TASK is $TASK, but needs to be gsm8k or math." ;;
esac
preset=${PRESET:-gtpo} steps=${STEPS:-100}
[[ $steps =~ ^[1-9][0-9]*$ ]] || fail "STEPS is $steps, but needs to be a whole number from 1 up."
[[ ${SIZE:-1.5b} =~ ^[01]\.5b$ ]] || fail "SIZE is $SIZE, but needs to be 0.5b or 1.5b."

flags=(--preset "$preset" $(sed '/^#/d' "$here/flags/run.flags" "$here/flags/gpu.flags") --device gpu --ds.zero_stage 2)
flags+=(--data.prompt_dataset "${DATA:-$data}" --data.input_key input --data.label_key label --train.max_steps "$steps")
flags+=(--data.max_len $length --rollout.max_new_tokens $answer --train.batch_size 128 --ckpt.max_num 1)
flags+=(--rollout.batch_size 64 --rollout.n_samples_per_prompt 8 --actor.num_nodes 1 --actor.num_gpus_per_node 1)
# Engine and policy round differently; OpenRLHF leaves out tokens whose probabilities differ by much.
[ "$preset" = grpo_s ] || flags+=(--algo.advantage.is_correction_level token)
[ "$preset" != dapo ] || flags+=(--reward.overlong_buffer_len $((answer / 4)) --rollout.over_sampling_batch_size 128)
for size in ${SIZE:-1.5b 0.5b}; do
    like=Qwen/Qwen2.5-${size^^}-Instruct
    flags+=(--actor.model_name_or_path "${MODEL:-$like}")
    fitted=$("$python" -m openrlhf_gtpo.checks.room "$like" "${flags[@]}" "$@") || exit 2
    [[ $fitted = *offload* ]] || break # else the smaller one, whose Adam's state is on the GPU
done
flags+=($fitted)
if [ -n "${REHEARSE:-}" ]; then
    flags+=(--device cpu $(sed '/^#/d' "$here/flags/cpu.flags"))
    [ "$preset" != dapo ] || flags+=(--reward.overlong_buffer_len 10 --rollout.over_sampling_batch_size 32)
fi
out=${OUT:-$HOME/checkpoints/$preset-$size-$TASK}
flags+=(--ckpt.output_dir "$out/model" --ckpt.path "$out/state" --logger.metrics_path "$out/metrics.jsonl")
echo "launch/train_one_gpu.sh: $preset for ${MODEL:-$like} on ${DATA:-$data}, one GPU; everything goes to $out" >&2
exec "$python" -m openrlhf_gtpo.train "${flags[@]}" "$@"
