# The rest of a script's REHEARSE=1: makes a small policy, starts a Ray cluster of logical GPUs, and runs the script there.
# train_cluster.sh and train_one_gpu.sh source it, with python, SCRIPT (themselves), NAME (of the folder) and NODES and GPUS set.
root=$(cd "$(dirname "$SCRIPT")/.." && pwd)
if [ "${SIZE:-}" = 32b ]; then # only where every actor would be placed
    exec "$python" -m openrlhf_gtpo.cpu.rehearsal --nodes "$NODES" --gpus "$GPUS" --engine-gpus 4 --placement-only
fi
export PYTHON=$python OUT=${OUT:-$root/runs/rehearsal/$NAME}
if [ -z "${MODEL:-}" ]; then
    "$python" "$root/launch/laptop/warm_start.py" --out "$root/runs/rehearsal" --seed 0
    export MODEL=$root/runs/rehearsal/model DATA=$root/runs/rehearsal/train.jsonl
fi
exec "$python" -m openrlhf_gtpo.cpu.rehearsal --nodes "$NODES" --gpus "$GPUS" -- bash "$SCRIPT" "$@"
