"""Controls for GTPO, whose formulas stay and whose weights are not the entropies:
--algo.advantage.estimator docs/examples/controls.py:NAME

Each puts other values in place of the tokens' entropies. What is proved of the formulas for any H, conservation
and bounds, therefore holds for every control. Arguments and result are those of docs/examples/shaping_function.py.
"""

import hashlib

import torch

from openrlhf_gtpo.shaping import gtpo

SMALLEST_ENTROPY = 1e-6
"""Nats. 1/H is that of an entropy of at least this, so that it stays finite."""


def uniform(entropy, logprob, mask, correct, reward, group):
    """Every token of a class gets the same share: what GTPO is without entropy."""
    return _gtpo(torch.ones_like(entropy), mask, correct, reward, group)


def surprisal(entropy, logprob, mask, correct, reward, group):
    """-log p of the token that was sampled, whose expectation is the entropy."""
    return _gtpo(-logprob.clamp(max=0), mask, correct, reward, group)


def inverse(entropy, logprob, mask, correct, reward, group):
    """1 / H: tokens of low entropy get most."""
    return _gtpo(1 / entropy.clamp(min=SMALLEST_ENTROPY), mask, correct, reward, group)


def shuffled(entropy, logprob, mask, correct, reward, group):
    """The entropies of other tokens of the same position, group and class."""
    (mixed,) = permuted([entropy], mask, correct, group)
    return _gtpo(mixed, mask, correct, reward, group)


def _gtpo(weights, mask, correct, reward, group):
    """GTPO with the paper's weights, 1 and 0.1, and other values in place of entropies."""
    penalty = reward - correct.to(reward.dtype)
    return gtpo(weights * mask, mask, correct, group, penalty=penalty if penalty.any() else None).advantages


def permuted(values, mask, correct, group):
    """Permute values among the tokens of the same position, group and class; what a token has in all tensors moves
    together. The batch's entropies decide the permutation, so a run repeats.

    Args:
        values: (N, T) each.
        mask: (N, T) bool.
        correct: (N,) bool.
        group: (N,) int.

    Returns:
        (N, T) each, 0 off the mask.
    """
    digest = hashlib.sha256(values[0][mask].numpy().tobytes()).digest()
    draw = torch.Generator().manual_seed(int.from_bytes(digest[:7], "little"))
    position = mask.cumsum(1) - 1  # of each token in its response
    cell = (2 * group + correct.long())[:, None] * mask.shape[1] + position  # (N, T) tokens that may change places
    cells, chance = cell[mask], torch.rand(int(mask.sum()), generator=draw, dtype=torch.float64)
    by_cell = cells.argsort(stable=True)
    by_chance = chance.argsort()
    by_chance = by_chance[cells[by_chance].argsort(stable=True)]  # cell after cell, in random order inside
    source = torch.empty_like(by_cell)
    source[by_cell] = by_chance
    return [torch.zeros_like(one).masked_scatter(mask, one[mask][source]) for one in values]
