"""Mixed-policy DAPO (Tan & Li, arXiv 2507.12931): responses of a frozen guiding policy beside the policy's own.

This is a reconstruction from the paper's abstract: its printed objectives could not be obtained. Below, pi_theta is
the policy in training, pi_old the policy that generated the rollouts, and pi_phi the guide.

* Mixed groups. A group has G responses of the policy, with the ratio pi_theta / pi_old, and G' of the guide, with the
  ratio pi_theta / pi_phi. Both ratios get the same clip, advantages are computed over the union, and the loss is one
  mean over all tokens.
* Zero-reward groups. Dynamic sampling drops a group whose responses are all wrong. Here such a group gets G' responses
  of the guide and joins a second batch, with its own token mean and a weight lambda:

      J = 1/n1 * sum over batch 1 of L_it + lambda * 1/n2 * sum over batch 2 of L_it          n: tokens of the batch

  with L_it = min(ratio * A, clip(ratio) * A). Groups that the guide does not solve either are dropped elsewhere.

OpenRLHF's loss computes J without changes:

* Scaling A by a positive factor scales L_it by the same factor. So a batch's 1/n and weight become one factor for the
  advantages of each response (`batch_factors`), applied after all normalisation of advantages.
* The guide's log-probabilities replace the old ones on its tokens, so OpenRLHF's ratio is pi_theta / pi_phi there.

A control of ours, not the paper's, learns the second batch by supervision: its part of J is minus a cross-entropy,

      lambda * 1/m * sum of log pi_theta over the guide's correct responses in batch 2      m: tokens of these

and the batch's other responses have no weight. They stay in it, so that a step has as many updates.

Where a step makes several updates, the factors are still computed from the whole step. A single update's objective
then differs from J, but the mean of the updates' objectives, weighted by their tokens, equals J.

Pure tensor mathematics: nothing here imports OpenRLHF.
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F

from openrlhf_gtpo.algorithms.statistics import spread

LOG_RATIO_BOUND = 20.0
"""Log ratios are clamped to +-20, as OpenRLHF's token-level loss does, so that their exponential stays finite."""

Unit = Literal["token", "response"]


def batch_factors(mask: torch.Tensor, second: torch.Tensor, *, weight: float, unit: Unit) -> torch.Tensor:
    """A factor for the advantages of each response, with which one mean over both batches equals J.

    With n1 and n2 units in the two batches, the factor is (n1 + n2) / n1 in the first and weight * (n1 + n2) / n2 in
    the second. Where one batch has no units, it is 1 in the first or weight in the second.

    Args:
        mask: (N, T) bool or 0/1, 1 on response tokens.
        second: (N,) bool, the responses of the second batch.
        weight: lambda, at least 0.
        unit: what the loss averages over: ``"token"`` (PolicyLoss with the token mean) or ``"response"``, counting
            those with tokens (GRPO-S's SequenceRatioLoss).

    Returns:
        (N,) float32; 1 for a response without tokens. Exactly 1 everywhere if the second batch has no units.
    """
    length = mask.bool().sum(dim=1)  # (N,)
    units = length if unit == "token" else (length > 0).long()
    n2 = int(units[second].sum())
    n1 = int(units.sum()) - n2
    # In float64, n / n is exactly 1. A batch without units has no responses with tokens, so its factor is not used.
    first_factor = (n1 + n2) / max(n1, 1)
    second_factor = weight * ((n1 + n2) / max(n2, 1))
    factors = torch.ones(len(mask), dtype=torch.float32, device=mask.device)
    factors[(length > 0) & ~second] = first_factor
    factors[(length > 0) & second] = second_factor
    return factors


def shaped_log_ratio(log_ratio: torch.Tensor, gamma: float) -> torch.Tensor:
    """log f(r) with f(r) = r / (r + gamma), the policy shaping of LUFFY (arXiv 2504.14945), where gamma is 0.1.

    In place of the guide's ratio, f(r) gives tokens that the policy finds unlikely more weight in the gradient:
    f'(r) = gamma / (r + gamma)^2 is largest at r = 0.

    It is computed as log sigmoid(log_ratio - log gamma), without the ratio itself, so value and gradient are finite
    and precise for any finite log_ratio.

    Args:
        log_ratio: float, any shape: log r. The gradient flows through it.
        gamma: above 0.

    Returns:
        A tensor of log_ratio's shape and dtype; below 0, or 0 where the ratio is so large that f(r) rounds to 1.
    """
    return F.logsigmoid(log_ratio - math.log(gamma))


def guide_statistics(
    policy_log_probs: torch.Tensor,
    guide_log_probs: torch.Tensor,
    mask: torch.Tensor,
    advantages: torch.Tensor,
    *,
    clip_low: float,
    clip_high: float,
) -> dict[str, float]:
    """How far the policy is from the guide, on the guide's own tokens.

    Args:
        policy_log_probs: (N, T) float, nats: log pi_theta of the tokens.
        guide_log_probs: (N, T) float, nats: log pi_phi of the tokens, of the distribution that they were sampled from.
        mask: (N, T) bool or 0/1, 1 on the tokens of the guide's responses; values off it are ignored.
        advantages: (N, T) float.
        clip_low: at least 0.
        clip_high: at least 0.

    Returns:
        Metric name -> value; empty without tokens. With r = pi_theta / pi_phi and log r clamped to +-20:

        * ``guide/ratio_mean``, ``guide/ratio_q10``, ``guide/ratio_q50``, ``guide/ratio_q90``: mean and quantiles of r
        * ``guide/clip_share``: share of tokens whose gradient PPO's clip removes, for a ratio above 1 + high and a
          positive advantage or one below 1 - low and a negative advantage; the dual clip is not counted
        * ``guide/kl``: nats a token, the mean of (r - 1) - log r: Schulman's k3, an estimate of KL(pi_phi || pi_theta)
          from samples of pi_phi that is never negative
        * ``guide/logprob_mean``: nats, of pi_phi
    """
    on = mask.bool()
    if not on.any():
        return {}
    guide = guide_log_probs.detach()[on].double()  # (tokens,)
    log_ratio = (policy_log_probs.detach()[on].double() - guide).clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND)
    ratio = log_ratio.exp()
    advantage = advantages[on]
    clipped = ((ratio > 1 + clip_high) & (advantage > 0)) | ((ratio < 1 - clip_low) & (advantage < 0))
    # Near a ratio of 1, expm1 keeps the digits that r - 1 would lose. The clamp removes rounding below 0.
    k3 = (log_ratio.expm1() - log_ratio).clamp(min=0)
    metrics = {
        "guide/clip_share": clipped.double().mean().item(),
        "guide/kl": k3.mean().item(),
        "guide/logprob_mean": guide.mean().item(),
    }
    spread(metrics, "guide/ratio_", ratio)
    return metrics
