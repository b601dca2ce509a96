"""What of mixed-policy DAPO is the guide's? M2 beside DAPO with M2's updates and beside supervised learning of the
guide's responses: the second study's part D.

    STUDY=guide bash launch/study.sh [--arms dapo,dapo_m2,...] [--policies 0,1,...] [--out runs/guide]
    STUDY=guide bash launch/study.sh --analyse FOLDER

The guided study's task, guide and settings, with six initial policies. DAPO with M2's updates makes in every step as
many as M2's run with the same policy and seed did, so it starts when that has ended; --analyse refuses records whose
numbers differ. docs/studies/entropy2_plan.md has the plan, which came before the first run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import differences
import guided
import record
import results
from command import main
from contrasts import READ_POLICIES, Family, planned, write
from designs import FOLLOWED, Arm
from record import Record

LEVEL = 0.40
PRIMARY = ("pass@1", f"prompts until {LEVEL:.2f}")
TOLD = (f"runs that reach {LEVEL:.2f}", "pass@32", "updates a step", "prompts in all", "entropy")
M2, UPDATES = "dapo_m2", "dapo_m2_updates"

ARMS = (
    Arm(M2, "DAPO + M2", guided.guided("zero_reward"), seeds=1),
    Arm("dapo", "DAPO", guided.DAPO, seeds=1),
    Arm("supervised", "supervised", (*guided.guided("zero_reward"), "--guide.objective", "supervised"), seeds=1),
    Arm(
        UPDATES,
        "M2's updates",
        (*guided.DAPO, "--train.updates_from", f"{FOLLOWED}/metrics.jsonl"),
        seeds=1,
        follows=M2,
    ),
)
GUIDE = Family("What of M2 is the guide's (primary)", ((M2, UPDATES), (M2, "supervised"), ("supervised", UPDATES)))
BESIDE = Family("Each against DAPO", ((UPDATES, "dapo"), ("supervised", "dapo"), (M2, "dapo")))
READ = (
    f"pass@1, pass@32 and entropy are those of the final evaluation. Prompts until {LEVEL:.2f}: taken from the data, "
    f"dropped ones too, up to the first evaluation in training whose pass@1 is at least {LEVEL:.2f}; a run that never "
    "gets there counts with all of its prompts, which is too few."
)


def outcomes(run: Record) -> dict[str, float]:
    until, updates = results.prompts_to(run.run, LEVEL), run.series("updates")
    in_all = run.series("prompts")[-1]
    values = (
        run.final["pass@1"],
        in_all if until is None else until,
        float(until is not None),
        run.final["pass@32"],
        sum(updates) / len(updates),
        in_all,
        run.final["entropy_response_mean"],
    )
    return dict(zip((*PRIMARY, *TOLD), values, strict=True))


def check_updates(records: Sequence[Record]) -> None:
    """Refuse records of which it is not true that DAPO made M2's number of updates in every step.

    Raises:
        ValueError: it is not, or M2's record is missing.
    """
    made = {run.replicate: run for run in records if run.arm == M2}
    for run in records:
        if run.arm != UPDATES:
            continue
        theirs = made.get(run.replicate)
        if theirs is None or theirs.training["updates"] != run.training["updates"]:
            other = record.name_of(M2, run.policy, run.seed)
            raise ValueError(
                f"{run.name} did not make as many updates in every step as {other}, or that has no record here: run "
                "both again, M2 first"
            )


def analyse(folder: Path, out: Path) -> str:
    """Write table.md and differences.png out of the records of a folder; returns the tables.

    Raises:
        ValueError: the records cannot be compared.
    """
    records = record.load(folder)
    record.check(records)
    check_updates(records)
    names = {arm.key: arm.title for arm in ARMS}
    families = [(family, PRIMARY) for family in (GUIDE, BESIDE)]
    differences.picture(out / "differences.png", planned(records, outcomes, families), names)
    return write(out, records, outcomes, names, (*PRIMARY, *TOLD), families, f"{READ}\n\n{READ_POLICIES}")


DESIGN = dataclasses.replace(
    guided.DESIGN,
    name="guide",
    title="What of M2 is the guide's",
    description=__doc__,
    arms=ARMS,
    prompts_for_filtering=16,
    analyse=analyse,
    policies=(0, 1, 2, 3, 4, 5),
)

if __name__ == "__main__":
    main(DESIGN)
