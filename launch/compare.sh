#!/usr/bin/env bash
# The paper's study at laptop scale: GRPO, DAPO, DAPO with forking tokens, GTPO and GRPO-S, three seeds each, from one
# warm-started policy, on a CPU. Writes tables, curves and a report.
#
#   bash launch/compare.sh                          # within an hour on 2 cores; writes runs/compare/report.html
#   bash launch/compare.sh --long                   # more seeds and steps, some hours
#   bash launch/compare.sh --seeds 1 --steps 5 --out runs/try
#   bash launch/compare.sh --analyse runs/compare/records   # the tables again, out of the records of its runs
#
# You can interrupt it and run it again: finished runs are kept. `--help` lists the flags.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash launch/setup.sh
exec .venv/bin/python launch/compare/study.py "$@"
