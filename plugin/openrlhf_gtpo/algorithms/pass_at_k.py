"""Mean@n and Pass@k, without bias, with bootstrap confidence intervals over prompts."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["MeanAndInterval", "bootstrap", "pass_at_k"]

RESAMPLES = 2_000


@dataclass(frozen=True)
class MeanAndInterval:
    """A mean over prompts and the bounds of its confidence interval."""

    mean: float
    low: float
    high: float


def pass_at_k(n: int, c: int, k: int) -> float:
    """Probability that at least one of k responses is correct, estimated without bias from n responses of which c are
    correct: 1 - C(n - c, k) / C(n, k) (Chen et al., arXiv 2107.03374, Eq. 1). For k = 1 it is c / n, the mean.

    Args:
        n: responses.
        c: correct responses.
        k: from 1 to n.

    Raises:
        ValueError: there are fewer than k responses, or more correct ones than responses.
    """
    if not 0 <= c <= n or not 1 <= k <= n:
        raise ValueError(f"pass@{k} cannot be estimated from {n} responses of which {c} are correct")
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def bootstrap(values: Sequence[float], weights: Sequence[float] | None = None) -> MeanAndInterval:
    """The mean of one value per prompt, with its 95 % percentile bootstrap interval, which never depends on chance.

    Prompts are resampled, not responses: responses to one prompt are not independent, and another benchmark would have
    other prompts.

    Args:
        values: one number per prompt.
        weights: of the values, above 0; by default all equal.

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("a mean needs at least one prompt")
    n = len(values)
    weights = [1.0] * n if weights is None else weights
    pairs = [(value * weight, weight) for value, weight in zip(values, weights, strict=True)]
    source = random.Random(0)
    means = sorted(_mean(source.choices(pairs, k=n)) for _ in range(RESAMPLES))
    low, high = math.floor(0.025 * (RESAMPLES - 1)), math.ceil(0.975 * (RESAMPLES - 1))
    return MeanAndInterval(_mean(pairs), means[low], means[high])


def _mean(pairs: Sequence[tuple[float, float]]) -> float:
    """The weighted mean, from pairs of (value * weight, weight)."""
    return math.fsum(value for value, _ in pairs) / math.fsum(weight for _, weight in pairs)
