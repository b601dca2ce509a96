"""Planned comparisons of a study's arms as tables: differences between runs of the same policy and seed with
intervals, tests, Holm's correction over a family of them, the smallest difference that could have been seen, and the
test of equality within a bound."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from inference import Paired, Replicate, holm, mean_and_half, paired, units
from openrlhf_gtpo.tables import markdown
from record import Record

Values = Mapping[str, Mapping[str, Mapping[Replicate, float]]]
"""Arm -> outcome -> replicate -> value."""


@dataclass(frozen=True)
class Family:
    """Comparisons that are corrected together."""

    title: str
    pairs: tuple[tuple[str, str], ...]
    """Arms; the second is subtracted from the first."""
    bound: float | None = None
    """Arms whose difference is shown to be smaller than this, in either direction, count as equal."""


CEILING = "ceiling"
"""In the place of a p where no run of either arm differs from the others."""
BOLD = "Bold: p below 0.05 after Holm's correction."
READ = (
    "How to read the tests. p: Student's t test of the differences between runs with the same seed, which takes them "
    "as normal. Holm: that p, corrected for the tests of its own table, ceilings included; nothing is corrected for "
    "the number of tables. Sign flip: exact, without normality; eight pairs can give no less than 0.0078, four no "
    "less than 0.125. Welch: the two arms as independent samples. Ceiling: both arms have the same value in every "
    "run, so there is nothing to test. Intervals are 95 % intervals, each by itself."
)
READ_POLICIES = (
    "Differences are those of runs with the same policy and seed, averaged for each policy; tests and intervals are "
    "over policies. p: Student's t test. Holm: that p, corrected for the tests of its own table. Sign flip: exact, "
    "without normality; six policies can give no less than 0.031, four no less than 0.125. Welch: the two arms as "
    "independent samples. Intervals are 95 % intervals, each by itself."
)


def by_replicate(records: Sequence[Record], outcomes: Callable[[Record], Mapping[str, float]]) -> Values:
    found: dict[str, dict[str, dict[Replicate, float]]] = {}
    for run in records:
        for name, value in outcomes(run).items():
            found.setdefault(run.arm, {}).setdefault(name, {})[run.replicate] = value
    return found


def levels(
    records: Sequence[Record], values: Values, names: Mapping[str, str], outcomes: Sequence[str], by_policy: bool
) -> str:
    """The table of all arms: the mean of each outcome with its interval."""
    rows = []
    for arm in (arm for arm in names if arm in values):
        seconds = [run.seconds for run in records if run.arm == arm]
        cells = []
        for outcome in outcomes:
            mean, half = mean_and_half(list(units(values[arm][outcome], by_policy).values()))
            places = 1 if abs(mean) >= 10 else 4
            cells.append(f"{mean:.{places}f}" + ("" if half is None else f" ± {half:.{places}f}"))
        rows.append([names[arm], len(seconds), *cells, f"{statistics.median(seconds):.0f}"])
    return markdown(["", "runs" if by_policy else "seeds", *outcomes, "seconds a run"], rows)


def compared(
    family: Family, values: Values, names: Mapping[str, str], outcomes: Sequence[str], by_policy: bool = False
) -> str:
    """A family's table, corrected for its number of tests; empty where no pair has two seeds or, with `by_policy`, two
    policies."""
    found: list[tuple[str, str, Paired]] = []
    for one, other in family.pairs:
        for outcome in outcomes:
            if one in values and other in values:
                result = paired(values[one][outcome], values[other][outcome], by_policy)
                if result is not None:
                    found.append((f"{names[one]} - {names[other]}", outcome, result))
    if not found:
        return ""
    # A test at the ceiling was planned and counts, as one that finds nothing.
    corrected = holm([1.0 if result.p is None else result.p for _, _, result in found])
    rows = []
    for (pair, outcome, result), p in zip(found, corrected, strict=True):
        gap = f"{result.mean:+.4f} ± {result.half:.4f}"
        tests: list[str] = [CEILING, *[""] * 4]
        if result.p is not None:
            seen = f"{result.visible(0.05 / len(found)):.4f}"
            tests = [small(result.p), small(p), small(result.flip), small(result.welch), seen]
        if family.bound is not None:
            tests.append(small(result.equivalent(family.bound)))
        rows.append([pair, outcome, result.number, f"**{gap}**" if p < 0.05 else gap, *tests])
    number = "policies" if by_policy else "seeds"
    head = ["", "outcome", number, "difference", "p", f"p, Holm of {len(found)}", "p, sign flip", "p, Welch"]
    head.append("visible at 80 %")
    if family.bound is not None:
        head.append(f"p, equal within {family.bound:g}")
    return f"\n{family.title}. {BOLD}\n\n{markdown(head, rows)}\n"


def small(p: float | None) -> str:
    return "" if p is None else f"{p:.3f}" if p >= 0.01 else f"{p:.2g}"
