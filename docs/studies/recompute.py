"""Computes every figure of the studies' tables again, from the records of the runs, and compares the two.

    python docs/studies/recompute.py [STUDY]

A line of records.jsonl.xz is the record of a run: {"folder", "file", "record"}. What a cell has to be follows from the
names of its row and column, and the tests of a table are corrected together; no code is shared with the program that
wrote the tables. tables.txt has all of them; how many figures a study has there is known, so a missing row is found,
too. The studies' pages show rows of these tables, which are compared likewise, and not counted. Sentences are not
compared, and nothing is computed of the records of noise, traps_pilot and tried. Figures that differ are listed, and
then the exit status is 1.
"""

from __future__ import annotations

import argparse
import itertools
import json
import lzma
import math
import re
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

HERE = Path(__file__).resolve().parent
LEVEL = 0.05

Run = Mapping[str, Any]
"""A record."""
Outcome = Callable[[Run], float]
Table = list[list[str]]
"""Rows of cells; the first names the columns."""


def above(t: float, degrees: float) -> float:
    """The probability that Student's t exceeds this value."""
    return float(stats.t.sf(t, degrees))


def quantile(probability: float, degrees: int) -> float:
    """Student's t that is exceeded with a probability of 1 - `probability`."""
    return float(stats.t.ppf(probability, degrees))


def standard_error(sample: np.ndarray) -> float:
    return float(sample.std(ddof=1)) / math.sqrt(len(sample))


def half_width(sample: np.ndarray) -> float:
    """Half of the mean's 95 % interval."""
    return quantile(1 - LEVEL / 2, len(sample) - 1) * standard_error(sample)


def student(gaps: np.ndarray) -> float | None:
    """The two-sided p of differences; None where they do not vary but for rounding."""
    if gaps.std() < 1e-12:
        return None
    return 2 * above(abs(gaps.mean()) / standard_error(gaps), len(gaps) - 1)


def sign_flip(gaps: np.ndarray) -> float:
    """Of all choices of signs, the share whose sum is as far from 0."""
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
    return (quantile(1 - LEVEL / tests / 2, degrees) + quantile(0.8, degrees)) * standard_error(gaps)


def equal(gaps: np.ndarray, bound: float) -> float:
    """The larger p of two one-sided tests: that the true mean is above -bound, and that it is below it."""
    return above((bound - abs(gaps.mean())) / standard_error(gaps), len(gaps) - 1)


def holm(p: Sequence[float]) -> list[float]:
    """Each p, corrected for their number."""
    order = np.argsort(p, kind="stable")
    steps = np.minimum(1, np.arange(len(p), 0, -1) * np.asarray(p)[order])
    corrected = np.empty(len(p))
    corrected[order] = np.maximum.accumulate(steps)
    return corrected.tolist()


def series(run: Run, name: str) -> np.ndarray:
    """A figure of training by step, without steps that have none."""
    return np.array([value for value in run["training"][name] if value is not None])


def last(name: str) -> Outcome:
    """The mean of a figure of training over the last five steps that have it."""
    return lambda run: statistics.fmean(series(run, name)[-5:])


def evaluated(name: str) -> Outcome:
    """A figure of the last evaluation in training."""
    return lambda run: run["evaluations"][-1][name]


def area(run: Run) -> float:
    """Under held-out pass@1, by trapezoids, over the width."""
    steps = [row["step"] for row in run["evaluations"]]
    return float(np.trapezoid([row["pass@1"] for row in run["evaluations"]], steps)) / (steps[-1] - steps[0])


def rebound(run: Run) -> float:
    """The last mean of entropy over five steps minus the lowest."""
    means = np.lib.stride_tricks.sliding_window_view(series(run, "entropy"), 5).mean(axis=1)
    return float(means[-1] - means.min())


def solved(run: Run, most: float = 32) -> np.ndarray:
    """Right responses of 32 at the end, of the prompts that had at most so many at the start; hard ones had 3."""
    pairs = zip(run["solved"]["start"], run["solved"]["final"], strict=False)  # the end may have fewer prompts
    return np.array([after for before, after in pairs if before <= most])


def reached(run: Run) -> int | None:
    """The step of the first evaluation in training whose pass@1 is at least 0.40; None where there is none."""
    return next((int(row["step"]) for row in run["evaluations"] if row["step"] > 0 and row["pass@1"] >= 0.40), None)


