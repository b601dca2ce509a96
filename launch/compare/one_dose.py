"""Does the paper's dose of entropy help? GTPO with alpha2 = 0.1 beside alpha2 = 0: the second study's part A.

    STUDY=dose bash launch/study.sh [--policies 0,1,...] [--seeds 4] [--out runs/one_dose]
    STUDY=dose bash launch/study.sh --analyse FOLDER

The entropy study's task and settings, six initial policies with four seeds each, and one order of prompts and one
noise for both arms of a seed. docs/studies/entropy2_plan.md has the plan, which came before the first run.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from pathlib import Path

import differences
import entropy_study
import record
from command import main
from contrasts import Family, planned, write
from designs import Arm
from inference import area
from record import Record

PRIMARY = "pass rate in training"
"""Of all responses of all steps. A step's prompts are new, so no response was learned from before it is counted, and
both arms of a seed answer the same prompts."""
SECONDARY = ("area under pass@1", "pass@1 at the end")
TOLD = ("entropy at the end", "length at the end")
SHOWN = (PRIMARY, *SECONDARY, *TOLD)
WINDOW = 5  # steps that a figure at the end is a mean over
BOUND = 0.02

ARMS = (
    Arm("gtpo_0", "GTPO, alpha2 = 0", entropy_study.gtpo("0"), seeds=4),
    Arm("gtpo_0.1", "GTPO, alpha2 = 0.1", entropy_study.gtpo("0.1"), seeds=4),
)
FAMILIES = (
    (Family("Primary", (("gtpo_0.1", "gtpo_0"),), BOUND), (PRIMARY,)),
    (Family("Secondary", (("gtpo_0.1", "gtpo_0"),), BOUND), SECONDARY),
)


def outcomes(run: Record) -> dict[str, float]:
    values = (
        statistics.fmean(run.series("reward")),
        area(record.curve(run, "pass@1")),
        run.last["pass@1"],
        statistics.fmean(run.series("entropy")[-WINDOW:]),
        statistics.fmean(run.series("length")[-WINDOW:]),
    )
    return dict(zip(SHOWN, values, strict=True))


def analyse(
    folder: Path,
    out: Path,
    arms: Sequence[Arm] = ARMS,
    families: Sequence[tuple[Family, Sequence[str]]] = FAMILIES,
) -> str:
    """Write table.md and differences.png out of the records of a folder; returns the tables.

    Args:
        folder: of records.
        out: where to.
        arms: of the study, which may be another one with this task.
        families: its planned comparisons, with the outcomes that each is tested in.

    Raises:
        ValueError: the records cannot be compared.
    """
    records = record.load(folder)
    record.check(records)
    names = {arm.key: arm.title for arm in arms}
    differences.picture(out / "differences.png", planned(records, outcomes, families), names)
    return write(out, records, outcomes, names, SHOWN, families)


DESIGN = dataclasses.replace(
    entropy_study.DESIGN,
    name="one_dose",
    title="Entropy at the paper's dose",
    description=__doc__,
    arms=ARMS,
    prompts_for_filtering=1,
    analyse=analyse,
    policies=(0, 1, 2, 3, 4, 5),
)

if __name__ == "__main__":
    main(DESIGN)
