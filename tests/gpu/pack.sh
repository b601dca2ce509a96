#!/usr/bin/env bash
# Packs what a borrowed GPU machine without a network lacks, into runs/gpu/1 to runs/gpu/4, one folder a call:
#
#   bash launch/setup.sh && bash tests/gpu/pack.sh
#
# Needs a package index, 2 GB of disk and ten minutes; what was downloaded stays in runs/gpu/cache.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec "${PYTHON:-.venv/bin/python}" tests/gpu/pack.py "$@"
