#!/usr/bin/env bash
# Anybody's idea, tested: a shaping function or an estimator of your own (docs/extending.md) beside GRPO, GTPO and its
# own shuffled control, on two tasks with six initial policies. Prints differences with intervals, what could have been
# seen, what it costs, the report's path, one sentence, and a row for docs/tried.md. On two cores 36 minutes,
# 21 for a second idea, and 18 more the first time, for the initial policies.
#
#   bash launch/try.sh docs/examples/ideas.py:low_probability_less     # writes runs/try
#   bash launch/try.sh mine.py:idea --tasks traps --policies 0,1,2     # less of it
#   bash launch/try.sh --analyse runs/try/COMMIT/NAME-SHA256           # the tables again, out of the records
#
# You can interrupt it and run it again with the same commit: finished runs are kept, and those of GRPO and GTPO serve
# every idea. Your file is copied and known by its SHA-256: what you edit is another idea. `--help` lists the flags.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bash "$root/launch/setup.sh"
exec "$root/.venv/bin/python" "$root/launch/compare/try_idea.py" "$@"
