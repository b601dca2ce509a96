"""Comparisons over seeds, or over initial policies with some seeds each: Student's paired t, the exact sign-flip test
and Welch's t beside it, Holm's correction, and the smallest difference that some seeds can see. Pure functions of
numbers."""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath

Replicate = tuple[int, int]
"""An initial policy and a seed: what runs of different arms share."""


def tail(t: float, degrees: float) -> float:
    """The probability that Student's |t| exceeds this one."""
    x = degrees / (degrees + t * t)
    return float(mpmath.betainc(degrees / 2, 0.5, 0, x, regularized=True))


@functools.cache
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
    """The mean and half the width of its 95 % interval over the values; None for one of them."""
    if len(values) < 2:
        return values[0], None
    half = quantile(0.975, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return statistics.fmean(values), half


def units(values: Mapping[Replicate, float], by_policy: bool) -> dict[Any, float]:
    """What intervals and tests are over: each policy's mean over its seeds, or every replicate by itself.

    Runs that begin with one policy are alike in what that policy is, so their number says nothing of other policies.
    In the one-way random-effects model, difference = effect + policy's own + seed's own, with as many seeds for every
    policy, mean ± t(0.975, policies - 1) * sqrt(MS between policies / runs) is an exact interval for the effect
    (Scheffé 1959, The Analysis of Variance, chapter 7), and it is Student's interval over the policies' means. With
    unequal numbers of seeds the means differ in their variance, and it is an approximation.
    """
    if not by_policy:
        return dict(values)
    policies: dict[int, list[float]] = {}
    for (policy, _), value in values.items():
        policies.setdefault(policy, []).append(value)
    return {policy: statistics.fmean(mine) for policy, mine in policies.items()}


@dataclass(frozen=True)
class Components:
    """Standard deviations of what a value is made of; None where the values do not tell."""

    within: float | None
    """Of seeds with one policy: told where a policy has two seeds."""
    between: float | None
    """Of policies, without what their seeds add: told where there are two policies, too. 0 where seeds explain all."""

    def visible(self, policies: int, seeds: int, power: float = 0.8) -> float | None:
        """The smallest mean that a test at 0.05 finds with this power, over so many policies with so many seeds."""
        if self.within is None or self.between is None:
            return None
        deviation = math.sqrt(self.between**2 + self.within**2 / seeds)
        return Paired(0.0, deviation, policies, None, None, None).visible(power=power)


def components(values: Mapping[Replicate, float]) -> Components:
    """The components of variance by the analysis of variance: the mean square within policies is within^2, and that
    between policies within^2 + n0 * between^2, where n0 is the number of seeds or, where policies differ in it,
    (N - sum of n^2 / N) / (policies - 1) for N values (Searle, Casella and McCulloch 1992, Variance Components,
    chapter 3)."""
    means = units(values, by_policy=True)
    sizes = Counter(policy for policy, _ in values)
    freedom = len(values) - len(means)
    if not freedom:
        return Components(None, None)
    within = sum((value - means[policy]) ** 2 for (policy, _), value in values.items()) / freedom
    if len(means) < 2:
        return Components(math.sqrt(within), None)
    overall = statistics.fmean(values.values())
    between = sum(sizes[policy] * (mean - overall) ** 2 for policy, mean in means.items()) / (len(means) - 1)
    n0 = (len(values) - sum(size**2 for size in sizes.values()) / len(values)) / (len(means) - 1)
    return Components(math.sqrt(within), math.sqrt(max(0.0, (between - within) / n0)))


@dataclass(frozen=True)
class Paired:
    """The mean of differences between runs of the same seed or, over policies, of their means."""

    mean: float
    deviation: float
    """Standard deviation of one difference."""
    number: int
    """Of differences: of seeds, or of policies."""
    p: float | None
    """Of Student's paired t test, two-sided, which takes the differences as normal; None where they do not vary: then
    there is nothing to test."""
    flip: float | None
    """Of the exact sign-flip test, two-sided, which takes them as symmetric around 0 and no more."""
    welch: float | None
    """Of Welch's t test, two-sided, which takes the two arms as independent."""
    gaps: tuple[float, ...] = ()
    """The differences, where they are at hand."""

    @property
    def half(self) -> float:
        """Half the width of the 95 % interval."""
        return quantile(0.975, self.number - 1) * self.deviation / math.sqrt(self.number)

    def visible(self, level: float = 0.05, power: float = 0.8) -> float:
        """The smallest difference that a test at this level finds with this power, at this deviation."""
        quantiles = quantile(1 - level / 2, self.number - 1) + quantile(power, self.number - 1)
        return quantiles * self.deviation / math.sqrt(self.number)

    def equivalent(self, bound: float) -> float:
        """The p of two one-sided t tests (Schuirmann 1987) that the true difference lies outside ±`bound`: below 0.05
        it is shown to lie inside, which is so exactly where the 90 % interval does."""
        room = bound - abs(self.mean)
        if self.deviation == 0:
            return 0.0 if room > 0 else 1.0
        t = room / self.deviation * math.sqrt(self.number)
        one_sided = tail(t, self.number - 1) / 2
        return one_sided if room > 0 else 1 - one_sided


def paired(one: Mapping[Replicate, float], other: Mapping[Replicate, float], by_policy: bool = False) -> Paired | None:
    """The comparison of two arms by the replicates that both have; None for less than two differences.

    Args:
        one: replicate -> outcome.
        other: of the arm that is subtracted.
        by_policy: whether the differences are first averaged for each policy; see `units`.
    """
    shared = sorted(one.keys() & other.keys())
    mine, theirs = (units({key: arm[key] for key in shared}, by_policy) for arm in (one, other))
    gaps = [mine[key] - theirs[key] for key in mine]
    if len(gaps) < 2:
        return None
    mean, deviation = statistics.fmean(gaps), statistics.stdev(gaps)
    if deviation == 0:
        return Paired(mean, 0.0, len(gaps), None, None, None, tuple(gaps))
    t = mean / deviation * math.sqrt(len(gaps))
    apart = welch(list(mine.values()), list(theirs.values()))
    return Paired(mean, deviation, len(gaps), tail(t, len(gaps) - 1), sign_flip(gaps), apart, tuple(gaps))


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