OUTCOMES: Mapping[str, Outcome] = {
    "pass rate in training": lambda run: float(series(run, "reward").mean()),
    "area under pass@1": area,
    "pass@1 at the end": evaluated("pass@1"),
    "pass@16 at the end": evaluated("pass@16"),
    "entropy at the end": last("entropy"),
    "length at the end": last("length"),
    "rebound": rebound,
    "mean@32": lambda run: float(solved(run).mean()) / 32,
    "mean@32, hard prompts": lambda run: float(solved(run, 3).mean()) / 32,
    "pass@32": lambda run: float((solved(run) > 0).mean()),
    "pass@32, hard prompts": lambda run: float((solved(run, 3) > 0).mean()),
    "entropy of operations at the end": lambda run: last("operations")({"training": run}),
    "response length": lambda run: run["final"]["response_length"],
    "steps": lambda run: len(series(run, "entropy")),
    "pass@1": lambda run: run["final"]["pass@1"],
    "prompts until 0.40": lambda run: series(run, "prompts")[(reached(run) or 0) - 1],
    "runs that reach 0.40": lambda run: float(reached(run) is not None),
    "updates a step": lambda run: float(series(run, "updates").mean()),
    "prompts in all": lambda run: series(run, "prompts")[-1],
    "entropy": lambda run: run["final"]["entropy_response_mean"],
}
ARMS: Mapping[str, str] = {
    **{f"GTPO, alpha2 = {dose}": f"gtpo_{dose}" for dose in ("0", "0.1", "1", "3")},
    **{f"GTPO shuffled, alpha2 = {dose}": f"gtpo_shuffled_{dose}" for dose in ("1", "3")},
    **{f"GRPO-S, beta2 = {dose}": f"grpo_s_{dose}" for dose in ("0.1", "1")},
    "GRPO-S shuffled, beta2 = 1": "grpo_s_shuffled_1",
    "GTPO inverse, alpha2 = 0.1": "inverse_0.1",
    "GRPO": "grpo",
    "DAPO": "dapo",
    "DAPO w/ forking tokens": "dapo_forking",
    "Clip-Cov": "clip_cov",
    "KL-Cov": "kl_cov",
    "Entropy advantage": "entropy_advantage",
    "EDGE-GRPO": "edge",
    "Adaptive entropy bonus": "adaptive_entropy",
    "none (alpha2 = 0)": "none",
    "real": "real",
    "shuffled": "shuffled",
    "shuffled among pivotal tokens": "shuffled_pivots",
    "shuffled among the others": "shuffled_others",
    "the mean of 16 shuffles": "average",
    "pivotal or not": "indicator",
    "surprisal": "surprisal",
    "DAPO + M2": "dapo_m2",
    "supervised": "supervised",
    "M2's updates": "dapo_m2_updates",
}
"""An arm's name on the pages -> in its records."""
STUDIES: Mapping[str, tuple[str, int, Mapping[str, Outcome]]] = {
    "dose": ("entropy2.md", 51, {}),
    "traps": ("entropy2.md", 340, {}),
    "pivotal": ("entropy2.md", 195, {}),
    "pivotal_1": ("entropy2.md", 204, {}),
    "guide": ("entropy2.md", 160, {}),
    "entropy": ("entropy.md", 471, {"entropy at the end": evaluated("entropy")}),
}
"""A study -> its page, the number of its figures in tables.txt, and outcomes that it measures in its own way."""


def sample(runs: Sequence[Run], arm: str, outcome: Outcome) -> np.ndarray:
    """What intervals and tests are over: an arm's mean of each policy or, with one policy, its value of each seed."""
    found: dict[int, list[float]] = {}
    for run in runs:
        if run["arm"] == arm:
            found.setdefault(run.get("policy", run["seed"]), []).append(outcome(run))
    return np.array([statistics.fmean(found[unit]) for unit in sorted(found)])


def decimals(values: np.ndarray) -> int:
    """Of a mean and its interval: counts need fewer than rates."""
    return 1 if max(abs(values.mean()), half_width(values)) >= 10 else 4


def interval(values: np.ndarray, digits: int, sign: str = "") -> str:
    """A mean and half of its 95 % interval."""
    return f"{statistics.fmean(values):{sign}.{digits}f} ± {half_width(values):.{digits}f}"


def short(p: float) -> str:
    return f"{p:.3f}" if p >= 0.01 else f"{p:.2g}"


def family(pairs: Sequence[Sequence[np.ndarray]]) -> list[dict[str, str]]:
    """Tests that are corrected together, of the first arm of each pair minus the second: column -> cell."""
    plain = [student(one - other) for one, other in pairs]
    corrected = holm([1.0 if p is None else p for p in plain])
    found = []
    for (one, other), p, after in zip(pairs, plain, corrected, strict=True):
        gaps = one - other
        places = decimals(gaps)
        row = dict.fromkeys(("policies", "seeds"), str(len(gaps)))
        row["difference"] = f"**{interval(gaps, places, '+')}**" if after < LEVEL else interval(gaps, places, "+")
        row["p"] = "ceiling" if p is None else short(p)
        if p is not None:
            row |= {f"p, Holm of {len(pairs)}": short(after), "p, sign flip": short(sign_flip(gaps))}
            row |= {"p, Welch": short(welch(one, other)), "visible at 80 %": f"{visible(gaps, len(pairs)):.{places}f}"}
            row |= {f"p, equal within {bound}": short(equal(gaps, bound)) for bound in (0.02, 0.04)}
        found.append(row)
    return found


