"""The changes to rollout batches that a run has, and the small ones among them."""

from typing import Any

import torch

from openrlhf_gtpo.algorithms.forking import forking_tokens
from openrlhf_gtpo.algorithms.punishment import overlong_punishment
from openrlhf_gtpo.batch.transformation import Transformation
from openrlhf_gtpo.batch.whole_batch import WholeBatch
from openrlhf_gtpo.controller.metrics import rollout_metrics
from openrlhf_gtpo.controller.saved_rollouts import SavedRollouts
from openrlhf_gtpo.guide.batch import GuidedBatch


def transformations(args: Any, tokenizer: Any) -> list[Transformation]:
    """Those of a run: the first is the first to change a batch before an estimator sees it, and the last to change it
    before the updates.

    Args:
        args: OpenRLHF's nested ``args``.
        tokenizer: the policy's.
    """
    settings = args.plugin
    chosen: list[Transformation] = [GuidedBatch(args)] if settings.guide is not None else []
    if settings.groups_saved:
        chosen.append(SavedRollouts(args, tokenizer))
    chosen.append(Measured())
    if settings.top_entropy_share != 1:
        chosen.append(ForkingTokens(settings.top_entropy_share))
    if settings.punishes_length:
        chosen.append(OverlongPunishment())
    return chosen


class OverlongPunishment(Transformation):
    """Group Relative Overlong Punishment (`openrlhf_gtpo.algorithms.punishment`), added to the rewards."""

    needs_correctness = True

    def before_advantages(self, batch: WholeBatch) -> None:
        assert batch.correct is not None
        batch.penalty = overlong_punishment(batch.mask.sum(-1), batch.correct, batch.group)
        own = batch.penalty[batch.of_metrics]
        batch.metrics |= {
            "overlong/punished_share": (own < 0).float().mean().item(),
            "overlong/punishment_mean": own.mean().item(),
        }


class ForkingTokens(Transformation):
    """Only the tokens of the highest entropy keep their gradient (`openrlhf_gtpo.algorithms.forking`)."""

    def __init__(self, share: float) -> None:
        self.share = share

    def before_updates(self, batch: WholeBatch) -> None:
        kept = forking_tokens(batch.entropy, batch.mask, self.share)
        batch.advantages = batch.advantages * kept
        batch.metrics |= {
            "forking/kept_share": (kept.sum() / batch.mask.sum()).item(),
            "forking/entropy_threshold": batch.entropy[kept].min().item(),
        }


class Measured(Transformation):
    """Changes nothing: the metrics of every run."""

    def before_updates(self, batch: WholeBatch) -> None:
        own = batch.of_metrics

        def rows(values: torch.Tensor | None) -> Any:
            return None if values is None else values[own]

        batch.metrics |= rollout_metrics(
            entropy=batch.entropy[own],
            mask=batch.mask[own],
            correct=rows(batch.correct),
            group=batch.group[own],
            advantages=batch.advantages[own],
            shaped_rewards=rows(batch.shaped_rewards),
            rollout_logprob=batch.rollout_logprob[own],
            actor_logprob=batch.actor_logprob[own],
        )
