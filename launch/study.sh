#!/usr/bin/env bash
# Is entropy the right weight? GTPO at four doses beside the same doses of shuffled entropies, eight seeds each, and
# other ways to use entropy around it, on a CPU. The plan: docs/studies/entropy_plan.md.
#
#   bash launch/study.sh                                    # the primary arms first; writes runs/entropy
#   bash launch/study.sh --arms gtpo_3,gtpo_shuffled_3 --seeds 4
#   bash launch/study.sh --analyse docs/studies/entropy     # the tables and the picture, out of finished runs' records
#
# STUDY=gpu: the same arms and seeds with Qwen2.5-1.5B-Instruct or 7B on GPUs; `STUDY=gpu bash launch/study.sh --help` lists
# its variables, `--dry-run` checks every command and `--hours` tells what it costs (docs/studies/entropy_gpu.md).
#
# You can interrupt it and run it again, on another day too: finished runs are kept. `--help` lists the flags.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case ${STUDY:-cpu} in
    gpu)
        . launch/find_python.sh
        exec "$python" launch/compare/gpu_study.py "$@"
        ;;
    cpu) ;;
    *)
        echo "launch/study.sh: STUDY is $STUDY, but needs to be cpu or gpu." >&2
        exit 2
        ;;
esac
bash launch/setup.sh
exec .venv/bin/python launch/compare/entropy_study.py "$@"
