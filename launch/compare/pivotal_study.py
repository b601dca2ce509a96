"""What do the entropies do? GTPO with weights that pull the explanations of its effect apart: the second study's
part C.

    STUDY=pivotal bash launch/study.sh [--policies 0,1,...] [--arms none,real,...] [--out runs/pivotal]
    STUDY=pivotal bash launch/study.sh --analyse FOLDER

Task and settings of part A (`one_dose`), four initial policies with one seed each. docs/studies/entropy2_plan.md has
the plan, which came before the first run. STUDY=pivotal_1 is the same at ten times the dose (`pivotal_study_1`).
"""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

import entropy_study
import one_dose
import pivotal
from command import main
from contrasts import Family
from designs import Arm

DOSE = "0.1"
"""That of the plan where a primary difference of part A or B is shown, as in A."""
BOUND = 0.04
OURS = Path(pivotal.__file__).relative_to(one_dose.record.ROOT)
NONE, REAL = "none", "real"


def weighed(kind: str, dose: str) -> tuple[str, ...]:
    return (
        *("--preset", "gtpo", *entropy_study.WITHOUT_PUNISHMENT, "--algo.advantage.estimator", f"{OURS}:pivotal"),
        *("--pivotal.weights", kind, "--pivotal.dose", dose),
    )


def arms(dose: str) -> tuple[Arm, ...]:
    """GTPO without entropy, and with each of the weights at a dose (alpha2)."""
    none = Arm(NONE, "none (alpha2 = 0)", weighed("entropy", "0"), seeds=1)
    real = Arm(REAL, pivotal.WEIGHTS["entropy"], weighed("entropy", dose), seeds=1)
    controls = ("shuffled", "shuffled_pivots", "shuffled_others", "average", "indicator", "surprisal")
    return none, real, *(Arm(kind, pivotal.WEIGHTS[kind], weighed(kind, dose), seeds=1) for kind in controls)


ARMS = arms(DOSE)
HARM = Family("Each against none (primary)", tuple((arm.key, NONE) for arm in ARMS if arm.key != NONE), BOUND)
EXPLANATIONS = Family(
    "What explains it (primary)",
    ((REAL, "indicator"), ("average", NONE), ("shuffled_pivots", REAL), ("shuffled_others", REAL)),
    BOUND,
)
FAMILIES = tuple((family, (one_dose.PRIMARY,)) for family in (HARM, EXPLANATIONS))

DESIGN = dataclasses.replace(
    one_dose.DESIGN,
    name="pivotal",
    title="What the entropies do",
    description=__doc__,
    arms=ARMS,
    analyse=functools.partial(one_dose.analyse, arms=ARMS, families=FAMILIES),
    policies=(0, 1, 2, 3),
)

if __name__ == "__main__":
    main(DESIGN)
