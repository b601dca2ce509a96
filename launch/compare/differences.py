"""The picture of a study's planned comparisons: the difference of each initial policy, and their mean with its
interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from contrasts import Comparison


def picture(out: Path, tests: Sequence[Comparison], names: Mapping[str, str]) -> None:
    """Draw a panel for each outcome and in it a row for each comparison, in their order; nothing where there are none.

    Args:
        out: the picture's path.
        tests: one that stands in two families is drawn once, by the first.
        names: arm -> its name.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    panels: dict[str, dict[tuple[str, str], Comparison]] = {}
    for test in tests:
        panels.setdefault(test.outcome, {}).setdefault(test.pair, test)
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
