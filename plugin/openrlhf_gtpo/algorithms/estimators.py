"""The estimators of our `table`: functions that turn `Rollouts` and options into an `Estimate` with advantages."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from openrlhf_gtpo import shaping
from openrlhf_gtpo.algorithms import group_norm as grpo
from openrlhf_gtpo.algorithms.weights import correlation, in_place_of_entropy


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
    """(N,) int from 0, which prompt each response answers. A group may have any size, 1 too."""
    reward: torch.Tensor
    """(N,) float, with every penalty."""
    penalty: torch.Tensor
    """(N,) float, the part of the reward that is penalties (length, overlong punishment)."""
    reward_clip: tuple[float, float] = (-torch.inf, torch.inf)
    """OpenRLHF's bounds of a normalised reward (``--reward.clip_range``), for `group_norm`, which is OpenRLHF's."""
    seed: int = 0
    """Of whatever is drawn for this batch: another one at each step of a run, the same one when a step is repeated."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """What an estimator returns."""

    advantages: torch.Tensor
    """(N, T) float, 0 off the mask."""
    returns: torch.Tensor
    """(N,) float, each response's return, for the log."""
    shaped_rewards: torch.Tensor | None = None
    """(N, T) float, where the estimator shapes rewards token by token."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """What it has to log of this batch, by names that `openrlhf_gtpo.glossary` describes."""
    for_loss: Mapping[str, float] = field(default_factory=dict)
    """Numbers of the whole batch that its loss needs beside each micro-batch
    (`openrlhf_gtpo.policy.covariance_loss`). They are logged under these names."""


def _shaped(
    shape: Callable[..., shaping.Shaped],
    rollouts: Rollouts,
    per_response: bool,
    entropy_clip: Any = None,
    weights: str = "entropy",
    **options: Any,
) -> Estimate:
    assert rollouts.correct is not None

    def shaped_by(values: torch.Tensor, **options: Any) -> shaping.Shaped:
        return shape(values, rollouts.mask, rollouts.correct, rollouts.group, **options)

    entropy = rollouts.entropy if entropy_clip is None else rollouts.entropy.clamp(*entropy_clip)
    values, metrics = entropy, {}
    if weights != "entropy":
        values = in_place_of_entropy(
            weights,
            entropy,
            rollouts.logprob,
            rollouts.mask,
            rollouts.correct,
            rollouts.group,
            per_response=per_response,
            seed=rollouts.seed,
        )
        # The rewards' part that is shared out, 1 on average.
        shares = [shaped_by(each, alpha1=0, alpha2=1).rewards[rollouts.mask].abs() for each in (entropy, values)]
        likeness = correlation(*shares)
        metrics = {} if likeness is None else {"shaping/weight_entropy_correlation": likeness}
    shaped = shaped_by(values, penalty=rollouts.penalty if rollouts.penalty.any() else None, **options)
    length = rollouts.mask.sum(-1).clamp(min=1)
    return Estimate(shaped.advantages, shaped.rewards.sum(-1) / length, shaped.rewards, metrics)


def gtpo(rollouts: Rollouts, **options: Any) -> Estimate:
    """GTPO: tokens share their class's reward by their entropy (arXiv 2508.04349, Eq. 3, 5 and 6).

    Args:
        rollouts: the batch.
        options: of `openrlhf_gtpo.shaping.gtpo`; ``weights`` says what stands for the entropies
            (`openrlhf_gtpo.algorithms.weights`).

    Raises:
        ValueError: an entropy is negative or no number, or an option is out of its bounds.
    """
    return _shaped(shaping.gtpo, rollouts, per_response=False, **options)


def grpo_s(rollouts: Rollouts, **options: Any) -> Estimate:
    """GRPO-S: responses share a class's reward by their mean entropy (arXiv 2508.04349, Eq. 8 and 9); as `gtpo`, with
    the options of `openrlhf_gtpo.shaping.grpo_s`."""
    return _shaped(shaping.grpo_s, rollouts, per_response=True, **options)


def group_norm(rollouts: Rollouts) -> Estimate:
    """GRPO: reward minus the group's mean, divided by its standard deviation (arXiv 2402.03300); groups of any size.

    Args:
        rollouts: the batch.

    Raises:
        ValueError: a reward is not finite.
    """
    advantages = grpo.group_norm(rollouts.reward, rollouts.group).clamp(*rollouts.reward_clip)
    return Estimate(advantages[:, None] * rollouts.mask, advantages)
