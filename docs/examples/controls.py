"""Controls for GTPO, whose formulas stay and whose weights are not the entropies:
--algo.advantage.estimator docs/examples/controls.py:NAME

Each puts other values in place of the tokens' entropies. What is proved of the formulas for any H, conservation
and bounds, therefore holds for every control. Arguments and result are those of docs/examples/shaping_function.py.
"""

import torch

from openrlhf_gtpo.algorithms.controls import permuted
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
    return _gtpo(permuted(entropy, mask, correct, group), mask, correct, reward, group)


def _gtpo(weights, mask, correct, reward, group):
    """GTPO with the paper's weights, 1 and 0.1, and other values in place of entropies."""
    penalty = reward - correct.to(reward.dtype)
    return gtpo(weights * mask, mask, correct, group, penalty=penalty if penalty.any() else None).advantages
