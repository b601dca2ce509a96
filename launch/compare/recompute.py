"""The second program: every figure of a study's tables computed again, and compared with the page.

    STUDY=dose bash launch/study.sh --recompute FOLDER [--page FILE]
    .venv/bin/python launch/compare/recompute.py STUDY FOLDER [--page FILE]

FOLDER has the runs' records; the page is its table.md, or a page whose block was written from that folder. Nothing of
the first program is imported: outcomes and tests are written down again, from the studies' plans, in numpy.
It also looks whether the commit that added the plan came before every run. The exit status is 1 where a figure differs
by more than its rounding, is on the page and unknown here, or is missing there, or where the order is not shown.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
LEVEL, POWER = 0.05, 0.8
NEVER = 1e-12
"""A standard deviation below this is rounding's: the differences do not vary."""

Run = Mapping[str, Any]
"""A record, as its file has it."""
Values = Mapping[tuple[int, int], float]
"""(Policy, seed) -> an outcome."""
Outcomes = Mapping[str, Callable[[Run], float]]


# --- Student's t, in the angle x = atan(sqrt(degrees) / t), whose density is proportional to sin(x)^(degrees - 1)


NODES, WEIGHTS = np.polynomial.legendre.leggauss(256)  # of the integral from -1 to 1


def above(t: float, degrees: float) -> float:
    """The probability that Student's t exceeds this value."""
    end = math.atan2(math.sqrt(degrees), t)
    u = (NODES + 1) / 2  # x = end * u^4 takes away the singularity that degrees between whole numbers have at 0
    part = float(np.sum(WEIGHTS * 2 * end * u**3 * np.sin(end * u**4) ** (degrees - 1)))
    return part * math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(math.pi)


def quantile(probability: float, degrees: int) -> float:
    """Student's t that is exceeded with a probability of 1 - `probability`, by halving the angle."""
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        x = (low + high) / 2
        larger = above(math.sqrt(degrees) / math.tan(x), degrees) > 1 - probability
        low, high = (low, x) if larger else (x, high)
    return math.sqrt(degrees) / math.tan(low)


# --- the tests that the plan names


def half_width(sample: np.ndarray) -> float:
    """Half of the mean's 95 % interval."""
    return quantile(1 - LEVEL / 2, len(sample) - 1) * standard_error(sample)


def standard_error(sample: np.ndarray) -> float:
    return float(sample.std(ddof=1)) / math.sqrt(len(sample))


def student(gaps: np.ndarray) -> float | None:
    """The two-sided p of differences; None where they do not vary."""
    if gaps.std() < NEVER:
        return None
    return 2 * above(abs(gaps.mean()) / standard_error(gaps), len(gaps) - 1)


def sign_flip(gaps: np.ndarray) -> float | None:
    """Of all choices of signs, the share whose sum is as far from 0; None for more than 16 differences."""
    if len(gaps) > 16:
        return None
    signs = 1 - 2 * (np.arange(2 ** len(gaps))[:, None] >> np.arange(len(gaps)) & 1)
    return float(np.mean(np.abs(signs @ gaps) >= abs(gaps.sum()) - 1e-9 * np.abs(gaps).sum()))


def welch(one: np.ndarray, other: np.ndarray) -> float:
    """The two-sided p for independent samples."""
    a, b = standard_error(one) ** 2, standard_error(other) ** 2
    degrees = (a + b) ** 2 / (a**2 / (len(one) - 1) + b**2 / (len(other) - 1))
    return 2 * above(abs(one.mean() - other.mean()) / math.sqrt(a + b), degrees)


def visible(gaps: np.ndarray, tests: int) -> float:
    """The difference that is found in 80 % of such studies at the level 0.05 divided by the number of tests."""
    degrees = len(gaps) - 1
    return (quantile(1 - LEVEL / tests / 2, degrees) + quantile(POWER, degrees)) * standard_error(gaps)


def equal(gaps: np.ndarray, bound: float) -> float:
    """The larger p of two one-sided tests: that the true mean is above -bound, and that it is below it."""
    error = standard_error(gaps) if gaps.std() >= NEVER else 0.0
    rooms = (bound + gaps.mean(), bound - gaps.mean())
    return max(above(room / error if error else math.copysign(math.inf, room), len(gaps) - 1) for room in rooms)


