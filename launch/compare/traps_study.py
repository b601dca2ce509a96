"""Does entropy keep a policy from collapsing? DAPO, GTPO and GRPO-S on a task where certainty is a trap: the second
study's part B.

    STUDY=traps bash launch/study.sh [--arms dapo,gtpo_0.1,...] [--policies 0,1,...] [--out runs/traps]
    STUDY=traps bash launch/study.sh --analyse FOLDER

Every run gets the same prompts and ends when they are used up, so all arms generate as many responses; dynamic
filtering, which all of them have, decides how many of these are learned from. docs/studies/entropy2_plan.md has the
plan, which came before the first run of an arm with entropy, and docs/studies/traps_pilot.md how the task was chosen.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from pathlib import Path

import record
import traps_pilot
from command import main
from contrasts import Family, write
from designs import Arm
from record import Record
from traps_pilot import FLAT

STEPS = 80
"""Most steps of a run: 16 prompts each, where filtering drops none."""
SAMPLES, HARD = 32, 0.1
"""Responses to a held-out prompt at the end; below this share of right ones at the start a prompt is hard."""
WINDOW = 5  # steps that a figure at the end is a mean over

PRIMARY = (f"mean@{SAMPLES}", f"pass@{SAMPLES}, hard prompts")
SECONDARY = (f"pass@{SAMPLES}", f"mean@{SAMPLES}, hard prompts", "entropy of operations at the end")
TOLD = ("entropy at the end", "rebound", "response length", "steps")
SHOWN = (*PRIMARY, *SECONDARY, *TOLD)

# What DAPO has and GTPO does not; both have clip-higher. The punishment of long responses begins beyond every
# demonstration, and GTPO and GRPO-S are without theirs.
FILTER = ("--algo.dynamic_filtering_enable", "--algo.dynamic_filtering_range", "0", "1")


def shaped(preset: str, dose: str, *more: str) -> tuple[str, ...]:
    return ("--preset", preset, "--no-shaping.grop", "--shaping.alpha2", dose, *FILTER, *FLAT, *more)


ARMS = (
    Arm("dapo", "DAPO", traps_pilot.DESIGN.arm("dapo").flags, seeds=1),
    Arm("gtpo_0", "GTPO, alpha2 = 0", shaped("gtpo", "0"), seeds=1),
    Arm("gtpo_0.1", "GTPO, alpha2 = 0.1", shaped("gtpo", "0.1"), seeds=1),
    Arm("grpo_s_0.1", "GRPO-S, beta2 = 0.1", shaped("grpo_s", "0.1"), seeds=1),
    Arm("inverse_0.1", "GTPO inverse, alpha2 = 0.1", shaped("gtpo", "0.1", "--shaping.weights", "inverse"), seeds=1),
)
ENTROPY = Family(
    "What entropy does (primary)", (("gtpo_0.1", "gtpo_0"), ("gtpo_0.1", "inverse_0.1"), ("inverse_0.1", "gtpo_0"))
)
PAPER = Family("What the paper says (primary)", (("gtpo_0.1", "dapo"), ("grpo_s_0.1", "dapo")))
PARTS = Family("What GTPO is without entropy", (("gtpo_0", "dapo"),))
FAMILIES = (
    *((family, PRIMARY) for family in (ENTROPY, PAPER, PARTS)),
    (Family("Secondary", (*ENTROPY.pairs, *PAPER.pairs, *PARTS.pairs)), SECONDARY),
)


def solved(run: Record, when: str) -> tuple[Sequence[int], Sequence[int]]:
    """Right responses to each held-out prompt at the `start` or the end, `final`, and to each hard one."""
    before, seen = (run.solved[name][: len(run.solved["final"])] for name in ("start", when))
    return seen, [right for right, first in zip(seen, before, strict=True) if first < HARD * SAMPLES]


def primary(run: Record, when: str) -> tuple[float, float]:
    """The values of `PRIMARY`."""
    after, hard = solved(run, when)
    return statistics.fmean(after) / SAMPLES, statistics.fmean(right > 0 for right in hard)


def outcomes(run: Record) -> dict[str, float]:
    after, hard = solved(run, "final")
    entropy = run.series("entropy")
    width = min(WINDOW, len(entropy))
    means = [statistics.fmean(entropy[i : i + width]) for i in range(len(entropy) - width + 1)]
    operations = [value for value in run.operations if value is not None]
    values = (
        *primary(run, "final"),
        statistics.fmean(right > 0 for right in after),
        statistics.fmean(hard) / SAMPLES,
        statistics.fmean(operations[-WINDOW:]),
        means[-1],
        means[-1] - min(means),
        run.final["response_length"],
        float(len(entropy)),
    )
    return dict(zip(SHOWN, values, strict=True))


def analyse(folder: Path, out: Path) -> str:
    """Write table.md and traps.png out of the records of a folder; returns the tables.

    Raises:
        ValueError: the records cannot be compared.
    """
    records = record.load(folder)
    record.check(records)
    picture(records, out / "traps.png")
    return write(out, records, outcomes, {arm.key: arm.title for arm in ARMS}, SHOWN, FAMILIES)


def picture(records: Sequence[Record], out: Path) -> None:
    """Draw each run's primary outcomes by arm, a line for each initial policy, beside those that it began with."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    arms = [arm for arm in ARMS if any(run.arm == arm.key for run in records)]
    figure, panels = plt.subplots(1, len(PRIMARY), figsize=(9.2, 3.4), layout="constrained")
    for number, (axes, name) in enumerate(zip(panels, PRIMARY, strict=True)):
        for policy in sorted({run.policy for run in records}):
            mine = {run.arm: run for run in records if run.policy == policy}
            points = [(0, primary(next(iter(mine.values())), "start")[number])]
            points += [
                (place, primary(mine[arm.key], "final")[number])
                for place, arm in enumerate(arms, 1)
                if arm.key in mine
            ]
            axes.plot(*zip(*points, strict=True), marker="o", markersize=4, linewidth=0.8, label=f"policy {policy}")
        axes.set_xticks(range(len(arms) + 1), ["start", *(arm.title.replace(", ", "\n") for arm in arms)], fontsize=7)
        axes.set_ylabel(name)
        axes.set_ylim(0, 1)
        axes.grid(alpha=0.15)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].legend(frameon=False, fontsize=7)
    figure.savefig(out, dpi=120, metadata={"Software": None})
    plt.close(figure)


DESIGN = dataclasses.replace(
    traps_pilot.DESIGN,
    name="traps",
    title="Entropy where certainty is a trap",
    description=__doc__,
    arms=ARMS,
    prompts_for_filtering=1,
    evaluations=1,
    steps=STEPS,
    final_samples=SAMPLES,
    final_prompts=128,
    saved_groups=16,
    operations=("*", "+"),
    analyse=analyse,
    policies=(0, 1, 2, 3, 4, 5),
)

if __name__ == "__main__":
    main(DESIGN)
