"""Comparisons over seeds: Student's paired t, the exact sign-flip test and Welch's t beside it, Holm's correction, and
the smallest difference that some seeds can see. Pure functions of numbers."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import mpmath


def tail(t: float, degrees: float) -> float:
    """The probability that Student's |t| exceeds this one."""
    x = degrees / (degrees + t * t)
    return float(mpmath.betainc(degrees / 2, 0.5, 0, x, regularized=True))


def quantile(probability: float, degrees: int) -> float:
    """Student's t below which this share of the distribution lies, for a probability of at least a half."""
    if not 0.5 <= probability < 1:
        raise ValueError(f"the probability of a quantile has to be from 0.5 to 1, not {probability}")
    low, high = 0.0, 1.0
    while tail(high, degrees) > 2 * (1 - probability):
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle, degrees) > 2 * (1 - probability) else (low, middle)
    return high


def mean_and_half(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean and half the width of its 95 % interval over seeds; None for one seed."""
    if len(values) < 2:
        return values[0], None
    half = quantile(0.975, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return statistics.fmean(values), half


@dataclass(frozen=True)
class Paired:
    """The mean of differences between runs of the same seed."""

    mean: float
    deviation: float
    """Standard deviation of one difference."""
    seeds: int
    p: float | None
    """Of Student's paired t test, two-sided, which takes the differences as normal; None where they do not vary: then
    there is nothing to test."""
    flip: float | None
    """Of the exact sign-flip test, two-sided, which takes them as symmetric around 0 and no more."""
    welch: float | None
    """Of Welch's t test, two-sided, which takes the two arms as independent."""

    @property
    def half(self) -> float:
        """Half the width of the 95 % interval."""
        return quantile(0.975, self.seeds - 1) * self.deviation / math.sqrt(self.seeds)

    def visible(self, level: float = 0.05, power: float = 0.8) -> float:
        """The smallest difference that a test at this level finds with this power, at this deviation."""
        quantiles = quantile(1 - level / 2, self.seeds - 1) + quantile(power, self.seeds - 1)
        return quantiles * self.deviation / math.sqrt(self.seeds)


def paired(one: Mapping[int, float], other: Mapping[int, float]) -> Paired | None:
    """The comparison of two arms by the seeds that both have; None for less than two.

    Args:
        one: seed -> outcome.
        other: of the arm that is subtracted.
    """
    seeds = sorted(one.keys() & other.keys())
    gaps = [one[seed] - other[seed] for seed in seeds]
    if len(gaps) < 2:
        return None
    mean, deviation = statistics.fmean(gaps), statistics.stdev(gaps)
    if deviation == 0:
        return Paired(mean, 0.0, len(gaps), None, None, None)
    t = mean / deviation * math.sqrt(len(gaps))
    apart = welch([one[seed] for seed in seeds], [other[seed] for seed in seeds])
    return Paired(mean, deviation, len(gaps), tail(t, len(gaps) - 1), sign_flip(gaps), apart)


MOST_FLIPPED = 16
"""Differences whose signs are all tried: 65,536 sums."""


def sign_flip(gaps: Sequence[float]) -> float | None:
    """The share of all choices of signs for which the sum is at least as far from 0: at least 2 / 2^n for n
    differences. None above `MOST_FLIPPED` of them."""
    if len(gaps) > MOST_FLIPPED:
        return None
    seen = abs(math.fsum(gaps)) * (1 - 1e-12)  # sums that are equal but for rounding count as equal
    sums = (
        math.fsum(sign * gap for sign, gap in zip(signs, gaps, strict=True))
        for signs in itertools.product((1, -1), repeat=len(gaps))
    )
    return statistics.fmean(abs(total) >= seen for total in sums)


def welch(one: Sequence[float], other: Sequence[float]) -> float:
    """The p of Welch's t test for two samples that do not both lack variance (Welch 1947; degrees of Satterthwaite
    1946)."""
    parts = [statistics.variance(sample) / len(sample) for sample in (one, other)]
    squares = [part**2 / (len(sample) - 1) for part, sample in zip(parts, (one, other), strict=True)]
    t = (statistics.fmean(one) - statistics.fmean(other)) / math.sqrt(sum(parts))
    return tail(t, sum(parts) ** 2 / sum(squares))


def holm(values: Sequence[float]) -> list[float]:
    """P-values corrected for their number (Holm 1979), in the order in which they came."""
    corrected = [0.0] * len(values)
    highest = 0.0
    for rank, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        highest = max(highest, min(1.0, (len(values) - rank) * values[place]))
        corrected[place] = highest
    return corrected


def area(points: Sequence[tuple[float, float]]) -> float:
    """The area under a curve by the trapezoid rule, divided by the width: a mean over the steps."""
    if len(points) < 2:
        raise ValueError("an area needs two points of the curve")
    pairs = itertools.pairwise(points)
    total = sum((right[0] - left[0]) * (left[1] + right[1]) / 2 for left, right in pairs)
    return total / (points[-1][0] - points[0][0])