def holm(p: Sequence[float]) -> list[float]:
    order = np.argsort(p, kind="stable")
    steps = np.minimum(1, np.arange(len(p), 0, -1) * np.asarray(p)[order])
    corrected = np.empty(len(p))
    corrected[order] = np.maximum.accumulate(steps)
    return corrected.tolist()


# --- outcomes


def series(run: Run, name: str) -> np.ndarray:
    """A figure of training by step, without steps that have none."""
    return np.array([value for value in run["training"][name] if value is not None])


def last(name: str) -> Callable[[Run], float]:
    """The mean of a figure of training over the last five steps that have it."""
    return lambda run: float(series(run, name)[-5:].mean())


def pass_rate(run: Run) -> float:
    return float(series(run, "reward").mean())


def area(run: Run) -> float:
    """Under held-out pass@1, by trapezoids, over the width."""
    steps = [row["step"] for row in run["evaluations"]]
    return np.trapezoid([row["pass@1"] for row in run["evaluations"]], steps) / (steps[-1] - steps[0])


def evaluated(name: str) -> Callable[[Run], float]:
    """A figure of the last evaluation in training."""
    return lambda run: run["evaluations"][-1][name]


def rebound(run: Run) -> float:
    """The last mean of entropy over five steps minus the lowest."""
    entropy = series(run, "entropy")
    means = np.lib.stride_tricks.sliding_window_view(entropy, min(5, len(entropy))).mean(axis=1)
    return means[-1] - means.min()


def mean_at_32(run: Run) -> float:
    return float(np.mean(run["solved"]["final"])) / 32


def pass_at_32(run: Run) -> float:
    return float(np.mean(np.array(run["solved"]["final"]) > 0))


def on_hard(outcome: Callable[[Run], float]) -> Callable[[Run], float]:
    """The same of the prompts that had less than 0.1 of 32 responses right at the start."""

    def of(run: Run) -> float:
        pairs = zip(run["solved"]["start"], run["solved"]["final"], strict=False)  # the end may have fewer prompts
        return outcome({"solved": {"final": [after for before, after in pairs if before < 3.2]}})

    return of


def operations(run: Run) -> float:
    return statistics.fmean([value for value in run["operations"] if value is not None][-5:])


def final(name: str) -> Callable[[Run], float]:
    """A figure of the evaluation at a run's end."""
    return lambda run: run["final"][name]


def reached(run: Run) -> int | None:
    """The step of the first evaluation in training whose pass@1 is at least 0.40; None where there is none."""
    return next((int(row["step"]) for row in run["evaluations"] if row["step"] > 0 and row["pass@1"] >= 0.40), None)


# --- the studies


@dataclass(frozen=True)
class Family:
    """Tests that are corrected together: every pair, its second arm subtracted, with every outcome."""

    pairs: tuple[tuple[str, str], ...]
    outcomes: tuple[str, ...]
    bound: float | None = None


@dataclass(frozen=True)
class Study:
    arms: Mapping[str, str]
    """Key -> its name on the page, in the page's order."""
    outcomes: Outcomes
    families: tuple[Family, ...]
    plan: str = "docs/studies/entropy2_plan.md"
    """Empty: the order of plan and runs is not looked at."""
    notes: tuple[float, ...] = (LEVEL, 95, 2 / 2**6, 2 / 2**4)
    """Figures in the page's sentences: level, interval, least p of the sign flips of six and four."""


IN_TRAINING, AREA, END = "pass rate in training", "area under pass@1", "pass@1 at the end"
DOSE_OUTCOMES: Outcomes = {
    IN_TRAINING: pass_rate,
    AREA: area,
    END: evaluated("pass@1"),
    "entropy at the end": last("entropy"),
    "length at the end": last("length"),
}
DOSE = Study(
    arms={"gtpo_0": "GTPO, alpha2 = 0", "gtpo_0.1": "GTPO, alpha2 = 0.1"},
    outcomes=DOSE_OUTCOMES,
    families=(
        Family((("gtpo_0.1", "gtpo_0"),), (IN_TRAINING,), 0.02),
        Family((("gtpo_0.1", "gtpo_0"),), (AREA, END), 0.02),
    ),
)

