"""Two rivals of GTPO as functions of tensors: --algo.advantage.estimator docs/examples/rivals.py:NAME

Arguments and result are those of docs/examples/shaping_function.py; A is GRPO's advantage, H an entropy in nats.
"""

import torch

from openrlhf_gtpo.algorithms.estimators import normalised_in_groups

SMALLEST_ENTROPY = 1e-6
"""Nats. A response's mean entropy counts as at least this, so that the division stays finite."""


def entropy_advantage(entropy, logprob, mask, correct, reward, group, alpha=0.4, kappa=2.0):
    """Cheng et al., arXiv 2506.14758: GRPO's advantage with a bounded bonus for entropy.

        A_t = A + min(alpha * H_t, |A| / kappa)

    The bonus lengthens a positive advantage and shortens a negative one. With kappa above 1 no sign turns.
    """
    advantage = normalised_in_groups(reward, group)[:, None] * mask
    return advantage + torch.minimum(alpha * entropy, advantage.abs() / kappa) * mask


def edge(entropy, logprob, mask, correct, reward, group):
    """EDGE-GRPO's entropy-driven advantage (Zhang et al., arXiv 2507.21848): confident responses learn more.

        A_i / (P_i / mean of P over the group), with the response's mean entropy P_i

    A confident correct response gains more than a hesitant one, and a confident wrong one loses more: on correct
    responses the opposite of GRPO-S. The paper's other half, Guided Error Correction, is not part of it.
    """
    length = mask.sum(-1)
    present = length > 0
    mean_entropy = ((entropy * mask).sum(-1) / length.clamp(min=1)).clamp(min=SMALLEST_ENTROPY)
    divisor = torch.ones_like(mean_entropy)
    for prompt in group.unique():
        own = present & (group == prompt)
        divisor[own] = mean_entropy[own] / mean_entropy[own].mean()
    return (normalised_in_groups(reward, group) / divisor)[:, None] * mask
