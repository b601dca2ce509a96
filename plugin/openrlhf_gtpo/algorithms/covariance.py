"""Clip-Cov and KL-Cov (Cui et al., "The Entropy Mechanism", arXiv 2505.22617): the few tokens whose log-probability
and advantage vary together most are what lowers entropy, so their update is cut, or a KL penalty put on it.

The covariance of token i of a batch of N tokens is

    cov_i = (log pi(o_i) - mean of log pi) * (A_i - mean of A)

Clip-Cov draws r * N of the tokens with LOW < cov_i < HIGH and cuts their gradient. KL-Cov puts a penalty on the k * N
tokens of the highest cov_i.

A loss sees one micro-batch of one process, in which a group may be split, so that the means would mean little. So the
means, and how many tokens are concerned, are taken from the whole rollout batch here, and reach the loss
(`openrlhf_gtpo.policy.covariance_loss`) as numbers; the loss applies them with the
log-probabilities of the policy in training. Pure tensor mathematics."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from openrlhf_gtpo.algorithms.estimators import Estimate, Rollouts, group_norm


def covariance(
    logprob: torch.Tensor,
    advantages: torch.Tensor,
    logprob_mean: float | torch.Tensor,
    advantage_mean: float | torch.Tensor,
) -> torch.Tensor:
    """Each token's product of deviations, without gradient; the shape of logprob and advantages."""
    return ((logprob - logprob_mean) * (advantages - advantage_mean)).detach()


def clip_cov(rollouts: Rollouts, share: float, bounds: Sequence[float]) -> Estimate:
    """GRPO's advantages, and for `ClipCovLoss` the means of the covariance and the chance of a token between the
    bounds to be cut: the paper's r * N by the number of tokens between them, at most 1 (arXiv 2505.22617).

    Args:
        rollouts: the batch.
        share: r, of all tokens.
        bounds: lowest and highest covariance of a token that may be cut, both excluded.

    Raises:
        ValueError: a reward is not finite.
    """
    grpo, covariances, means = _measured(rollouts)
    if not len(covariances):
        return grpo
    low, high = bounds
    between = int(((covariances > low) & (covariances < high)).sum())
    chance = min(1.0, share * len(covariances) / between) if between else 0.0
    return replace(grpo, for_loss=means | {"clip_cov/chance": chance})


def kl_cov(rollouts: Rollouts, share: float) -> Estimate:
    """GRPO's advantages, and for `KLCovLoss` the means of the covariance and the lowest one among the share of tokens
    with the highest (arXiv 2505.22617).

    Args:
        rollouts: the batch.
        share: k, of all tokens; at least one token.

    Raises:
        ValueError: a reward is not finite.
    """
    grpo, covariances, means = _measured(rollouts)
    if not len(covariances):
        return grpo
    threshold = covariances.topk(max(1, int(share * len(covariances)))).values[-1].item()
    return replace(grpo, for_loss=means | {"kl_cov/threshold": threshold})


def _measured(rollouts: Rollouts) -> tuple[Estimate, torch.Tensor, dict[str, float]]:
    """GRPO's estimate; the covariance of each of the batch's n tokens, (n,); and the means that it was taken with, by
    the names that the loss knows them by, none without tokens."""
    grpo, on = group_norm(rollouts), rollouts.mask
    logprob, advantages = rollouts.logprob[on], grpo.advantages[on]
    if not on.any():
        return grpo, logprob, {}
    means = {
        "covariance/logprob_mean": logprob.mean().item(),
        "covariance/advantage_mean": advantages.mean().item(),
    }
    return grpo, covariance(logprob, advantages, *means.values()), means