ENTROPY_ON_TRAPS = (("gtpo_0.1", "gtpo_0"), ("gtpo_0.1", "inverse_0.1"), ("inverse_0.1", "gtpo_0"))
PAPER = (("gtpo_0.1", "dapo"), ("grpo_s_0.1", "dapo"))
WITHOUT = (("gtpo_0", "dapo"),)
TRAPS_PRIMARY = ("mean@32", "pass@32, hard prompts")
TRAPS_SECONDARY = ("pass@32", "mean@32, hard prompts", "entropy of operations at the end")
TRAPS = Study(
    arms={
        "dapo": "DAPO",
        "gtpo_0": "GTPO, alpha2 = 0",
        "gtpo_0.1": "GTPO, alpha2 = 0.1",
        "grpo_s_0.1": "GRPO-S, beta2 = 0.1",
        "inverse_0.1": "GTPO inverse, alpha2 = 0.1",
    },
    outcomes={
        "mean@32": mean_at_32,
        "pass@32, hard prompts": on_hard(pass_at_32),
        "pass@32": pass_at_32,
        "mean@32, hard prompts": on_hard(mean_at_32),
        "entropy of operations at the end": operations,
        "entropy at the end": last("entropy"),
        "rebound": rebound,
        "response length": final("response_length"),
        "steps": lambda run: len(series(run, "entropy")),
    },
    families=(
        *(Family(pairs, TRAPS_PRIMARY) for pairs in (ENTROPY_ON_TRAPS, PAPER, WITHOUT)),
        Family((*ENTROPY_ON_TRAPS, *PAPER, *WITHOUT), TRAPS_SECONDARY),
    ),
)

WEIGHTS_OF_C = {
    "real": "real",
    "shuffled": "shuffled",
    "shuffled_pivots": "shuffled among pivotal tokens",
    "shuffled_others": "shuffled among the others",
    "average": "the mean of 16 shuffles",
    "indicator": "pivotal or not",
    "surprisal": "surprisal",
}
EXPLANATIONS = (("real", "indicator"), ("average", "none"), ("shuffled_pivots", "real"), ("shuffled_others", "real"))
PIVOTAL = Study(
    arms={"none": "none (alpha2 = 0)", **WEIGHTS_OF_C},
    outcomes=DOSE_OUTCOMES,
    families=(
        Family(tuple((arm, "none") for arm in WEIGHTS_OF_C), (IN_TRAINING,), 0.04),
        Family(EXPLANATIONS, (IN_TRAINING,), 0.04),
    ),
)

PIVOTAL_1 = replace(
    PIVOTAL,
    families=(Family((("average", "shuffled"),), (IN_TRAINING,), 0.04), *PIVOTAL.families),
    plan="docs/studies/pivotal_1_plan.md",
)

GUIDE_PRIMARY = ("pass@1", "prompts until 0.40")
WHOSE = (("dapo_m2", "dapo_m2_updates"), ("dapo_m2", "supervised"), ("supervised", "dapo_m2_updates"))
GUIDE = Study(
    arms={"dapo_m2": "DAPO + M2", "dapo": "DAPO", "supervised": "supervised", "dapo_m2_updates": "M2's updates"},
    outcomes={
        "pass@1": final("pass@1"),
        "prompts until 0.40": lambda run: series(run, "prompts")[(reached(run) or 0) - 1],
        "runs that reach 0.40": lambda run: float(reached(run) is not None),
        "pass@32": final("pass@32"),
        "updates a step": lambda run: float(series(run, "updates").mean()),
        "prompts in all": lambda run: series(run, "prompts")[-1],
        "entropy": final("entropy_response_mean"),
    },
    families=(
        Family(WHOSE, GUIDE_PRIMARY),
        Family(tuple((arm, "dapo") for arm in ("dapo_m2_updates", "supervised", "dapo_m2")), GUIDE_PRIMARY),
    ),
    notes=(LEVEL, 95, 2 / 2**6, 2 / 2**4, 0.40),
)

