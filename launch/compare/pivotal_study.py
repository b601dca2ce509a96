"""What do the entropies do? GTPO with weights that pull the explanations of its effect apart: the second study's
part C.

    STUDY=pivotal bash launch/study.sh [--policies 0,1,...] [--arms none,real,...] [--out runs/pivotal]
    STUDY=pivotal bash launch/study.sh --analyse FOLDER

Task and settings of part A (`one_dose`), four initial policies with one seed each. docs/studies/entropy2_plan.md has
the plan, which came before the first run.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import entropy_study
import one_dose
import pivotal
from command import main
from contrasts import Family
from designs import Arm

DOSE = "0.1"
"""That of the plan where a primary difference of part A or B is shown, as in A; else it would be 1."""
BOUND = 0.04
OURS = Path(pivotal.__file__).relative_to(one_dose.record.ROOT)
NONE, REAL = "none", "real"


def weighed(kind: str, dose: str = DOSE) -> tuple[str, ...]:
    return (
        *("--preset", "gtpo", *entropy_study.WITHOUT_PUNISHMENT, "--algo.advantage.estimator", f"{OURS}:pivotal"),
        *("--pivotal.weights", kind, "--pivotal.dose", dose),
    )


ARMS = (
    Arm(NONE, "none (alpha2 = 0)", weighed("entropy", "0"), seeds=1),
    Arm(REAL, pivotal.WEIGHTS["entropy"], weighed("entropy"), seeds=1),
    *(
        Arm(kind, pivotal.WEIGHTS[kind], weighed(kind), seeds=1)
        for kind in ("shuffled", "shuffled_pivots", "shuffled_others", "average", "indicator", "surprisal")
    ),
)
HARM = Family("Each against none (primary)", tuple((arm.key, NONE) for arm in ARMS if arm.key != NONE), BOUND)
EXPLANATIONS = Family(
    "What explains it (primary)",
    ((REAL, "indicator"), ("average", NONE), ("shuffled_pivots", REAL), ("shuffled_others", REAL)),
    BOUND,
)


def analyse(folder: Path, out: Path) -> str:
    """Write table.md and differences.png out of the records of a folder; returns the tables.

    Raises:
        ValueError: the records cannot be compared.
    """
    families = [(family, (one_dose.PRIMARY,)) for family in (HARM, EXPLANATIONS)]
    return one_dose.analyse(folder, out, ARMS, families)


DESIGN = dataclasses.replace(
    one_dose.DESIGN,
    name="pivotal",
    title="What the entropies do",
    description=__doc__,
    arms=ARMS,
    analyse=analyse,
    policies=(0, 1, 2, 3),
)

if __name__ == "__main__":
    main(DESIGN)
