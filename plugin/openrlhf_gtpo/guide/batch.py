"""Runs in the controller: a guide's part in each rollout batch, with which OpenRLHF's loss is the one of
`openrlhf_gtpo.algorithms.mixed_policy`."""

from typing import Any

import torch

from openrlhf_gtpo.algorithms.mixed_policy import Unit, batch_factors, guide_statistics
from openrlhf_gtpo.batch import WholeBatch
from openrlhf_gtpo.guide.groups import MARKS


def read_marks(batch: WholeBatch) -> None:
    """Move the `MARKS` from ``info`` to the batch. Fillers leave its mask, and metrics are of the policy's own
    responses in the first batch, or in the second if the first has none.

    Args:
        batch: changed in place; its groups become those of the policy's and the guide's responses.
    """
    marks = torch.zeros(len(MARKS), len(batch.rewards))  # (4, N)
    for experience, rows in zip(batch.experiences, batch.order, strict=True):
        for mark, name in zip(marks, MARKS, strict=True):
            mark[rows] = experience.info[name]
        for name in MARKS[:-1]:  # OpenRLHF logs the mean of the last, the guide's share
            del experience.info[name]
    batch.group = marks[0].long()
    batch.second, batch.filler, batch.guide = (mark > 0 for mark in marks[1:])
    batch.mask &= ~batch.filler[:, None]
    own = ~batch.guide & ~batch.filler
    first = own & ~batch.second
    batch.counted = first if first.any() else own


def weigh(batch: WholeBatch, args: Any, *, per_response: bool) -> None:
    """The guide's log-probabilities replace the old ones on its tokens, and the advantages get the factors of both
    batches.

    Args:
        batch: with advantages (N, T) and the marks of `read_marks`; changed in place.
        args: OpenRLHF's nested ``args``.
        per_response: whether the estimator's loss is a mean over responses instead of tokens.
    """
    assert batch.guide is not None
    assert batch.second is not None
    assert batch.filler is not None
    actor = args.actor
    low, high = actor.eps_clip_low_high
    batch.metrics |= guide_statistics(
        batch.actor_logprob,
        batch.rollout_logprob,
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
    parts = zip(batch.experiences, batch.rows(batch.guide), batch.columns(batch.rollout_logprob), strict=True)
    for experience, guide, logprob in parts:
        for name in ("action_log_probs", "rollout_log_probs"):
            old = getattr(experience, name)
            if old is not None:
                setattr(experience, name, torch.where(guide[:, None], logprob.to(old.dtype), old))