AROUND = {
    "grpo": "GRPO",
    "dapo": "DAPO",
    "dapo_forking": "DAPO w/ forking tokens",
    "grpo_s_0.1": "GRPO-S, beta2 = 0.1",
    "grpo_s_1": "GRPO-S, beta2 = 1",
    "grpo_s_shuffled_1": "GRPO-S shuffled, beta2 = 1",
    "clip_cov": "Clip-Cov",
    "kl_cov": "KL-Cov",
    "entropy_advantage": "Entropy advantage",
    "edge": "EDGE-GRPO",
    "adaptive_entropy": "Adaptive entropy bonus",
}
FIRST_OUTCOMES = (AREA, "pass@16 at the end")
FIRST_PAIRS = (
    (("gtpo_1", "gtpo_shuffled_1"), ("gtpo_3", "gtpo_shuffled_3")),
    (("gtpo_shuffled_1", "gtpo_0"), ("gtpo_shuffled_3", "gtpo_0")),
    tuple((f"gtpo_{dose}", "gtpo_0") for dose in ("0.1", "1", "3")),
    (("grpo_s_1", "grpo_s_shuffled_1"),),
    tuple((arm, "grpo") for arm in AROUND if arm != "grpo"),
)
FIRST = Study(
    arms={
        **{f"gtpo_{dose}": f"GTPO, alpha2 = {dose}" for dose in ("0", "0.1", "1", "3")},
        **{f"gtpo_shuffled_{dose}": f"GTPO shuffled, alpha2 = {dose}" for dose in ("1", "3")},
        **AROUND,
    },
    outcomes={
        AREA: area,
        "pass@16 at the end": evaluated("pass@16"),
        END: evaluated("pass@1"),
        "entropy at the end": evaluated("entropy"),
        "rebound": rebound,
        "length at the end": last("length"),
    },
    families=tuple(Family(pairs, FIRST_OUTCOMES) for pairs in FIRST_PAIRS),
    plan="",  # its records have no start times
    notes=(LEVEL, 95, 2 / 2**8, 2 / 2**4, 92, 32),
)

STUDIES = {"dose": DOSE, "traps": TRAPS, "pivotal": PIVOTAL, "pivotal_1": PIVOTAL_1, "guide": GUIDE, "entropy": FIRST}


# --- the tables


@dataclass(frozen=True)
class Figures:
    """A cell of figures: one, or a mean and what follows its ±."""

    values: tuple[float, ...]
    bold: bool = False


Table = tuple[list[str], list[list[str | Figures]]]
"""Names of the columns; the rows, of texts and figures."""


def tables(study: Study, runs: Sequence[Run]) -> list[Table]:
    """What the page has to have, in its order."""
    found: dict[str, dict[str, dict[tuple[int, int], float]]] = {}
    for run in runs:
        for name, outcome in study.outcomes.items():
            at = (run.get("policy", 0), run["seed"])
            found.setdefault(run["arm"], {}).setdefault(name, {})[at] = float(outcome(run))
    by_policy = len({run.get("policy", 0) for run in runs}) > 1
    families = (compared(study, family, found, by_policy) for family in study.families)
    return [levels(study, runs, found, by_policy), *(table for table in families if table[1])]


def units(values: Values, by_policy: bool) -> np.ndarray:
    """What intervals and tests are over: the means of the policies or, with one policy, the seeds."""
    keys = sorted({at[0] if by_policy else at for at in values})
    return np.array([np.mean([value for at, value in values.items() if key in (at, at[0])]) for key in keys])


def levels(study: Study, runs: Sequence[Run], found: Mapping[str, Mapping[str, Values]], by_policy: bool) -> Table:
    rows: list[list[str | Figures]] = []
    for arm, name in study.arms.items():
        mine = [run["seconds"] for run in runs if run["arm"] == arm]
        if mine:
            samples = [units(found[arm][outcome], by_policy) for outcome in study.outcomes]
            halves = [(half_width(sample),) if len(sample) > 1 else () for sample in samples]
            cells = [Figures((float(sample.mean()), *half)) for sample, half in zip(samples, halves, strict=True)]
            rows.append([name, Figures((len(mine),)), *cells, Figures((statistics.median(mine),))])
    return ["", "runs" if by_policy else "seeds", *study.outcomes, "seconds a run"], rows


