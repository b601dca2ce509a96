"""Runs in the controller: a guide's part in each rollout batch."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import ray
import torch

from openrlhf_gtpo.algorithms.mixed_policy import batch_factors, guide_statistics
from openrlhf_gtpo.algorithms.table import line_of
from openrlhf_gtpo.batch.whole_batch import WholeBatch
from openrlhf_gtpo.guide.engines import guide_engines
from openrlhf_gtpo.guide.groups import MARKS, Guide
from openrlhf_gtpo.guide.solutions import solutions_by_prompt
from openrlhf_gtpo.guide.sources import ModelSource, SolutionSource
from openrlhf_gtpo.vllm_entropy import check_hook


class GuidedBatch(Guide):
    """Groups with a guide's responses; then a batch with which OpenRLHF's loss is the one of
    `openrlhf_gtpo.algorithms.mixed_policy`."""

    def connect(self, tokenizer: Any, engines: Sequence[Any]) -> None:
        """Wait for the guide's engines, and check their entropy hook."""
        settings = self.settings
        if settings.model:
            own = guide_engines(settings)
            for reports in ray.get([engine.entropy_hook_report.remote() for engine in own]):
                check_hook(reports)
            self.source = ModelSource(own, settings.samples, tokenizer)
        else:
            solutions = solutions_by_prompt(str(settings.solutions), self.args, tokenizer.value)
            self.source = SolutionSource(solutions, list(engines), settings.samples, tokenizer)

    def before_advantages(self, batch: WholeBatch) -> None:
        """Read the `MARKS`. Metrics are of the policy's own responses in the first batch, or in the second if the
        first has none."""
        marks = torch.zeros(len(MARKS), len(batch.rewards))
        for experience, rows in zip(batch.experiences, batch.order, strict=True):
            for mark, name in zip(marks, MARKS, strict=True):
                mark[rows] = experience.info[name]
            for name in MARKS[:-1]:  # the loss may need the last, the guide's share, and OpenRLHF logs its mean
                del experience.info[name]
        group, second, filler, guide = marks
        batch.group = group.long()
        self._second, self._filler, self._guide = second > 0, filler > 0, guide > 0
        batch.mask &= ~self._filler[:, None]
        own = ~self._guide & ~self._filler
        batch.counted = own & ~self._second if (own & ~self._second).any() else own
        batch.grouped, batch.saved_marks = ~self._filler, {"guide": self._guide}

    def before_updates(self, batch: WholeBatch) -> None:
        """The guide's log-probabilities replace the old ones on its tokens, and the advantages get the factors of both
        batches. In a supervised second batch the advantage is 1 on what is learned, and 0 elsewhere."""
        low, high = self.args.actor.eps_clip_low_high
        learned = batch.mask
        if self.settings.supervised:
            assert batch.scores is not None, "the guide joins no response without a score"
            low = high = math.inf  # no ratio, no clip
            is_learned = ~self._second | (self._guide & (batch.scores == 1))
            learned = batch.mask & is_learned[:, None]
            batch.advantages = torch.where(self._second[:, None], learned.float(), batch.advantages)
        batch.metrics |= guide_statistics(
            batch.actor_logprob,
            batch.rollout_logprob,
            batch.mask & self._guide[:, None],
            batch.advantages,
            clip_low=low,
            clip_high=high,
        )
        unit: Literal["token", "response"] = "response" if self._is_per_response() else "token"
        factors = batch_factors(learned, self._second, weight=self.settings.weight, unit=unit)
        counted, trained = (int(on.sum() if unit == "token" else on.any(-1).sum()) for on in (learned, batch.mask))
        if counted:  # OpenRLHF's mean is over all that is trained on, and over the fillers, one token each
            factors *= (trained + int(self._filler.sum())) / counted
        parts = zip(batch.experiences, batch.rows(self._guide), batch.columns(batch.rollout_logprob), strict=True)
        for experience, guide, logprob in parts:
            for name in ("action_log_probs", "rollout_log_probs"):
                old = getattr(experience, name)
                if old is not None:
                    setattr(experience, name, torch.where(guide[:, None], logprob.to(old.dtype), old))
        batch.advantages = batch.advantages * factors[:, None]

    def _is_per_response(self) -> bool:
        """Whether the loss is a mean over responses instead of tokens."""
        actor, estimator = self.args.actor, line_of(self.args.plugin.estimator)
        return (
            (estimator is not None and estimator.per_response)
            or actor.policy_loss_type == "gspo"
            or actor.loss_agg_mode != "token-mean"
        )
