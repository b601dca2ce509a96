#!/usr/bin/env bash
# Reinforcement learning from start to finish on a CPU: OpenRLHF, vLLM, DeepSpeed and Ray, with exact entropies and
# rewards of the project's own service, on a task small enough that it learns in minutes.
#
#   bash launch/quickstart.sh
#   ALGO=grpo_s STEPS=30 RUN=runs/grpo_s bash launch/quickstart.sh
#   MODEL=smollm2 bash launch/quickstart.sh
#
# MODEL  none (default): a policy of 0.4 M parameters, made here. smollm2: a real language model of 135 M parameters on
#        word problems, 18 to 32 minutes. Or the folder, or a hub's id, of another instruct model
# ALGO   gtpo (default), grpo_s, group_norm, which is plain GRPO, or FILE.py:NAME, a shaping function or an estimator of
#        your own: docs/extending.md
# STEPS  training steps of 16 prompts with 8 responses each (60); with a MODEL of 8 prompts (40)
# RUN    folder for everything that the run makes, relative to the repository's root (runs/quickstart, or runs/MODEL)
# TASK   last_digit (default), or a .py file with a task of your own: docs/extending.md
# SEED   of the policy's first weights, the sampling and the order of the prompts (0)
#
# An honest word: without MODEL the policy is trained first on demonstrations that get things wrong on purpose, and
# reinforcement learning then removes these habits. It shows that the whole loop works and learns, and nothing about
# real models.
#
# May be interrupted and run again: the installation is kept, and the warm start under runs/cache, for every ALGO and RUN
# with the same SEED (for a fresh one: rm -r runs/cache); the rest is done again. The results of
# a finished run are moved to RUN/previous-1, -2 and so on.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
algorithm=${ALGO:-gtpo}
model=${MODEL:-}
steps=${STEPS:-60}
run=${RUN:-runs/quickstart}
seed=${SEED:-0}
task=${TASK:-last_digit}
prompts_per_step=16 learning_rate=1.5e-4 held_out=200 samples=16 first=warm_start
more=()
if [ -n "$model" ]; then
    steps=${STEPS:-40} run=${RUN:-runs/${model##*/}}
    prompts_per_step=8 learning_rate=2e-5 held_out=100 samples=8 first=model
    more=(--reward.mode strict --vllm.enable_prefix_caching)
fi

unset PYTHONDONTWRITEBYTECODE # what the first of its processes compiles the others read
python=.venv/bin/python
results=(before after phases.json summary.json curves.png report.html run.json metrics.jsonl rollouts.jsonl
    train.log evaluate.log reward_service.log model)
phase_pid=
phase_seconds=

fail() {
    echo "launch/quickstart.sh: $*" >&2
    exit 1
}

phase() { # phase NAME COMMAND...: runs it in a process group of its own, which an interrupt can end as a whole
    local name=$1 begin=$SECONDS
    shift
    set -m
    "$@" </dev/null 8>&- &  # without the lock: it is to end with this script
    phase_pid=$!
    set +m
    wait "$phase_pid" || failed "$name" $?
    phase_pid=
    phase_seconds+="${phase_seconds:+, }\"$name\": $((SECONDS - begin))"
    echo "{$phase_seconds}" >"$run/phases.json"
}

failed() { # failed NAME STATUS
    local log
    end_phase
    case $1 in
        training) log=$run/train.log ;;
        before | after) log=$run/evaluate.log ;;
        *) exit "$2" ;; # its message is on the terminal
    esac
    echo "  The last lines of $log (progress bars left out):" >&2
    tr '\r' '\n' <"$log" | grep -v '%|' | tail -n 20 | cut -c1-300 | sed 's/^/    /' >&2
    fail "the phase '$1' ended with status $2; its whole log is $log."
}

end_phase() { # everything that it started: asked first, killed after 20 s
    kill -s TERM -- "-$phase_pid" 2>/dev/null || return 0
    for _ in $(seq 40); do
        sleep 0.5
        kill -s 0 -- "-$phase_pid" 2>/dev/null || return 0
    done
    kill -s KILL -- "-$phase_pid" 2>/dev/null || true
}

stop() { # stop SIGNAL STATUS
    trap '' INT TERM HUP
    printf '\nlaunch/quickstart.sh: stopped by SIG%s; the next run keeps what is installed, and a warm start that was finished.\n' "$1" >&2
    [ -z "$phase_pid" ] || end_phase
    exit "$2"
}

limit() { # limit NAME: of the task, in tokens
    "$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$run/warm_start/task.json" "$1"
}

evaluate() { # evaluate MODEL OUT: held-out prompts, some responses each, with the evaluation that users have
    echo "  starting vLLM, then sampling and grading (log: $run/evaluate.log)"
    "$python" -m openrlhf_gtpo eval --device cpu --model "$1" --out "$2" --seed "$seed" --n "$samples" --k 1,8 \
        --data "$run/warm_start/heldout.jsonl" --max_prompts "$held_out" --max_new_tokens "$(limit max_new_tokens)" \
        ${model:+--reward.mode strict} 2>>"$run/evaluate.log" |
        sed -n 's/^pass@/  &/p'
}

train() {
    local flags=(
        --device cpu
        --actor.model_name_or_path "$run/warm_start/model"
        --data.prompt_dataset "$run/warm_start/train.jsonl"
        --data.input_key input
        --data.label_key label
        --data.apply_chat_template
        --data.max_samples $((steps * prompts_per_step))
        --data.max_len "$(limit max_length)"
        --algo.advantage.estimator "$algorithm"
        --algo.kl.init_coef 0
        --rollout.batch_size $prompts_per_step
        --rollout.n_samples_per_prompt 8
        --rollout.micro_batch_size 16
        --rollout.max_new_tokens "$(limit max_new_tokens)"
        --train.batch_size 64
        --train.micro_batch_size 16
        --train.seed "$seed"
        --actor.adam.lr "$learning_rate"
        --actor.num_gpus_per_node 1
        --vllm.num_engines 1
        --ckpt.output_dir "$run/model"
        --logger.metrics_path "$run/metrics.jsonl"
        --shaping.save_rollouts 4
        "${more[@]}"
    )
    echo "  starting Ray, DeepSpeed and vLLM: half a minute or more without a line"
    "$python" -m openrlhf_gtpo.train "${flags[@]}" 2>&1 | with_time_left
}

