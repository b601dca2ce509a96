"""Trains one policy with each of the paper's five algorithms and several seeds, and compares them.

    python launch/compare/study.py [--long] [--seeds 3] [--steps N] [--out runs/compare]
    python launch/compare/study.py --analyse FOLDER

All runs begin with the same warm-started policy, runs of the same seed see the same prompts in the same order, and
runs differ only in their preset. Each is evaluated during training and, on more prompts, at its end. Finished runs are
kept, so an interrupted study continues where it stopped.
"""

from __future__ import annotations

import results
from command import main
from designs import MAX_NEW_TOKENS, Arm, Design

# A quarter of the limit, as in DAPO's paper.
OVERLONG = ("--reward.overlong_buffer_len", str(MAX_NEW_TOKENS // 4))

DESIGN = Design(
    name="compare",
    title="Five algorithms",
    task="gates",
    arms=(  # in the order of the paper's table
        Arm("grpo", "GRPO", ("--preset", "grpo")),
        Arm("dapo", "DAPO", ("--preset", "dapo", *OVERLONG)),
        Arm("dapo_forking", "DAPO w/ forking tokens", ("--preset", "dapo_forking", *OVERLONG)),
        Arm("gtpo", "GTPO", ("--preset", "gtpo")),
        Arm("grpo_s", "GRPO-S", ("--preset", "grpo_s")),
    ),
    batch_size=64,
    prompts_for_filtering=4,
    evaluations=5,
    evaluation_prompts=64,
    evaluation_samples=16,
    layout=results.COMPARISON,
)

if __name__ == "__main__":
    main(DESIGN, __doc__)
