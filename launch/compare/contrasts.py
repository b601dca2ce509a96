"""Planned comparisons of a study's arms: differences between runs of the same policy and seed with intervals, tests,
Holm's correction over a family of them, and the smallest difference that could have been seen; as rows, as a table and
as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from inference import Paired, Replicate, holm, paired

Values = Mapping[str, Mapping[str, Mapping[Replicate, float]]]
"""Arm -> outcome -> replicate -> value."""

Pair = tuple[str, str]
"""Arms; the second is subtracted from the first."""

CEILING = "ceiling"
"""In place of a p where no run of either arm differs from the others."""


@dataclass(frozen=True)
class Comparison:
    """One of a family that is corrected together, with its test."""

    pair: Pair
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


def comparisons(pairs: Sequence[Pair], values: Values, outcomes: Sequence[str]) -> list[Comparison]:
    """A family's comparisons, corrected for their number: of pairs whose arms both have the outcome in two
    replicates."""
    found: list[tuple[Pair, str, Paired]] = []
    for one, other in pairs:
        for outcome in outcomes:
            mine, theirs = (values.get(arm, {}).get(outcome, {}) for arm in (one, other))
            gap = paired(mine, theirs)
            if gap is not None:
                found.append(((one, other), outcome, gap))
    # A test at the ceiling was planned and counts, as one that finds nothing.
    corrected = holm([1.0 if gap.p is None else gap.p for _, _, gap in found])
    return [Comparison(*one, p, one[2].visible(0.05 / len(found))) for one, p in zip(found, corrected, strict=True)]


def table(found: Sequence[Comparison], names: Mapping[str, str]) -> tuple[list[str], list[list[str]]]:
    """A family's comparisons as a table's head and its rows.

    Args:
        found: of `comparisons`.
        names: arm -> its name.
    """
    rows = []
    for test in found:
        gap = test.gap
        tests: list[str] = [CEILING, *[""] * 3]
        if gap.p is not None:
            tests = [*map(small, (gap.p, test.p, gap.flip)), f"{test.visible:.{test.digits}f}"]
        pair = " - ".join(names[arm] for arm in test.pair)
        rows.append([pair, test.outcome, str(gap.number), test.difference(), *tests])
    tests = ["p", f"p, Holm of {len(found)}", "p, sign flip", "visible at 80 %"]
    return ["", "outcome", "pairs", "difference", *tests], rows


def picture(out: Path, tests: Sequence[Comparison], names: Mapping[str, str]) -> None:
    """Draw a panel for each outcome and in it a row for each comparison, in their order: every pair's difference, and
    their mean with its interval; nothing where there are none.

    Args:
        out: the picture's path.
        tests: the comparisons.
        names: arm -> its name.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    panels: dict[str, dict[Pair, Comparison]] = {}
    for test in tests:
        panels.setdefault(test.outcome, {})[test.pair] = test
    if not panels:
        return
    rows = max(map(len, panels.values()))
    size = (2.2 + 3.3 * len(panels), 0.9 + 0.34 * rows)
    figure, axes = plt.subplots(1, len(panels), figsize=size, layout="constrained", squeeze=False)
    for place, (outcome, mine) in zip(axes[0], panels.items(), strict=True):
        place.axvline(0, color="#888888", linewidth=0.8)
        for row, test in enumerate(mine.values()):
            colour = "#D55E00" if test.is_shown else "#0072B2"
            place.scatter(test.gap.gaps, [row + 0.2] * test.gap.number, s=9, color="#999999", linewidths=0)
            place.errorbar(test.gap.mean, row, xerr=test.gap.half, fmt="o", markersize=4, color=colour, capsize=2)
        labels = ["\u2212".join(f" {names[arm]} " for arm in pair).strip() for pair in mine]
        place.set_yticks(range(len(mine)), labels if place is axes[0][0] else [], fontsize=7)
        place.set_ylim(len(mine) - 0.5, -0.5)
        place.set_xlabel(f"difference in {outcome}", fontsize=8)
        place.tick_params(axis="x", labelsize=7)
        place.tick_params(axis="y", length=0)
        place.grid(axis="x", alpha=0.15)
        place.spines[["top", "right", "left"]].set_visible(False)
    figure.savefig(out, dpi=120, metadata={"Software": None})
    plt.close(figure)


def places(*values: float) -> int:
    """Decimals of figures that stand together: counts need fewer than rates."""
    return 1 if max(map(abs, values)) >= 10 else 4


def small(p: float | None) -> str:
    """A p for a table."""
    return "" if p is None else f"{p:.3f}" if p >= 0.01 else f"{p:.2g}"
