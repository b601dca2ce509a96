"""EDGE-GRPO's entropy-driven advantage (Zhang et al., arXiv 2507.21848): confident responses learn more."""

from collections.abc import Sequence

import torch

from openrlhf_gtpo.algorithms.arguments import entropies_on_tokens
from openrlhf_gtpo.algorithms.estimators import Estimate, Rollouts, group_norm
from openrlhf_gtpo.algorithms.groups import per_group

SMALLEST_ENTROPY = 1e-6
"""Nats. A response's mean entropy counts as at least this, so that the division stays finite."""


def edge(rollouts: Rollouts, clip: Sequence[float] | None) -> Estimate:
    """A_i / (P_i / mean of P over the group), with GRPO's advantage A_i and the response's mean entropy P_i.

    A confident correct response gains more than a hesitant one, and a confident wrong one loses more: on correct
    responses the opposite of GRPO-S. The paper's other half, Guided Error Correction, which writes reference answers
    into wrong responses, is not part of it.

    Args:
        rollouts: the batch. Responses without tokens have no entropy and count nowhere.
        clip: lowest and highest divisor, or None for the paper's, which has no bounds.

    Raises:
        ValueError: a reward is not finite, or an entropy is negative or no number.
    """
    grpo = group_norm(rollouts)
    entropy = entropies_on_tokens(rollouts.entropy, rollouts.mask)[0]
    length = rollouts.mask.sum(-1)
    present = length > 0
    mean_entropy = (entropy.sum(-1) / length.clamp(min=1)).clamp(min=SMALLEST_ENTROPY)  # (N,)
    _, group = rollouts.group.unique(return_inverse=True)
    total = per_group(mean_entropy * present, group)
    size = per_group(present.to(mean_entropy.dtype), group).clamp(min=1)
    divisor = torch.where(present, mean_entropy / (total / size)[group], 1.0)
    if clip is not None:
        divisor = divisor.clamp(*clip)
    metrics = {}
    if present.any():
        metrics = {
            "edge/divisor_min": divisor[present].min().item(),
            "edge/divisor_max": divisor[present].max().item(),
        }
    return Estimate(grpo.advantages / divisor[:, None], grpo.returns, metrics=metrics)