def compared(study: Study, family: Family, found: Mapping[str, Mapping[str, Values]], by_policy: bool) -> Table:
    tests = []
    for one, other in family.pairs:
        for outcome in family.outcomes:
            mine, theirs = (found.get(arm, {}).get(outcome, {}) for arm in (one, other))
            shared = mine.keys() & theirs.keys()
            gaps = units({at: mine[at] - theirs[at] for at in shared}, by_policy)
            if len(gaps) > 1:
                arms = [units({at: arm[at] for at in shared}, by_policy) for arm in (mine, theirs)]
                tests.append((f"{study.arms[one]} - {study.arms[other]}", outcome, gaps, arms, student(gaps)))
    corrected = holm([1.0 if p is None else p for *_, p in tests])
    rows: list[list[str | Figures]] = []
    for (pair, outcome, gaps, arms, p), after in zip(tests, corrected, strict=True):
        row: list[str | Figures] = [pair, outcome, Figures((len(gaps),))]
        row.append(Figures((float(gaps.mean()), half_width(gaps)), bold=after < LEVEL))
        if p is None:
            row += ["ceiling", "", "", "", ""]
        else:
            figures = (p, after, sign_flip(gaps), welch(*arms), visible(gaps, len(tests)))
            row += ["" if figure is None else Figures((figure,)) for figure in figures]
        rows.append(row if family.bound is None else [*row, Figures((equal(gaps, family.bound),))])
    head = ["", "outcome", "policies" if by_policy else "seeds", "difference", "p", f"p, Holm of {len(tests)}"]
    head += ["p, sign flip", "p, Welch", "visible at 80 %"]
    return head if family.bound is None else [*head, f"p, equal within {family.bound:g}"], rows


# --- the page


NUMBER = r"[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?"


def block(text: str, folder: Path) -> str:
    """The part of a page that was written from the folder, or the whole text of a page without such parts.

    Raises:
        ValueError: all parts of the page are from other folders.
    """
    parts = dict(re.findall(r"<!-- written by: .*?([^/ ]+)/? -->\n(.*?)<!-- end -->", text, re.S))
    name = folder.resolve().name
    if parts and name not in parts:
        raise ValueError(f"the page has no part that was written from {name}, but from {', '.join(parts)}")
    return parts.get(name, text)


def read(text: str) -> tuple[list[list[list[str]]], str]:
    """The tables of a page, as rows of cells without the line of dashes, and the text around them."""
    found = re.findall(r"(?:^\|.*\n?)+", text, re.M)
    cells = [[[cell.strip() for cell in line.strip()[1:-1].split("|")] for line in one.splitlines()] for one in found]
    return [[head, *rows] for head, _, *rows in cells], re.sub(r"^\|.*$", "", text, flags=re.M)


def within(value: float, printed: str) -> bool:
    """Whether a figure is the printed one, up to half of its last digit."""
    last_digit = 10.0 ** int(Decimal(printed).as_tuple().exponent)
    return abs(value - float(printed)) <= last_digit / 2 * (1 + 1e-6)


def agrees(cell: str | Figures, printed: str) -> bool:
    if isinstance(cell, str):
        return printed == cell
    figures = printed.removeprefix("**").removesuffix("**").split(" ± ")
    if cell.bold != (printed != " ± ".join(figures)) or len(figures) != len(cell.values):
        return False
    pairs = zip(cell.values, figures, strict=True)
    return all(re.fullmatch(NUMBER, figure) and within(value, figure) for value, figure in pairs)


def shown(cell: str | Figures) -> str:
    if isinstance(cell, str):
        return cell or "nothing"
    text = " ± ".join(f"{value:.6g}" for value in cell.values)
    return f"**{text}**" if cell.bold else text


def differences(expected: Sequence[Table], page: Sequence[Sequence[Sequence[str]]]) -> Iterator[str]:
    """What the page's tables have in another way, by table, row and column; each table's first row is its head."""
    if len(page) != len(expected):
        yield f"the page has {len(page)} tables, and {len(expected)} follow from the records"
    for number, ((head, rows), (its_head, *its_rows)) in enumerate(zip(expected, page, strict=False), 1):
        if list(its_head) != head:
            yield f"table {number} has the columns {its_head}, and not {head}"
        if len(its_rows) != len(rows):
            yield f"table {number} has {len(its_rows)} rows, and {len(rows)} follow from the records"
        for row, its in zip(rows, its_rows, strict=False):
            if len(its) != len(row):
                yield f"table {number}, {its[0]}: {len(its)} cells, and not {len(row)}"
            for column, cell, printed in zip(head, row, its, strict=False):
                if not agrees(cell, printed):
                    where = f"table {number}, {its[0]}, {column or 'name'}"
                    yield f"{where}: {printed or 'nothing'} on the page, {shown(cell)} computed"


