"""GTPO beside GRPO, beside itself without entropy, and with credit up to the answer, on a real language model.

    python launch/smollm2/start.py --out runs/real/start --prompts 320
    python launch/compare/real.py --start runs/real/start --seeds 6 --jobs 1 [--out runs/real]
    python launch/compare/real.py --analyse FOLDER

Twelve minutes a run on two cores. docs/studies/real_model.md has the plan. Runs of the same seed see the same problems
in the same order, draw their tokens with the same noise, and differ in the estimator alone. Finished runs are kept.
"""

from __future__ import annotations

import results
from command import main
from designs import Arm, Design

GTPO = ("--algo.advantage.estimator", "gtpo", "--shaping.alpha1", "1")

DESIGN = Design(
    name="real",
    title="A real language model",
    task="word problems",
    arms=(
        Arm("grpo", "GRPO", ("--algo.advantage.estimator", "group_norm")),
        Arm("gtpo_0", "GTPO, alpha2 = 0", (*GTPO, "--shaping.alpha2", "0")),
        Arm("gtpo", "GTPO", GTPO),
        Arm("gtpo_until", "GTPO up to the answer", (*GTPO, "--shaping.until", "answer")),
    ),
    batch_size=64,
    prompts_for_filtering=1,
    evaluations=1,
    evaluation_prompts=8,
    evaluation_samples=4,
    layout=results.REAL,
    steps=40,
    prompts=8,
    samples=8,
    max_new_tokens=48,
    max_length=288,
    learning_rate=2e-5,
    final_prompts=100,
    final_samples=16,
    more=(
        *("--algo.kl.init_coef", "0", "--actor.eps_clip_low_high", "0.2", "0.28"),
        "--vllm.enable_prefix_caching",
    ),
    strict=True,
)

if __name__ == "__main__":
    main(DESIGN, __doc__)
