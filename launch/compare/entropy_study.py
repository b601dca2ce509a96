"""Is entropy the right weight? GTPO at several doses beside the same doses of shuffled entropies, paired by seed, and
other ways to use entropy around it.

    python launch/compare/entropy_study.py [--arms grpo,gtpo_1,...] [--seeds N] [--steps N] [--out runs/entropy]
    python launch/compare/entropy_study.py --analyse FOLDER

docs/studies/entropy_plan.md has the plan, which was fixed before any arm but GRPO ran. Every finished run is one small
file in OUT/records, so the study may be stopped and continued; --analyse reads such files alone.
"""

from __future__ import annotations

from pathlib import Path

import dose
from command import main
from designs import Arm, Design

STEPS = 32
MAX_NEW_TOKENS = 120

PRIMARY = {"seeds": 8, "rank": 0}
AROUND = {"seeds": 4, "rank": 1}


# The length of a response is chance here, by its wordings: a punishment of long ones would hide what entropy does.
WITHOUT_PUNISHMENT = ("--no-shaping.grop",)


def gtpo(dose: str, *more: str) -> tuple[str, ...]:
    return ("--preset", "gtpo", *WITHOUT_PUNISHMENT, "--shaping.alpha2", dose, *more)


def grpo_s(dose: str, *more: str) -> tuple[str, ...]:
    return ("--preset", "grpo_s", *WITHOUT_PUNISHMENT, "--shaping.alpha2", dose, *more)


SHUFFLED = ("--shaping.weights", "shuffled")


def arms(max_new_tokens: int) -> tuple[Arm, ...]:
    """All arms, here and on GPUs (`gpu_study.py`).

    Args:
        max_new_tokens: most tokens of a response.
    """
    # A quarter of the limit, as in DAPO's paper.
    overlong = ("--reward.overlong_buffer_len", str(max_new_tokens // 4))
    return (
        Arm("gtpo_0", "GTPO, alpha2 = 0", gtpo("0"), **PRIMARY),
        Arm("gtpo_0.1", "GTPO, alpha2 = 0.1", gtpo("0.1"), **PRIMARY),
        Arm("gtpo_1", "GTPO, alpha2 = 1", gtpo("1"), **PRIMARY),
        Arm("gtpo_3", "GTPO, alpha2 = 3", gtpo("3"), **PRIMARY),
        Arm("gtpo_shuffled_1", "GTPO shuffled, alpha2 = 1", gtpo("1", *SHUFFLED), **PRIMARY),
        Arm("gtpo_shuffled_3", "GTPO shuffled, alpha2 = 3", gtpo("3", *SHUFFLED), **PRIMARY),
        Arm("grpo", "GRPO", ("--preset", "grpo"), **AROUND),
        Arm("dapo", "DAPO", ("--preset", "dapo", *overlong), **AROUND),
        Arm("dapo_forking", "DAPO w/ forking tokens", ("--preset", "dapo_forking", *overlong), **AROUND),
        Arm("grpo_s_0.1", "GRPO-S, beta2 = 0.1", grpo_s("0.1"), **AROUND),
        Arm("grpo_s_1", "GRPO-S, beta2 = 1", grpo_s("1"), **AROUND),
        Arm("grpo_s_shuffled_1", "GRPO-S shuffled, beta2 = 1", grpo_s("1", *SHUFFLED), **AROUND),
        Arm("clip_cov", "Clip-Cov", ("--preset", "clip_cov"), **AROUND),
        Arm("kl_cov", "KL-Cov", ("--preset", "kl_cov"), **AROUND),
        Arm("entropy_advantage", "Entropy advantage", ("--preset", "entropy_advantage"), **AROUND),
        Arm("edge", "EDGE-GRPO", ("--preset", "edge"), **AROUND),
        Arm("adaptive_entropy", "Adaptive entropy bonus", ("--preset", "adaptive_entropy"), **AROUND),
    )


DESIGN = Design(
    name="entropy",
    title="Entropy, real and shuffled",
    description=__doc__,
    task="wordings",
    arms=arms(MAX_NEW_TOKENS),
    batch_size=128,
    prompts_for_filtering=6,
    evaluations=2,
    evaluation_prompts=64,
    evaluation_samples=16,
    layout=None,
    steps=STEPS,
    prompts=16,
    samples=16,
    max_new_tokens=MAX_NEW_TOKENS,
    max_length=144,
    learning_rate=1.5e-4,
    final_samples=None,
    analyse=lambda records, out: analyse(records, out),
)


def analyse(records: Path, out: Path) -> str:
    """Write table.md and dose.png out of the records of a folder; returns the tables."""
    return dose.write(records, out, {arm.key: arm.title for arm in DESIGN.arms})


if __name__ == "__main__":
    main(DESIGN)
