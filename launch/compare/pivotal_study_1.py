"""What do the entropies do at a dose where shuffling them harms? Part C of the second study again, with alpha2 = 1.

    STUDY=pivotal_1 bash launch/study.sh [--policies 0,1,...] [--arms none,real,...] [--out runs/pivotal_1]
    STUDY=pivotal_1 bash launch/study.sh --analyse FOLDER

Arms, task and settings of `pivotal_study`, six initial policies. docs/studies/pivotal_1_plan.md has the plan, which
came after all results of the second study and before the first run of this one.
"""

from __future__ import annotations

import dataclasses
import functools

import one_dose
import pivotal_study
from command import main
from contrasts import Family

ARMS = pivotal_study.arms("1")
NOISE = Family("Is it noise that harms (primary)", (("average", "shuffled"),), pivotal_study.BOUND)
FAMILIES = ((NOISE, (one_dose.PRIMARY,)), *pivotal_study.FAMILIES)

DESIGN = dataclasses.replace(
    pivotal_study.DESIGN,
    name="pivotal_1",
    title="What the entropies do at ten times the paper's dose",
    description=__doc__,
    arms=ARMS,
    analyse=functools.partial(one_dose.analyse, arms=ARMS, families=FAMILIES),
    policies=one_dose.DESIGN.policies,
)

if __name__ == "__main__":
    main(DESIGN)
