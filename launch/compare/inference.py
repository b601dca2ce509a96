"""Paired comparisons over seeds: Student's t, Holm's correction, and the smallest difference that some seeds can see.
Pure functions of numbers."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import mpmath


def tail(t: float, degrees: int) -> float:
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


@dataclass(frozen=True)
class Paired:
    """The mean of differences between runs of the same seed."""

    mean: float
    deviation: float
    """Standard deviation of one difference."""
    seeds: int
    p: float
    """Of Student's paired t test, two-sided."""

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
    gaps = [one[seed] - other[seed] for seed in sorted(one.keys() & other.keys())]
    if len(gaps) < 2:
        return None
    mean, deviation = statistics.fmean(gaps), statistics.stdev(gaps)
    if deviation == 0:
        return Paired(mean, 0.0, len(gaps), 1.0 if mean == 0 else 0.0)
    return Paired(mean, deviation, len(gaps), tail(mean / deviation * math.sqrt(len(gaps)), len(gaps) - 1))


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
