"""--algo.advantage.estimator launch/compare/pivotal.py:pivotal --pivotal.weights NAME --pivotal.dose ALPHA2

GTPO with weights that pull its explanations apart: what of an effect is that pivotal tokens are set apart from the
others, what is which pivotal token has how much entropy, and what is noise. A pivotal token is one with more entropy
than `PIVOTAL`: so it is on the task `wordings`, where the first token of an operation has at least 2.08 nats, its
eight wordings, and the others have nearly none.
"""

from __future__ import annotations

import dataclasses

import torch

from openrlhf_gtpo.algorithms.estimators import Estimate, Rollouts, gtpo
from openrlhf_gtpo.algorithms.table import ESTIMATORS, Estimator, flag
from openrlhf_gtpo.algorithms.weights import SMALLEST_ENTROPY, in_place_of_entropy

PIVOTAL = 1.5
"""Nats."""
SHUFFLES = 16
WEIGHTS = {
    "entropy": "real",
    "shuffled": "shuffled",
    "shuffled_pivots": "shuffled among pivotal tokens",
    "shuffled_others": "shuffled among the others",
    "average": f"the mean of {SHUFFLES} shuffles",
    "indicator": "pivotal or not",
    "surprisal": "surprisal",
    "inverse": "inverse",
    "uniform": "none",
}


def weighed(kind: str, rollouts: Rollouts, pivotal: torch.Tensor) -> torch.Tensor:
    """(N, T) what takes the place of the entropies, 0 off the mask.

    ``shuffled_pivots`` and ``shuffled_others`` permute the entropies of one kind of token among that kind alone, at
    the same position, group and class; ``average`` has the shares of `SHUFFLES` permutations, averaged; ``indicator``
    has the mean entropy of pivotal tokens at those, and the mean of the others at the others; the rest is
    `in_place_of_entropy`.

    Args:
        kind: one of `WEIGHTS`.
        rollouts: the batch.
        pivotal: (N, T) bool, on the mask alone.
    """
    entropy, mask, correct, group = rollouts.entropy, rollouts.mask, rollouts.correct, rollouts.group
    assert correct is not None

    def other(kind: str, seed: int) -> torch.Tensor:
        return in_place_of_entropy(
            kind, entropy, rollouts.logprob, mask, correct, group, per_response=False, seed=seed
        )

    if kind == "average":
        # A share is a token's H (right responses) or 1/H (wrong ones) over a mean that no permutation changes.
        seeds = range(rollouts.seed, rollouts.seed + SHUFFLES)
        shuffled = torch.stack([other("shuffled", seed).clamp(min=SMALLEST_ENTROPY) for seed in seeds])
        return torch.where(correct[:, None], shuffled.mean(0), 1 / (1 / shuffled).mean(0)) * mask
    if kind == "indicator":
        others = mask & ~pivotal
        return torch.where(pivotal, entropy[pivotal].mean(), entropy[others].mean()) * mask
    if kind in ("shuffled_pivots", "shuffled_others"):
        return _shuffled_among(pivotal if kind == "shuffled_pivots" else mask & ~pivotal, rollouts)
    return other(kind, rollouts.seed)


def _shuffled_among(on: torch.Tensor, rollouts: Rollouts) -> torch.Tensor:
    """(N, T) the entropies, of which those of some tokens are permuted among them at one position, group and class."""
    assert rollouts.correct is not None
    position = rollouts.mask.cumsum(1) - 1
    cell = ((2 * rollouts.group + rollouts.correct)[:, None] * on.shape[1] + position)[on]
    chance = torch.randperm(len(cell), generator=torch.Generator().manual_seed(rollouts.seed))
    moved = torch.empty_like(rollouts.entropy[on])
    moved[cell.argsort(stable=True)] = rollouts.entropy[on][chance[cell[chance].argsort(stable=True)]]
    return rollouts.entropy.masked_scatter(on, moved)


def pivotal(rollouts: Rollouts, weights: str, dose: float) -> Estimate:
    """GTPO's advantages (arXiv 2508.04349, Eq. 6) with these weights in the place of the entropies."""
    values = weighed(weights, rollouts, rollouts.mask & (rollouts.entropy > PIVOTAL))
    return gtpo(dataclasses.replace(rollouts, entropy=values), alpha2=dose)


ESTIMATORS["pivotal"] = Estimator(
    "GTPO by pivotal tokens",
    "GTPO with controls that tell pivotal tokens from the others",
    f"{__name__}:pivotal",
    flags=(
        flag("pivotal.weights", "what stands for the entropies", choices=tuple(WEIGHTS), default="entropy"),
        flag(
            "pivotal.dose",
            "weight of entropy (default: 1)",
            (lambda dose: dose >= 0, "a weight is a number from 0 up"),
            type=float,
            default=1.0,
        ),
    ),
)
