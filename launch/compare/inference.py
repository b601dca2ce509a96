"""Comparisons of arms by the runs that share an initial policy and a seed: Student's paired t, the exact sign-flip
test beside it, Holm's correction, and the smallest difference that so many pairs can see. Pure functions of numbers.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy import stats

Replicate = tuple[int, int]
"""An initial policy and a seed: what runs of different arms share."""


def quantile(probability: float, degrees: int) -> float:
    """Student's t below which this share of the distribution lies."""
    return float(stats.t.ppf(probability, degrees))


def mean_and_half(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean and half the width of its 95 % interval over the values; None for one of them."""
    if len(values) < 2:
        return values[0], None
    half = quantile(0.975, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return statistics.fmean(values), half


@dataclass(frozen=True)
class Paired:
    """The mean of differences between runs of the same replicate."""

    mean: float
    deviation: float
    """Standard deviation of one difference."""
    p: float | None
    """Of Student's paired t test, two-sided, which takes the differences as normal; None where they do not vary: then
    there is nothing to test."""
    flip: float | None
    """Of the exact sign-flip test, two-sided, which takes them as symmetric around 0 and no more."""
    gaps: tuple[float, ...]
    """The differences."""

    @property
    def number(self) -> int:
        """Of differences."""
        return len(self.gaps)

    @property
    def half(self) -> float:
        """Half the width of the 95 % interval."""
        return quantile(0.975, self.number - 1) * self.deviation / math.sqrt(self.number)

    def visible(self, level: float = 0.05, power: float = 0.8) -> float:
        """The smallest difference that a test at this level finds with this power, at this deviation."""
        quantiles = quantile(1 - level / 2, self.number - 1) + quantile(power, self.number - 1)
        return quantiles * self.deviation / math.sqrt(self.number)


def paired(one: Mapping[Replicate, float], other: Mapping[Replicate, float]) -> Paired | None:
    """The comparison of two arms by the replicates that both have; None for less than two of them.

    Args:
        one: replicate -> outcome.
        other: of the arm that is subtracted.
    """
    shared = sorted(one.keys() & other.keys())
    gaps = tuple(one[key] - other[key] for key in shared)
    if len(gaps) < 2:
        return None
    mean, deviation = statistics.fmean(gaps), statistics.stdev(gaps)
    if deviation == 0:
        return Paired(mean, 0.0, None, None, gaps)
    p = float(stats.ttest_1samp(gaps, 0.0).pvalue)
    return Paired(mean, deviation, p, sign_flip(gaps), gaps)


MOST_FLIPPED = 16
"""Differences whose signs are all tried: 65,536 sums."""


def sign_flip(gaps: Sequence[float]) -> float | None:
    """The share of all choices of signs for which the sum is at least as far from 0: at least 2 / 2^n for n
    differences. None above `MOST_FLIPPED` of them."""
    if len(gaps) > MOST_FLIPPED:
        return None
    # Sums that are equal but for rounding count as equal, a sum of 0 too.
    seen = abs(math.fsum(gaps)) - 1e-12 * math.fsum(map(abs, gaps))
    sums = (
        math.fsum(sign * gap for sign, gap in zip(signs, gaps, strict=True))
        for signs in itertools.product((1, -1), repeat=len(gaps))
    )
    return statistics.fmean(abs(total) >= seen for total in sums)


def holm(values: Sequence[float]) -> list[float]:
    """P-values corrected for their number (Holm 1979), in the order in which they came."""
    corrected = [0.0] * len(values)
    highest = 0.0
    for rank, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        highest = max(highest, min(1.0, (len(values) - rank) * values[place]))
        corrected[place] = highest
    return corrected
