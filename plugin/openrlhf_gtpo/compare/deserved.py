"""What tokens deserve, A_t = V_t - V_(t-1), from the values of prefixes. Pure numpy.

Values have noise, so A^2 is estimated by the product of two independent halves, and what is linear in A by their mean.
Where tokens were chosen, each stands for 1 / its probability of that. Intervals: bootstrap over prompts, all figures
on the same draws."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from openrlhf_gtpo.compare.rises import Figure

DRAWS = 2000
BINS = 2000
"""A ranking is cut into so many parts, so that draws of the bootstrap cost little."""
EDGES = (0, 0.01, 0.1, 0.5, 1, 2, np.inf)
"""Of entropy, in nats."""


@dataclass(frozen=True, eq=False)
class Tokens:
    """The n tokens of all responses, (n,) each but ``worth``."""

    prompt: np.ndarray  # int from 0
    right: np.ndarray  # bool, of its response
    position: np.ndarray  # int from 0, in its response
    entropy: np.ndarray  # nats
    logprob: np.ndarray  # nats
    worth: np.ndarray  # (4, n) A by four independent sets of draws; where a token was not chosen any finite number
    weight: np.ndarray  # 1 / the probability with which it was chosen, 0 where it was not
    gradient: np.ndarray  # |e - p|^2 = 1 - 2 p(token) + sum p^2, the squared gradient of its logprob by the logits

    @cached_property
    def halves(self) -> np.ndarray:
        """(2, n) A."""
        return self.worth.reshape(2, 2, -1).mean(1)

    @cached_property
    def draws(self) -> np.ndarray:
        """(1 + DRAWS, prompts) how often a draw has each prompt; the first is the data themselves."""
        n = int(self.prompt.max()) + 1
        return np.stack([np.ones(n), *np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), DRAWS)])

    def sums(self, values: np.ndarray, cell: np.ndarray | int = 0, cells: int = 1) -> np.ndarray:
        """(1 + DRAWS, cells) for each draw the sum of values, (n,), over each cell's tokens."""
        n = self.draws.shape[1]
        return self.draws @ np.bincount(self.prompt * cells + cell, values, n * cells).reshape(n, cells)


def figure(values: np.ndarray) -> Figure:
    """The estimate of (1 + DRAWS,), with the interval of the draws in which it has a meaning (is no NaN)."""
    known = values[~np.isnan(values)]
    low, high = np.percentile(known, [2.5, 97.5]) if known.size else (np.nan, np.nan)
    return Figure(float(values[0]), float(low), float(high))


def captured(tokens: Tokens, key: np.ndarray, square: np.ndarray, count: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """(1 + DRAWS, shares) how much of the sum of A^2 is in the top share of tokens.

    Args:
        tokens: of which there are n.
        key: (n,) ranks them, highest first, ties by chance.
        square: (n,) estimates of A^2.
        count: (n,) for how many tokens each stands.
        shares: of all tokens, from 0 to 1.
    """
    n = len(key)
    bins, cell = min(BINS, n), np.empty(n, int)
    cell[np.lexsort((np.random.default_rng(1).random(n), -key))] = np.arange(n) * min(BINS, n) // n
    upto = [np.pad(np.cumsum(tokens.sums(one, cell, bins), 1), ((0, 0), (1, 0))) for one in (count, square)]
    wanted = tokens.sums(np.ones(n)) * shares
    return np.stack([np.interp(x, counts, found) / found[-1] for x, counts, found in zip(wanted, *upto, strict=True)])


def rankings(tokens: Tokens, shares: np.ndarray) -> dict[str, np.ndarray]:
    """Ranking -> `captured`. The best possible one has bounds: what one half ranks and the other squares loses by the
    noise of the ranking; what both halves rank and square gains by it."""
    (one, other), weight, every = tokens.halves, tokens.weight, np.ones(len(tokens.weight))
    least = [
        captured(tokens, abs(half), weight * tokens.worth[i] * tokens.worth[i + 1], weight, shares)
        for half, i in ((one, 2), (other, 0))
    ]
    keys = {"entropy": tokens.entropy, "surprisal": -tokens.logprob, "position": -tokens.position}
    return {
        **{name: captured(tokens, key, weight * one * other, every, shares) for name, key in keys.items()},
        "best, at least": (least[0] + least[1]) / 2,
        "best, at most": captured(tokens, abs(one + other), weight * one * other, weight, shares),
    }


def by_entropy(tokens: Tokens, values: np.ndarray, right: bool) -> list[Figure]:
    """The mean of values, (n,), in each bin of entropy, in right or wrong responses; NaN where there are no tokens."""
    cell, bins = np.digitize(tokens.entropy, EDGES[1:-1]), len(EDGES) - 1
    these = (tokens.right == right).astype(float)
    with np.errstate(invalid="ignore"):
        means = tokens.sums(values * these, cell, bins) / tokens.sums(these, cell, bins)
    return [figure(column) for column in means.T]


def explained(tokens: Tokens, credits: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Of each estimator (1 + DRAWS,) the share of true credit that it explains: cos^2 between its credits, (n,), and
    A, tokens weighted by their gradient; 1 less the squared distance that is left at the best scale."""
    (one, other), weight, found = tokens.halves, tokens.weight * tokens.gradient, {}
    truth = tokens.sums(weight * one * other)
    for name, credit in credits.items():
        along = tokens.sums(weight * credit * one) * tokens.sums(weight * credit * other)
        whole = tokens.sums(weight * credit**2) * truth
        found[name] = np.divide(along, whole, out=np.zeros_like(along), where=whole > 0)[:, 0]
    return found
