"""Entropy advantage (Cheng et al., arXiv 2506.14758): GRPO's advantage with a bounded bonus for entropy."""

import torch

from openrlhf_gtpo.algorithms.arguments import entropies_on_tokens
from openrlhf_gtpo.algorithms.estimators import Estimate, Rollouts, group_norm


def entropy_advantage(rollouts: Rollouts, alpha: float, kappa: float) -> Estimate:
    """A + min(alpha * H, |A| / kappa), with GRPO's advantage A and each token's entropy H in nats, without gradient.

    The bonus lengthens a positive advantage and shortens a negative one. With kappa above 1 no sign turns, and where A
    is 0 the bonus is 0.

    Args:
        rollouts: the batch.
        alpha: weight of the entropy, at least 0.
        kappa: the bonus is at most the advantage's size by this, above 1.

    Raises:
        ValueError: a reward is not finite, or an entropy is negative or no number.
    """
    grpo = group_norm(rollouts)
    on = rollouts.mask
    entropy = entropies_on_tokens(rollouts.entropy, rollouts.mask)[0]
    bound = grpo.advantages.abs() / kappa
    bonus = torch.minimum(alpha * entropy, bound) * on
    learning = on & (grpo.advantages != 0)
    metrics = {}
    if learning.any():
        metrics = {
            "entropy_advantage/bonus_mean": bonus[learning].mean().item(),
            "entropy_advantage/bounded_share": (alpha * entropy > bound)[learning].float().mean().item(),
        }
    return Estimate(grpo.advantages + bonus, grpo.returns, metrics=metrics)
