#!/usr/bin/env bash
# Is entropy the right weight? GTPO at four doses beside the same doses of shuffled entropies, eight seeds each, and
# other ways to use entropy around it, on a CPU. The plan: docs/studies/entropy_plan.md.
#
#   bash launch/study.sh                                    # the primary arms first; writes runs/entropy
#   bash launch/study.sh --arms gtpo_3,gtpo_shuffled_3 --seeds 4
#   bash launch/study.sh --analyse docs/studies/entropy     # the tables and the picture, out of finished runs' records
#
# You can interrupt it and run it again, on another day too: finished runs are kept. `--help` lists the flags.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash launch/setup.sh
exec .venv/bin/python launch/compare/entropy_study.py "$@"
