"""Runs in the controller: a guide's part in each rollout batch, with which OpenRLHF's loss is the one of
`openrlhf_gtpo.algorithms.mixed_policy`."""

from typing import Any

import torch

from openrlhf_gtpo.algorithms.mixed_policy import Unit, batch_factors, guide_statistics
from openrlhf_gtpo.batch import RolloutBatch


def weigh(batch: RolloutBatch, args: Any, *, per_response: bool) -> None:
    """Give the advantages the factors of both batches.

    Args:
        batch: with advantages (N, T); changed in place.
        args: OpenRLHF's nested ``args``.
        per_response: whether the estimator's loss is a mean over responses instead of tokens.
    """
    actor = args.actor
    low, high = actor.eps_clip_low_high
    batch.metrics["guide/share"] = batch.guide.sum().item() / len(batch)
    batch.metrics |= guide_statistics(
        batch.actor_logprob,
        batch.logprob,
        batch.mask & batch.guide[:, None],
        batch.advantages,
        clip_low=low,
        clip_high=high,
    )
    per_response = per_response or actor.policy_loss_type == "gspo" or actor.loss_agg_mode != "token-mean"
    unit: Unit = "response" if per_response else "token"
    factors = batch_factors(batch.mask, batch.second, weight=args.guide.weight, unit=unit)  # (N,)
    trained = int(batch.mask.sum() if unit == "token" else batch.mask.any(-1).sum())
    if trained:  # OpenRLHF's mean is over the fillers too, one token each
        factors *= (trained + int(batch.filler.sum())) / trained
    batch.advantages = batch.advantages * factors[:, None]


def measure_from_guide(experience: Any, guide: torch.Tensor, logprob: torch.Tensor) -> None:
    """The guide's log-probabilities replace the old ones on its tokens, so that OpenRLHF's ratio is pi_theta / pi_phi.

    Args:
        experience: OpenRLHF's micro-batch; changed in place.
        guide: (B,) bool, the guide's responses.
        logprob: (B, A) by vLLM.
    """
    for name in ("action_log_probs", "rollout_log_probs"):
        old = getattr(experience, name)
        if old is not None:
            setattr(experience, name, torch.where(guide[:, None], logprob.to(old.dtype), old))
