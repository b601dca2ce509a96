"""How noisy a comparison with common noise is: GRPO beside arms that are GRPO but for a trifle.

    STUDY=noise bash launch/study.sh [--policies 0,1,2] [--seeds 2] [--steps N] [--out runs/noise]
    STUDY=noise bash launch/study.sh --analyse FOLDER   # the tables, out of any study's records that have GRPO
    STUDY=noise bash launch/study.sh --times FOLDER     # how long runs take

Two runs of the same flags, policy and seed are equal to the last bit. So the two other arms have another epsilon in
Adam: 1.01e-8 in the place of 1e-8 changes the last bits of an update, and 1e-6 makes every update a little shorter.
Neither should matter, so the differences of such runs are noise: what a paired difference of arms without an effect
has, when order of prompts and noise are common. The tables tell its standard deviation beside that of runs with
different seeds, what a study could see, and how long two runs stay alike.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import entropy_study
import record
from command import main
from designs import Arm, Design
from inference import Replicate, area, components, paired
from openrlhf_gtpo.tables import markdown
from record import Record

BASE = "grpo"
GRPO = ("--preset", "grpo")
ARMS = (
    Arm(BASE, "GRPO", GRPO, seeds=2),
    Arm("grpo_rounding", "GRPO, epsilon 1.01e-8", (*GRPO, "--actor.adam.eps", "1.01e-8"), seeds=2),
    Arm("grpo_shorter", "GRPO, epsilon 1e-6", (*GRPO, "--actor.adam.eps", "1e-6"), seeds=2),
)
POLICIES = (0, 1, 2, 3, 4, 5)
PLANS = (2, 4)
"""Seeds for each of `POLICIES` of studies that one may plan."""
FOLLOWED = ("reward", "entropy")
"""Figures of training that a table has by step."""
RESPONSES = ("reward", "length")
"""Figures that are other ones nearly always where a response is another one."""


def outcomes(run: Record) -> dict[str, float]:
    most = max(int(key.removeprefix("pass@")) for key in run.last if key.startswith("pass@"))
    return {
        "area under pass@1": area(record.curve(run, "pass@1")),
        "pass@1 at the end": run.last["pass@1"],
        f"pass@{most} at the end": run.last[f"pass@{most}"],
    }


def alike(one: Record, other: Record, keys: Collection[str]) -> int:
    """The steps before the first one in which any of these figures of training differs."""
    shared = [key for key in keys if key in one.training and key in other.training]
    columns = [zip(*(run.training[key] for key in shared), strict=True) for run in (one, other)]
    pairs = list(zip(*columns, strict=True))
    return next((step for step, (mine, theirs) in enumerate(pairs) if mine != theirs), len(pairs))


def gap(pairs: Sequence[tuple[Record, Record]], key: str, step: int) -> float | None:
    """The root mean square of the difference of a training's figure in a step; None where no pair has it."""
    values = [(one.training[key][step - 1], other.training[key][step - 1]) for one, other in pairs]
    squares = [(mine - theirs) ** 2 for mine, theirs in values if mine is not None and theirs is not None]
    return math.sqrt(statistics.fmean(squares)) if squares else None


Runs = Mapping[Replicate, Record]


def deviations(one: Runs, base: Runs) -> list[list[str]]:
    """Rows of the table of standard deviations, by outcome."""
    shared = sorted(one.keys() & base.keys())
    by_policy = len({policy for policy, _ in shared}) > 1
    rows = []
    for name in outcomes(one[shared[0]]):
        mine, theirs = ({at: outcomes(runs[at])[name] for at in shared} for runs in (one, base))
        found = paired(mine, theirs, by_policy)
        of = components({at: mine[at] - theirs[at] for at in shared})
        alone = [components(values).within for values in (mine, theirs)]
        apart = None if None in alone else math.hypot(*alone)
        visible = [of.visible(len(POLICIES), seeds) for seeds in PLANS]
        cells = [of.within, of.between, apart, None if found is None else found.visible(), *visible]
        rows.append([name, str(len(shared)), *map(_shown, cells)])
    return rows


def course(one: Runs, base: Runs) -> list[list[str]]:
    """Rows of the table of differences by step: 1, 2, 4, ... and the last."""
    same = [(one[at], base[at]) for at in sorted(one.keys() & base.keys())]
    others = [(one[at], base[to]) for at in one for to in base if at[0] == to[0] and at != to]
    steps = same[0][0].steps
    rows = []
    for step in sorted({*(2**power for power in range(steps.bit_length())), steps}):
        gaps = [gap(pairs, key, step) for key in FOLLOWED for pairs in (same, others)]
        rows.append([str(step), *map(_shown, gaps)])
    return rows


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def write(folder: Path, out: Path) -> str:
    """Write noise.md out of the records of a folder; returns its text.

    Raises:
        ValueError: the records cannot be compared, or there are not two arms to compare.
    """
    records = record.load(folder)
    record.check(records)
    arms: dict[str, dict[Replicate, Record]] = {}
    for run in records:
        arms.setdefault(run.arm, {})[run.replicate] = run
    base = arms.pop(BASE, {})
    arms = {key: mine for key, mine in arms.items() if mine.keys() & base.keys()}
    if not arms:
        raise ValueError(f"no arm has a record with the policy and the seed of one of {BASE}: run the study first")
    plans = [f"visible, {len(POLICIES)} policies x {seeds}" for seeds in PLANS]
    head = ["", "pairs", "SD of a paired difference, within a policy", "between policies", "SD with other seeds"]
    text = "SD: standard deviation. Visible: the smallest difference that a paired test at 0.05 finds in 80 %.\n"
    for key, mine in arms.items():
        pairs = [(mine[at], base[at]) for at in mine.keys() & base.keys()]
        every = {name for pair in pairs for run in pair for name in run.training} - {"seconds"}
        equal = [sorted(alike(*pair, keys) for pair in pairs) for keys in (every, RESPONSES)]
        numbers, responses = (f"{statistics.median(some):g} ({some[0]} to {some[-1]})" for some in equal)
        followed = [f"{name}, {seed} seed" for name in FOLLOWED for seed in ("same", "other")]
        text += (
            f"\n## {key} - {BASE}\n\n"
            f"{markdown([*head, 'visible, these pairs', *plans], deviations(mine, base))}\n\n"
            f"Equal steps, of {records[0].steps}, before any figure of training differs: {numbers} in the median "
            f"(least and most) of {len(pairs)} pairs; before responses differ in reward or length: {responses}. Root "
            "mean square of the difference in a step, with the same seed and with other seeds of the same policy:\n\n"
            f"{markdown(['step', *followed], course(mine, base))}\n"
        )
    (out / "noise.md").write_text(text, encoding="utf-8")
    return text


def of(design: Design) -> Design:
    """The same task and settings, with the arms of this study."""
    return dataclasses.replace(
        design,
        name="noise",
        title="Noise",
        description=__doc__,
        arms=ARMS,
        policies=POLICIES,
        layout=None,
        final_samples=None,
        has_guide=False,
        analyse=write,
    )


DESIGN = of(entropy_study.DESIGN)

if __name__ == "__main__":
    main(DESIGN)
