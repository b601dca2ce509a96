"""How far a step along each method's gradient raises what is wanted, from gradients of the same groups. Pure numpy.

For independent groups i with gradients g_i of a method and r_i, unbiased, of the expected reward (both 0 in groups
that teach nothing), a step of Adam moves coordinate j by E g_j / sqrt(E mean_B(g_j)^2), with B groups in an update, so
the reward rises by the sum over j of E r_j E g_j / sqrt(E mean_B(g_j)^2). A plain step of a given length raises it by
<E r, E g> / sqrt(E |mean_B(g)|^2). Products of two means are estimated from pairs i != j alone, which has no bias.

Intervals: groups get weights 1 + c u and 1 - c u with random signs u, all methods the same. The odd half of what that
changes has the variance of new groups, but counts what single pairs add twice, since u_i and u_j each bring it once;
the even half is that part alone, and intervals shrink by it. The bootstrap, which counts it three times, was 1.7 times
too wide where noise dominates."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

DRAWS = 250
SMALL = 0.3
"""c, by how much weights change."""
BLOCK = 1 << 14
"""Coordinates at once."""


@dataclass(frozen=True)
class Figure:
    """An estimate and its 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} ({self.low:.3f} to {self.high:.3f})"


@dataclass(frozen=True)
class Rise:
    """What a step of one method does to one target."""

    value: float
    odd: np.ndarray
    """(draws,) by how much each draw changes it, to first order."""
    even: np.ndarray
    """(draws,) to second order."""

    @classmethod
    def of(cls, values: np.ndarray) -> "Rise":
        """From its values (1 + 2 draws,) with all weights equal, with 1 + c u and with 1 - c u."""
        up, down = values[1:].reshape(2, -1)
        return cls(float(values[0]), (up - down) / 2 / SMALL, ((up + down) / 2 - values[0]) / SMALL**2)

    @property
    def is_positive(self) -> bool:
        """Whether its 95 % interval, one-sided, is above 0."""
        return self.value > 1.645 * float(np.std(self.odd))

    def over(self, other: "Rise") -> Figure:
        """The ratio to another method's, with its 95 % interval."""
        ratio = self.value / other.value
        odd, even = self.odd - ratio * other.odd, self.even - ratio * other.even
        shrink = np.sqrt(np.clip(1 - np.var(even) / max(float(np.var(odd)), 1e-30), 0.5, 1))
        draws = (self.value + shrink * self.odd) / (other.value + shrink * other.odd)
        low, high = np.percentile(draws, [2.5, 97.5])
        return Figure(ratio, float(low), float(high))


def rises(
    methods: Mapping[str, np.ndarray],
    targets: Mapping[str, np.ndarray],
    groups: int,
    batch: int,
    share: np.ndarray | None = None,
    *,
    adam: bool = True,
    draws: int = DRAWS,
    seed: int = 0,
) -> dict[str, dict[str, Rise]]:
    """The rise of each target by a step of each method, and its signal to noise: |E g|^2 over the variance of an
    update's mean gradient, for Adam in units of its steps.

    Args:
        methods: (n, K) float32 each, gradients of n groups at K coordinates; the other groups' are 0.
        targets: (n, K) each, gradients of what is wanted.
        groups: N, of which n have a gradient.
        batch: B, groups in an update.
        share: (K,) for how many coordinates each stands.
        adam: Adam's steps, or plain ones.
        draws: of the bootstrap.
        seed: of the draws.

    Returns:
        Method -> target, or "signal" -> its rise.
    """
    (n, width), source = next(iter(methods.values())).shape, np.random.default_rng(seed)
    signs = source.permuted(np.tile(np.arange(groups) % 2 * 2.0 - 1, (draws, 1)), axis=1)
    weights = np.vstack([np.ones((1, groups)), 1 + SMALL * signs, 1 - SMALL * signs])
    sums, pairs = (
        weights.sum(1, keepdims=True),
        weights.sum(1, keepdims=True) ** 2 - (weights**2).sum(1, keepdims=True),
    )
    w = (weights[:, :n] / sums).astype(np.float32)
    w2 = (weights[:, :n] ** 2 / pairs).astype(np.float32)
    over = (sums**2 / pairs).astype(np.float32)
    total = np.ones(width, dtype=np.float32) if share is None else share
    found = {name: {key: np.zeros(len(w)) for key in (*targets, "signal", "noise")} for name in methods}
    for begin in range(0, width, BLOCK):
        block = slice(begin, begin + BLOCK)
        wanted = {key: (one[:, block], w @ one[:, block] * over) for key, one in targets.items()}
        for name, gradients in methods.items():
            x, scale = gradients[:, block], total[block]
            mean, square = w @ x, w @ (x * x)
            mean2 = mean * mean * over - w2 @ (x * x)  # (E g_j)^2
            length = square / batch + (1 - 1 / batch) * np.maximum(mean2, 0)  # E mean_B(g_j)^2
            inverse = np.divide(scale, length, out=np.zeros_like(length), where=length > 0) if adam else scale
            root = np.sqrt(inverse * scale)
            found[name]["noise"] += ((square - mean2) * inverse).sum(1) / batch
            found[name]["signal"] += (mean2 * inverse).sum(1)
            for key, (r, of_r) in wanted.items():
                found[name][key] += ((mean * of_r - w2 @ (x * r)) * root).sum(1)
    return {name: _finished(one, adam) for name, one in found.items()}


def _finished(sums: dict[str, np.ndarray], adam: bool) -> dict[str, Rise]:
    signal, noise = sums.pop("signal"), np.maximum(sums.pop("noise"), 1e-30)
    length = 1.0 if adam else np.sqrt(np.maximum(noise + signal, 1e-30))
    return {**{key: Rise.of(values / length) for key, values in sums.items()}, "signal": Rise.of(signal / noise)}


def leave_one_out(correct: np.ndarray, k: int) -> np.ndarray:
    """(n,) coefficients of an unbiased gradient of pass@k: a response's is how much higher pass@k, estimated without
    bias (Chen et al., arXiv 2107.03374, Eq. 1), is with it than from the others alone.

    Args:
        correct: (n,) bool.
        k: below n.
    """
    from openrlhf_gtpo.algorithms.pass_at_k import pass_at_k

    n, right = len(correct), int(correct.sum())
    whole = pass_at_k(n, right, k)
    return np.array([whole - pass_at_k(n - 1, right - int(own), k) for own in correct])
