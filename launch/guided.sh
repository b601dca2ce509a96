#!/usr/bin/env bash
# Mixed-policy DAPO at laptop scale: DAPO, DAPO with three times the updates, DAPO + M1, + M2 and + M1 + M2, three seeds
# each. They start with one policy that is right in one of twenty responses; the guide is right in three of five. Writes
# tables, curves and a report.
#
#   bash launch/guided.sh                           # two hours or more on 2 cores; writes runs/guided/report.html
#   bash launch/guided.sh --algorithms dapo,dapo_m2 # some of them
#   bash launch/guided.sh --seeds 1 --steps 5 --out runs/try
#   bash launch/guided.sh --analyse runs/guided/records   # the tables again, out of the records of its runs
#
# You can interrupt it and run it again: finished runs are kept. `--help` lists the flags.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash launch/setup.sh
exec .venv/bin/python launch/compare/guided.py "$@"
