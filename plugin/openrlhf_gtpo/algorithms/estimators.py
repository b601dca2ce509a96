"""The estimators of our `table`: functions that turn `Rollouts` and options into an `Estimate` with advantages."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from openrlhf_gtpo import shaping
from openrlhf_gtpo.algorithms import mixed_policy

__all__ = ["Estimate", "Rollouts", "group_norm", "grpo_s", "gtpo"]


@dataclass(frozen=True, eq=False)
class Rollouts:
    """A rollout batch as an estimator sees it: N responses, T token columns."""

    entropy: torch.Tensor
    """(N, T) float, nats, of the distribution that each token was sampled from; 0 off the mask."""
    logprob: torch.Tensor
    """(N, T) float, the log-probability of each token in that distribution; 0 off the mask."""
    mask: torch.Tensor
    """(N, T) bool, True on the responses' tokens."""
    correct: torch.Tensor | None
    """(N,) bool, verified correctness; None where an estimator does not need it and the scores are not binary."""
    group: torch.Tensor
    """(N,) int, which prompt each response answers."""
    reward: torch.Tensor
    """(N,) float, with every penalty."""
    penalty: torch.Tensor
    """(N,) float, the part of the reward that is penalties (length, overlong punishment)."""
    reward_clip: tuple[float, float] = (-torch.inf, torch.inf)
    """OpenRLHF's bounds of a normalised reward (``--reward.clip_range``)."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """What an estimator returns."""

    advantages: torch.Tensor
    """(N, T) float, 0 off the mask."""
    returns: torch.Tensor
    """(N,) float, each response's return, for the log."""
    shaped_rewards: torch.Tensor | None = None
    """(N, T) float, where the estimator shapes rewards token by token."""


def _shape(
    shape: Callable[..., shaping.Shaped], rollouts: Rollouts, entropy_clip: Any = None, **options: Any
) -> Estimate:
    shaped = shape(
        rollouts.entropy,
        rollouts.mask,
        rollouts.correct,
        rollouts.group,
        entropy_clip=None if entropy_clip is None else tuple(entropy_clip),
        penalty=rollouts.penalty if rollouts.penalty.any() else None,
        **options,
    )
    length = rollouts.mask.sum(-1).clamp(min=1)
    return Estimate(shaped.advantages, shaped.rewards.sum(-1) / length, shaped.rewards)


def gtpo(rollouts: Rollouts, **options: Any) -> Estimate:
    """GTPO: tokens share their class's reward by their entropy (arXiv 2508.04349, Eq. 3, 5 and 6).

    Args:
        rollouts: the batch.
        options: of `openrlhf_gtpo.shaping.gtpo`.

    Raises:
        ValueError: an entropy is negative or no number, or an option is out of its bounds.
    """
    return _shape(shaping.gtpo, rollouts, **options)


def grpo_s(rollouts: Rollouts, **options: Any) -> Estimate:
    """GRPO-S: responses share their class's reward by their mean entropy (arXiv 2508.04349, Eq. 8 and 9).

    Args:
        rollouts: the batch.
        options: of `openrlhf_gtpo.shaping.grpo_s`.

    Raises:
        ValueError: an entropy is negative or no number, or an option is out of its bounds.
    """
    return _shape(shaping.grpo_s, rollouts, **options)


def group_norm(rollouts: Rollouts) -> Estimate:
    """GRPO: reward minus the group's mean, divided by its standard deviation (arXiv 2402.03300); groups of any size.

    Args:
        rollouts: the batch.

    Raises:
        ValueError: a reward is not finite.
    """
    advantages = mixed_policy.group_norm(rollouts.reward, rollouts.group).clamp(*rollouts.reward_clip)
    return Estimate(advantages[:, None] * rollouts.mask, advantages)
