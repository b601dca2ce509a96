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
# STUDY=dose, traps, pivotal: the second study, parts A, B and C, with several policies (docs/studies/entropy2_plan.md).
# STUDY=pivotal_1: part C again, at ten times the dose (docs/studies/pivotal_1_plan.md).
# STUDY=guide: part D of it, what mixed-policy DAPO owes to its guide (docs/studies/guided.md).
# With --recompute FOLDER a second program computes every figure of FOLDER/table.md again (launch/compare/recompute.py).
# STUDY=noise: GRPO beside arms that are GRPO but for a trifle: what a paired difference without an effect is.
#
# You can interrupt it and run it again, on another day too, with the same commit: finished runs are kept. `--help` lists
# the flags, such as `--policies 0,1,2` for several initial policies; `--times FOLDER` tells how long recorded runs took.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
study=entropy_study
case ${STUDY:-cpu} in
    gpu)
        . launch/find_python.sh
        exec "$python" launch/compare/gpu_study.py "$@"
        ;;
    cpu) ;;
    dose) study=one_dose ;;
    traps) study=traps_study ;;
    pivotal) study=pivotal_study ;;
    pivotal_1) study=pivotal_study_1 ;;
    guide) study=guide_study ;;
    noise) study=noise ;;
    *)
        echo "launch/study.sh: STUDY is $STUDY, but needs to be cpu, gpu, dose, traps, pivotal, pivotal_1, guide or noise." >&2
        exit 2
        ;;
esac
bash launch/setup.sh
[[ ${1:-} != --recompute ]] || exec .venv/bin/python launch/compare/recompute.py "${STUDY:-entropy}" "${@:2}"
exec .venv/bin/python "launch/compare/$study.py" "$@"
