#!/usr/bin/env bash
# Repeats a finished study with the code and the locked packages that it had: makes a worktree of that commit in
# runs/study-0f4aeb7, kept for the next time, and runs its launch/study.sh there, with the same flags.
#
#   bash launch/study.sh                                            # real and shuffled entropy: 92 runs, 3.5 hours
#   STUDY=dose bash launch/study.sh --policies 0 --seeds 1 --steps 2
#   STUDY=dose bash launch/study.sh --help
#
# STUDY: cpu (as printed first), dose, traps, pivotal, pivotal_1, guide, noise or gpu, which nobody has run. What the
# runs leave is in the worktree's own runs/; the worktree takes 4 GB, since it has a .venv of its own.
# `python docs/studies/recompute.py` computes the published figures again, without a run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
commit=0f4aeb7e2663f32555b9f668bc7439ab0401118e
folder=runs/study-${commit:0:7}

fail() {
    echo "launch/study.sh: $*" >&2
    exit 2
}

export STUDY=${STUDY:-cpu}
case $STUDY in
    cpu | gpu | dose | traps | pivotal | pivotal_1 | guide | noise) ;;
    *) fail "STUDY is $STUDY, but needs to be cpu, gpu, dose, traps, pivotal, pivotal_1, guide or noise." ;;
esac
git cat-file -e "$commit^{commit}" 2>/dev/null ||
    fail "this clone does not have the studies' commit, $commit: run \`git fetch --unshallow\` first."
[ -e "$folder/launch/study.sh" ] || git worktree add --quiet --force --detach "$folder" "$commit"
[ "$STUDY" != gpu ] || [ -x "$folder/.venv/bin/python" ] ||
    fail "STUDY=gpu needs the packages of that commit: run \`bash $folder/launch/setup_gpu.sh\` first."
exec bash "$folder/launch/study.sh" "$@"