with_time_left() { # the lines of training, those of steps with the minutes that the rest will take
    local line done=0 begin=0 left
    while IFS= read -r line; do
        line="  ${line#openrlhf-gtpo train: }"
        if [[ $line == "  step "* ]]; then
            done=$((done + 1))
            [ "$done" -gt 1 ] || begin=$SECONDS
            left=$((done > 1 ? (steps - done) * (SECONDS - begin) / (done - 1) / 60 : 0))
            [ "$left" -eq 0 ] || line+=", $left min left"
        fi
        echo "$line"
    done
}

[ $# -eq 0 ] || fail "takes no arguments, but got '$*': STEPS=30 bash launch/quickstart.sh and so on; its head has the list."
case $algorithm in
    gtpo | grpo_s | group_norm) ;;
    *.py:*) [ -f "${algorithm%:*}" ] || fail "ALGO is $algorithm, and there is no such file." ;;
    *) fail "ALGO is '$algorithm', but has to be gtpo, grpo_s, group_norm or FILE.py:NAME: docs/extending.md." ;;
esac
[ -z "$model" ] || [ -z "${TASK:-}" ] ||
    fail "TASK is $TASK, but with MODEL the task is word problems: leave it out."
case $task in
    last_digit) ;;
    *.py) [ -f "$task" ] || fail "TASK is $task, and there is no such file." ;;
    *) fail "TASK is $task, but has to be last_digit or a .py file: docs/extending.md." ;;
esac
[[ $steps =~ ^[1-9][0-9]{0,3}$ ]] && [ "$steps" -le 1000 ] ||
    fail "STEPS is '$steps', but has to be a number from 1 to 1000."
[[ $seed =~ ^[0-9]{1,9}$ ]] || fail "SEED is '$seed', but has to be a whole number from 0 to 999999999."
if [ -d "$run" ] && [ ! -e "$run/quickstart.lock" ] && [ -n "$(ls -A "$run")" ]; then
    fail "RUN is $run, which holds other files than a quickstart's: name another folder."
fi

mkdir -p "$run"
if command -v flock >/dev/null; then
    exec 8>"$run/quickstart.lock"
    flock -n 8 || fail "another quickstart is at work in $run: wait for it, or name another folder with RUN."
else
    : >"$run/quickstart.lock"
fi
trap 'stop INT 130' INT
trap 'stop TERM 143' TERM
trap 'stop HUP 129' HUP

if [ -e "$run/summary.json" ]; then
    n=1
    while [ -e "$run/previous-$n" ]; do n=$((n + 1)); done
    echo "The results of the finished run in $run go to $run/previous-$n."
    mkdir "$run/previous-$n"
    for result in "${results[@]}"; do
        [ ! -e "$run/$result" ] || mv "$run/$result" "$run/previous-$n/"
    done
else
    for result in "${results[@]}"; do rm -rf "${run:?}/$result"; done
fi

set_up="1 min   the first time only; 1.1 GB to download, 4 GB of disk"
[ ! -x "$python" ] || set_up="5 s     .venv is there: only what has changed is installed"
if [ -n "$model" ]; then
    begins="model       1 min   a language model of 135 M parameters, once; then taken from runs/cache"
    training=$(((steps * 20 + 59) / 60 + 1)) evaluating="90 s "
else
    begins="warm_start  2 min   a policy of 0.4 M parameters copies careless work: reinforcement learning is to remove habits that
                      are planted here. Once for each task, as its file is, and seed; then taken from runs/cache"
    training=$(((45 + steps * 3 / 2 + 59) / 60)) evaluating="30 s "
fi
cat <<EOF
Quickstart: $algorithm, ${model:+$model, }$steps steps, seed $seed, in $run. On two cores and no GPU it takes about
  setup       $set_up
  $begins
  before      $evaluating   pass@1 on prompts that are never trained on
  training    $training min   $algorithm through OpenRLHF, vLLM, DeepSpeed and Ray, with this project's reward service
  after       $evaluating   pass@1 again
  report      10 s    table, curves, the entropies and advantages of some responses, and an HTML report
On a busy machine it takes several times as long.

EOF
echo "== setup"
phase setup bash launch/setup.sh
echo "== $first"
if [ -n "$model" ]; then
    phase model "$python" launch/smollm2/start.py --out "$run/warm_start" --model "$model" \
        --prompts $((steps * prompts_per_step))
else
    echo "  reading and checking the task"
    phase warm_start "$python" launch/laptop/warm_start.py --out "$run/warm_start" --seed "$seed" --task "$task" \
        --prompts $((steps * prompts_per_step))
fi
echo "== before"
phase before evaluate "$run/warm_start/model" "$run/before"
echo "== training"
phase training train
echo "== after"
phase after evaluate "$run/model" "$run/after"
echo "== report"
"$python" launch/quickstart/report.py --run "$run" --algorithm "$algorithm"
"$python" -m openrlhf_gtpo report "$run" --out "$run/report.html" >/dev/null
echo "  report: $run/report.html (open it in a browser)"
[ -n "$model" ] || echo "  next: a real language model, 18 to 32 minutes: MODEL=smollm2 bash launch/quickstart.sh"
