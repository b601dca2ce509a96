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

import torch

from openrlhf_gtpo.algorithms.estimators import Estimate, Rollouts, group_norm

__all__ = ["clip_cov", "covariance", "kl_cov"]


def covariance(
    logprob: torch.Tensor,
    advantages: torch.Tensor,
    logprob_mean: float | torch.Tensor,
    advantage_mean: float | torch.Tensor,
) -> torch.Tensor:
    """(N, T) each token's product of deviations, without gradient."""
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
    grpo, on = group_norm(rollouts), rollouts.mask
    means = _means(rollouts, grpo.advantages)
    if not means:
        return grpo
    found = covariance(rollouts.logprob, grpo.advantages, *means)
    low, high = bounds
    between = int(((found > low) & (found < high) & on).sum())
    chance = min(1.0, share * int(on.sum()) / between) if between else 0.0
    return Estimate(
        grpo.advantages,
        grpo.returns,
        for_loss={
            "covariance/logprob_mean": means[0],
            "covariance/advantage_mean": means[1],
            "clip_cov/chance": chance,
        },
    )


def kl_cov(rollouts: Rollouts, share: float) -> Estimate:
    """GRPO's advantages, and for `KLCovLoss` the means of the covariance and the lowest one among the share of tokens
    with the highest (arXiv 2505.22617).

    Args:
        rollouts: the batch.
        share: k, of all tokens; at least one token.

    Raises:
        ValueError: a reward is not finite.
    """
    grpo, on = group_norm(rollouts), rollouts.mask
    means = _means(rollouts, grpo.advantages)
    if not means:
        return grpo
    found = covariance(rollouts.logprob, grpo.advantages, *means)[on]
    return Estimate(
        grpo.advantages,
        grpo.returns,
        for_loss={
            "covariance/logprob_mean": means[0],
            "covariance/advantage_mean": means[1],
            "kl_cov/threshold": found.topk(max(1, int(share * found.numel()))).values[-1].item(),
        },
    )


def _means(rollouts: Rollouts, advantages: torch.Tensor) -> tuple[float, float] | tuple[()]:
    """Of log-probabilities and advantages over the batch's tokens; nothing where there are none."""
    if not rollouts.mask.any():
        return ()
    return rollouts.logprob[rollouts.mask].mean().item(), advantages[rollouts.mask].mean().item()
