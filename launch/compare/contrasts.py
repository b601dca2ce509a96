"""Planned comparisons of a study's arms as tables: differences between runs of the same policy and seed with
intervals, tests, Holm's correction over a family of them, the smallest difference that could have been seen, and the
test of equality within a bound."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

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


def write(
    out: Path,
    records: Sequence[Record],
    outcomes: Callable[[Record], Mapping[str, float]],
    names: Mapping[str, str],
    shown: Sequence[str],
    families: Sequence[tuple[Family, Sequence[str]]],
    read: str = READ_POLICIES,
) -> str:
    """Write table.md with all tables of a study: its arms, how to read them, and each family with its outcomes.

    Args:
        out: folder of table.md.
        records: that can be compared.
        outcomes: of a run, by name.
        names: arm -> its name, in the order of the first table.
        shown: outcomes of the first table.
        families: with the outcomes that each is tested in.
        read: what stands below the first table.

    Returns:
        The tables, as Markdown.
    """
    values = by_replicate(records, outcomes)
    by_policy = len({run.policy for run in records}) > 1
    text = f"{levels(records, values, names, shown, by_policy)}\n\n{read}\n"
    text += "".join(compared(family, values, names, of, by_policy) for family, of in families)
    (out / "table.md").write_text(text, encoding="utf-8")
    return text


def planned(
    records: Sequence[Record],
    outcomes: Callable[[Record], Mapping[str, float]],
    families: Sequence[tuple[Family, Sequence[str]]],
) -> list[Comparison]:
    """The comparisons of `write`, over policies."""
    values = by_replicate(records, outcomes)
    return [test for family, of in families for test in comparisons(family, values, of, by_policy=True)]


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
            digits = places(mean, half or 0.0)
            cells.append(f"{mean:.{digits}f}" + ("" if half is None else f" ± {half:.{digits}f}"))
        rows.append([names[arm], len(seconds), *cells, f"{statistics.median(seconds):.0f}"])
    return markdown(["", "runs" if by_policy else "seeds", *outcomes, "seconds a run"], rows)


@dataclass(frozen=True)
class Comparison:
    """One of a family, with its test."""

    pair: tuple[str, str]
    """Arms; the second is subtracted from the first."""
    outcome: str
    gap: Paired
    p: float
    """After Holm's correction; 1 at the ceiling."""
    visible: float
    """The smallest difference that the test finds with 80 % power, at a level of 0.05 by the number of tests."""

    @property
    def is_shown(self) -> bool:
        return self.p < 0.05

    @property
    def digits(self) -> int:
        """Decimals of the difference, and of what stands beside it in its unit."""
        return places(self.gap.mean, self.gap.half)

    def difference(self, digits: int | None = None) -> str:
        """The difference with its 95 % interval, bold where it is shown."""
        digits = self.digits if digits is None else digits
        text = f"{self.gap.mean:+.{digits}f} ± {self.gap.half:.{digits}f}"
        return f"**{text}**" if self.is_shown else text


def comparisons(family: Family, values: Values, outcomes: Sequence[str], by_policy: bool) -> list[Comparison]:
    """A family's comparisons, corrected for their number: of pairs whose arms both have the outcome, with two seeds
    or, with `by_policy`, two policies."""
    found: list[tuple[tuple[str, str], str, Paired]] = []
    for one, other in family.pairs:
        for outcome in outcomes:
            mine, theirs = (values.get(arm, {}).get(outcome, {}) for arm in (one, other))
            gap = paired(mine, theirs, by_policy)
            if gap is not None:
                found.append(((one, other), outcome, gap))
    # A test at the ceiling was planned and counts, as one that finds nothing.
    corrected = holm([1.0 if gap.p is None else gap.p for _, _, gap in found])
    return [Comparison(*one, p, one[2].visible(0.05 / len(found))) for one, p in zip(found, corrected, strict=True)]


def compared(
    family: Family, values: Values, names: Mapping[str, str], outcomes: Sequence[str], by_policy: bool = False
) -> str:
    """A family's table, as `comparisons` has its rows; empty where it has none."""
    found = comparisons(family, values, outcomes, by_policy)
    if not found:
        return ""
    rows = []
    for test in found:
        gap = test.gap
        tests: list[str] = [CEILING, *[""] * 4]
        if gap.p is not None:
            tests = [small(gap.p), small(test.p), small(gap.flip), small(gap.welch)]
            tests.append(f"{test.visible:.{test.digits}f}")
        if family.bound is not None:
            tests.append(small(gap.equivalent(family.bound)))
        pair = " - ".join(names[arm] for arm in test.pair)
        rows.append([pair, test.outcome, gap.number, test.difference(), *tests])
    number = "policies" if by_policy else "seeds"
    head = ["", "outcome", number, "difference", "p", f"p, Holm of {len(found)}", "p, sign flip", "p, Welch"]
    head.append("visible at 80 %")
    if family.bound is not None:
        head.append(f"p, equal within {family.bound:g}")
    return f"\n{family.title}. {BOLD}\n\n{markdown(head, rows)}\n"


def places(*values: float) -> int:
    """Decimals of figures that stand together: counts need fewer than rates."""
    return 1 if max(map(abs, values)) >= 10 else 4


def small(p: float | None) -> str:
    return "" if p is None else f"{p:.3f}" if p >= 0.01 else f"{p:.2g}"
