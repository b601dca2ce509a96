"""What do the entropies do at a dose where shuffling them harms? Part C of the second study again, with alpha2 = 1.

    STUDY=pivotal_1 bash launch/study.sh [--policies 0,1,...] [--arms none,real,...] [--out runs/pivotal_1]
    STUDY=pivotal_1 bash launch/study.sh --analyse FOLDER

Arms, task and settings of `pivotal_study`, six initial policies. docs/studies/pivotal_1_plan.md has the plan, which
came after all results of the second study and before the first run of this one.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import one_dose
import pivotal_study
from command import main
from contrasts import Family

ARMS = pivotal_study.arms("1")
NOISE = Family("Is it noise that harms (primary)", (("average", "shuffled"),), pivotal_study.BOUND)


def analyse(folder: Path, out: Path) -> str:
    """Write table.md and differences.png out of the records of a folder; returns the tables.

    Raises:
        ValueError: the records cannot be compared.
    """
    families = [(family, (one_dose.PRIMARY,)) for family in (NOISE, pivotal_study.HARM, pivotal_study.EXPLANATIONS)]
    return one_dose.analyse(folder, out, ARMS, families)


DESIGN = dataclasses.replace(
    pivotal_study.DESIGN,
    name="pivotal_1",
    title="What the entropies do at ten times the paper's dose",
    description=__doc__,
    arms=ARMS,
    analyse=analyse,
    policies=one_dose.DESIGN.policies,
)

if __name__ == "__main__":
    main(DESIGN)
