"""Trains a policy that is rarely right with DAPO and with mixed-policy DAPO, several seeds each, and compares them.

    python launch/compare/guided.py [--long] [--seeds 3] [--steps N] [--out runs/guided]
    python launch/compare/guided.py --analyse FOLDER

A second policy, which is right more often, is the guide. M1 adds two of its responses to each group. M2 makes a second
batch of the groups without a right response, which dynamic sampling drops, with two responses of the guide each. All
runs begin with the same warm-started policy; runs of the same seed see the same prompts in the same order (DAPO draws
more of them); and runs differ only in --guide.when. M2 makes up to three times as many optimiser updates as DAPO, so
one arm without a guide makes three times as many in every step, by learning its responses three times. Each run is
evaluated during training and, on more prompts, at its end. Finished runs are kept, so an interrupted study continues
where it stopped.
"""

from __future__ import annotations

import results
from command import main
from designs import GUIDE, MAX_NEW_TOKENS, Arm, Design
from results import ENTROPY, Column, Layout, Table

LEVELS = (0.10, 0.20, 0.40)
"""Levels of held-out pass@1, fixed before any arm ran."""
GUIDE_SAMPLES = 2
EPOCHS = 3
"""M2's updates in its first steps, where nearly all groups are wrong, over DAPO's: twelve a step instead of four."""

# M2 makes more updates a step, so a learning rate that falls with every update would fall faster there. It is constant
# in all arms.
FLAT = ("--actor.min_lr_ratio", "1.0")
DAPO = ("--preset", "dapo", "--reward.overlong_buffer_len", str(MAX_NEW_TOKENS // 4), *FLAT)


def guided(*when: str) -> tuple[str, ...]:
    """Flags of DAPO with a guide."""
    return (*DAPO, "--guide.model", GUIDE, "--guide.samples", str(GUIDE_SAMPLES), "--guide.when", *when)


def at_level(level: float) -> tuple[Column, Column]:
    return (
        Column(f"{level:.2f}: steps", lambda run: results.level_reached(run, level), "not reached"),
        Column(f"{level:.2f}: prompts", lambda run: results.prompts_to(run, level)),
    )


LAYOUT = Layout(
    baseline="dapo",
    figures=("pass@1", "pass@32", "entropy_response_mean"),
    columns=(
        Column("prompts", results.prompts_consumed),
        Column("seconds a step", results.seconds_a_step),
        Column("rescued share", lambda run: results.average(run, "rescued", "unsolved")),
        Column("guide pass rate", lambda run: results.average(run, "guide_right", "guide_responses")),
    ),
    tables=(
        Table("Until held-out pass@1 reaches", tuple(column for level in LEVELS for column in at_level(level))),
        ENTROPY,
    ),
    picture=("rollout/pass_rate", "_pass1", "_pass8", "entropy/token_mean", "actor_grad_norm", "timing/step_total"),
)

DESIGN = Design(
    name="guided",
    title="DAPO with and without a guide",
    task="trail",
    arms=(
        Arm("dapo", "DAPO", DAPO),
        Arm("dapo_m1", "DAPO + M1", guided("all")),
        Arm("dapo_updates", f"DAPO, {EPOCHS} times the updates", (*DAPO, "--train.max_epochs", str(EPOCHS))),
        Arm("dapo_m2", "DAPO + M2", guided("zero_reward")),
        Arm("dapo_m1_m2", "DAPO + M1 + M2", guided("all", "zero_reward")),
    ),
    batch_size=32,  # divides a step's 16 x 8 responses and, with the guide's, 16 x 10
    prompts_for_filtering=12,
    evaluations=12,
    evaluation_prompts=128,
    evaluation_samples=8,
    layout=LAYOUT,
    steps=80,
    has_guide=True,
)

if __name__ == "__main__":
    main(DESIGN, __doc__)