def unknown(text: str, notes: Sequence[float]) -> Iterator[str]:
    """Figures in the page's sentences that are none of these."""
    for figure in re.findall(rf"(?<![\w.@]){NUMBER}(?![\w.]*\w)", text):
        if not any(within(note, figure) for note in notes):
            yield f"the page's text has {figure}, which this program does not know"


# --- the order of plan and runs


def git(repository: Path, *words: str) -> str | None:
    """What git says, or None where it fails."""
    done = subprocess.run(["git", *words], cwd=repository, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def order(runs: Sequence[Run], plan: str, repository: Path) -> tuple[str, list[str]]:
    """Whether the plan was committed before every run began, as a sentence, and what speaks against it.

    Args:
        runs: the records.
        plan: path of the plan in the repository; the commit that added it counts, with the later of its two dates.
        repository: with the plan's commit and those of the runs.

    Raises:
        ValueError: no commit of the repository added the plan.
    """
    added = git(repository, "log", "--diff-filter=A", "--format=%H %aI %cI", "--", plan)
    if not added:
        raise ValueError(f"no commit of {repository} added {plan}: run this in a clone with the whole history")
    commit, *dates = added.splitlines()[-1].split()
    planned = max(map(datetime.fromisoformat, dates))
    problems = []
    commits = sorted({run["commit"] for run in runs})
    for one in commits:
        if git(repository, "rev-parse", "--verify", "--quiet", f"{one}^{{commit}}") is None:
            problems.append(f"{one}, which runs have as their commit, is none of this repository")
        elif git(repository, "merge-base", "--is-ancestor", commit, one) is None:
            problems.append(f"{one}, which runs have as their commit, does not come after the plan's, {commit[:12]}")
    begun = []
    for run in runs:
        name = f"{run['arm']}, policy {run.get('policy', 0)}, seed {run['seed']}"
        if not run.get("started"):
            problems.append(f"the record of {name} has no start time")
            continue
        begun.append(datetime.fromisoformat(run["started"]))
        if begun[-1] <= planned:
            problems.append(f"{name} began at {run['started']}, before the plan was committed")
    first = min(begun).isoformat() if begun else "a time that no record has"
    words = "not shown to be before all" if problems else "before all"
    sentence = (
        f"{plan} was added by {commit[:12]} at {planned.isoformat()}, the first run began at {first}, "
        f"with {', '.join(commits)}: the plan is {words} of {len(runs)} runs."
    )
    return sentence, problems


def load(folder: Path, study: Study) -> list[Run]:
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    if not runs:
        raise ValueError(f"{folder} has no records of runs")
    if others := sorted({run["arm"] for run in runs} - study.arms.keys()):
        raise ValueError(f"{folder} has runs of {', '.join(others)}, and the study has {', '.join(study.arms)}")
    return runs


def main(arguments: Sequence[str] | None = None, repository: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("folder", type=Path, help="of records")
    parser.add_argument("--page", type=Path, help="with the tables; FOLDER/table.md by default")
    asked = parser.parse_args(arguments)
    study, page = STUDIES[asked.study], asked.page or asked.folder / "table.md"
    try:
        runs = load(asked.folder, study)
        printed, around = read(block(page.read_text(encoding="utf-8"), asked.folder))
        expected = tables(study, runs)
        problems = [*differences(expected, printed), *unknown(around, study.notes)]
        figures = sum(
            len(cell.values) for _, rows in expected for row in rows for cell in row if isinstance(cell, Figures)
        )
        print(f"{len(runs)} records of {asked.folder}: {figures} figures computed again for {page}.")
        if study.plan:
            sentence, against = order(runs, study.plan, repository)
            print(sentence)
            problems += against
    except KeyError as error:
        parser.error(f"a record of {asked.folder} lacks {error}")
    except (OSError, ValueError) as error:
        parser.error(str(error))
    for problem in problems:
        print(f"- {problem}")
    print(f"{len(problems)} differences." if problems else "All agree.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
