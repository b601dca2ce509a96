"""Does certainty become a trap? DAPO and GRPO on the task `traps`, before any arm with entropy is run on it.

    python launch/compare/traps_pilot.py [--arms dapo] [--seeds 3] [--steps N] [--out runs/traps_pilot]
    python launch/compare/traps_pilot.py --analyse FOLDER

docs/studies/traps_pilot.md has what was tried and what came out.
"""

from __future__ import annotations

from pathlib import Path

import record
from command import main
from designs import Arm, Design
from openrlhf_gtpo.tables import markdown

MAX_NEW_TOKENS = 96
# Longer than any demonstration, so that nothing but the grader judges the length.
OVERLONG = ("--reward.overlong_buffer_len", str(MAX_NEW_TOKENS // 4))
# Dynamic filtering takes other numbers of prompts: a rate that falls with them would be another one in every arm.
FLAT = ("--actor.min_lr_ratio", "1.0")


FIGURES = ("pass@1", "pass@32", "entropy")


def analyse(records: Path, out: Path) -> str:
    """Write table.md out of the records of a folder; returns the table.

    Raises:
        ValueError: the records cannot be compared.
    """
    runs = record.load(records)
    record.check(runs)
    steps = ", ".join(f"{row['step']:g}" for row in runs[0].evaluations)
    rows = []
    for run in sorted(runs, key=lambda run: (run.arm, run.seed)):
        figures = [", ".join(f"{row[key]:.3f}" for row in run.evaluations) for key in FIGURES]
        length, prompts = run.series("length"), run.series("prompts")[-1]
        spans = [f"{length[0]:.1f}, {length[-1]:.1f}", f"{prompts:g}", f"{run.seconds:.0f}"]
        rows.append([run.arm, str(run.seed), *figures, *spans])
    heads = [f"{FIGURES[0]} after {steps} steps", *FIGURES[1:], "length, first and last step", "prompts", "seconds"]
    table = markdown(["arm", "seed", *heads], rows)
    (out / "table.md").write_text(f"{table}\n", encoding="utf-8")
    return table


DESIGN = Design(
    name="traps_pilot",
    title="Traps, the pilot",
    description=__doc__,
    task="traps",
    arms=(
        Arm("dapo", "DAPO", ("--preset", "dapo", *OVERLONG, *FLAT)),
        Arm("grpo", "GRPO", ("--preset", "grpo", *FLAT)),
    ),
    batch_size=128,
    prompts_for_filtering=10,
    evaluations=2,
    evaluation_prompts=64,
    evaluation_samples=32,
    layout=None,
    steps=32,
    prompts=16,
    samples=16,
    max_new_tokens=MAX_NEW_TOKENS,
    max_length=112,
    learning_rate=1.5e-4,
    final_samples=None,
    analyse=analyse,
)

if __name__ == "__main__":
    main(DESIGN)
