#!/usr/bin/env bash
# GRPO-S with the paper's settings on a Ray cluster with GPUs; see train_cluster.sh for what can be set.
set -euo pipefail
PRESET=grpo_s exec bash "$(dirname "${BASH_SOURCE[0]}")/train_cluster.sh" "$@"