def computed(page: Table, runs: Sequence[Run], outcomes: Mapping[str, Outcome]) -> Table:
    """What a table of a page has to be: of tests, or of arms.

    Raises:
        KeyError: there is no arm or outcome of a name.
    """
    head, *body = page
    made = []
    if head[1] == "outcome":
        arms = [[ARMS[arm] for arm in row[0].split(" - ")] for row in body]
        pairs = [[sample(runs, arm, outcomes[row[1]]) for arm in pair] for pair, row in zip(arms, body, strict=True)]
        for row, test in zip(body, family(pairs), strict=True):
            made.append([*row[:2], *(test.get(column, "") for column in head[2:])])
        return [head, *made]
    for name, *_ in body:
        seconds = [run["seconds"] for run in runs if run["arm"] == ARMS[name]]
        samples = [sample(runs, ARMS[name], outcomes[outcome]) for outcome in head[2:-1]]
        means = [interval(values, decimals(values)) for values in samples]
        made.append([name, str(len(seconds)), *means, f"{statistics.median(seconds):.0f}"])
    return [head, *made]


def tables(text: str) -> list[Table]:
    """The tables of a page, without their lines of dashes."""
    found = re.findall(r"(?:^\|.*\n)+", text, re.M)
    read = [[[cell.strip() for cell in line[1:-1].split("|")] for line in one.splitlines()] for one in found]
    return [[head, *body] for head, _, *body in read]


def differences(page: Table, made: Table) -> Iterator[str]:
    """Cells of a page's table that are others than those computed."""
    for printed, row in zip(page, made, strict=True):
        for column, one, other in itertools.zip_longest(page[0], printed, row, fillvalue=""):
            if one != other:
                where = ", ".join([*printed[: 1 + page[0].count("outcome")], column])
                yield f"{where}: {one or 'nothing'} on the page, {other or 'nothing'} computed"


def shown(page: Table, made: Sequence[Table]) -> Iterator[str]:
    """Cells of a page's table, some rows and columns of a study's tables, that are others than those computed."""
    head, *body = page
    wider = [[dict(zip(whole[0], row, strict=True)) for row in whole[1:]] for whole in made if {*head} <= {*whole[0]}]
    names = head[: 1 + head.count("outcome")]
    for printed in (dict(zip(head, row, strict=True)) for row in body):
        named = [row for whole in wider for row in whole if all(row[name] == printed[name] for name in names)]
        if not any(printed.items() <= row.items() for row in named):
            where = ", ".join(printed[name] for name in names)
            found = " or ".join(", ".join(row[column] for column in head[len(names) :]) for row in named)
            yield f"{where}: {', '.join([*printed.values()][len(names) :])} on the page, {found or 'no row'} computed"


def part(file: Path, study: str) -> list[Table]:
    """The tables of a study in a file."""
    after = file.read_text(encoding="utf-8").partition(f"<!-- figures of {study} -->\n")[2]
    return tables(after.partition("<!-- end -->")[0])


def main() -> int:
    """Compare one study, or all; 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", nargs="?", choices=STUDIES, help="all of them by default")
    asked = parser.parse_args().study
    folders: dict[str, list[Run]] = {}
    with lzma.open(HERE / "records.jsonl.xz", "rt", encoding="utf-8") as file:
        for line in map(json.loads, file):
            folders.setdefault(line["folder"], []).append(line["record"])
    total, problems = 0, []
    for study in [asked] if asked else STUDIES:
        page, figures, own = STUDIES[study]
        runs, count, right = folders[f"studies/{study}"], 0, []
        for number, table in enumerate(part(HERE / "tables.txt", study), 1):
            try:
                made = computed(table, runs, {**OUTCOMES, **own})
            except KeyError as error:
                problems.append(f"{study}, table {number}: no arm and no outcome has the name {error}")
                continue
            right.append(made)
            problems += [f"{study}, table {number}, {one}" for one in differences(table, made)]
            texts = [cell for row in made[1:] for cell in row[1 + table[0].count("outcome") :]]
            count += sum(len(re.findall(r"\d[\d.]*(?:e-\d+)?", text)) for text in texts)
        if count != figures:
            problems.append(f"{study}: tables.txt has {count} figures of it, and not {figures}")
        rows = part(HERE / page, study)
        problems += [f"{page}, {one}" for table in rows for one in shown(table, right)]
        print(f"{study}: {count} figures of {len(runs)} runs, {sum(map(len, rows)) - len(rows)} rows in {page}")
        total += count
    print("".join(f"- {problem}\n" for problem in problems), end="")
    print(f"{total} figures, {len(problems)} differences" if problems else f"{total} figures, all agree")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
