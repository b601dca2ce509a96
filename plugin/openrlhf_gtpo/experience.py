"""Lives in the controller: turns whole groups into advantages.

The micro-batches are put back into rollout order, so that every statistic is taken over whole groups however OpenRLHF
splits them, and shaped."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker, apply_length_penalties

from openrlhf_gtpo.errors import OneSentence
from openrlhf_gtpo.forking import forking_tokens
from openrlhf_gtpo.metrics import rollout_metrics
from openrlhf_gtpo.openrlhf_seam import adopt
from openrlhf_gtpo.punishment import overlong_punishment
from openrlhf_gtpo.settings import ESTIMATORS, ShapingSettings, metrics_path
from openrlhf_gtpo.shaping import Shaped, grpo_s, gtpo


class NotBinary(OneSentence):
    """A score is neither right nor wrong, so responses cannot be told apart by correctness."""


class ShapingFailed(OneSentence):
    """What the rollouts brought is not what entropies and scores can be; the sentence of `openrlhf_gtpo.shaping`
    says which."""


@dataclass
class WholeBatch:
    """A rollout batch in rollout order, group after group. N responses, A columns (tokens after the first of the
    sequence)."""

    order: list[torch.Tensor]
    """For each micro-batch, the rows of its responses, (B,) int."""
    entropy: torch.Tensor  # (N, A) nats, 0 off the mask
    mask: torch.Tensor  # (N, A) bool
    logprob_gap: torch.Tensor  # (N, A) |rollout - actor| log-probability
    scores: torch.Tensor | None  # (N,)
    rewards: torch.Tensor  # (N,) before any penalty
    group: torch.Tensor  # (N,) int


def whole_batch(experiences: Sequence[Experience], group_size: int) -> WholeBatch:
    """Put OpenRLHF's micro-batches together, and take out of ``info`` what only travelled in it.

    Args:
        experiences: micro-batches as `RemoteExperienceMaker.make_experience` leaves them: padded to widths of
            their own, in any order; ``experience.index`` has each response's place in the rollout.
        group_size: G, responses per prompt.
    """
    order = [torch.tensor(experience.index) for experience in experiences]
    n = sum(len(rows) for rows in order)
    width = max(experience.action_mask.shape[1] for experience in experiences)
    batch = WholeBatch(
        order=order,
        entropy=torch.zeros(n, width),
        mask=torch.zeros(n, width, dtype=torch.bool),
        logprob_gap=torch.zeros(n, width),
        scores=torch.zeros(n) if all(experience.scores is not None for experience in experiences) else None,
        rewards=torch.zeros(n),
        group=torch.arange(n) // group_size,
    )
    for experience, rows in zip(experiences, order, strict=True):
        columns = slice(experience.action_mask.shape[1])
        batch.mask[rows, columns] = experience.action_mask.bool()
        batch.entropy[rows, columns] = experience.info.pop("entropy")
        rollout_logprob = experience.info.pop("logprob")
        batch.logprob_gap[rows, columns] = (rollout_logprob - experience.action_log_probs.float()).abs()
        batch.rewards[rows] = experience.rewards.flatten().float()
        if batch.scores is not None:
            batch.scores[rows] = experience.scores.flatten().float()
    return batch


def correctness(scores: torch.Tensor | None) -> torch.Tensor:
    """Which responses are verified as correct, (N,) bool.

    Args:
        scores: (N,), 1 for correct, and 0 or -1 for wrong.

    Raises:
        NotBinary: there are no scores, or others.
    """
    if scores is None:
        raise NotBinary(
            "GTPO and GRPO-S need verified correctness, but the rewards came without scores: let the reward service "
            "return 'scores' of 0 or 1."
        )
    strange = scores[(scores != 0) & (scores != 1) & (scores != -1)]
    if strange.numel():
        raise NotBinary(
            f"GTPO and GRPO-S need verified correctness, but a score is {strange[0].item():g}: let the reward "
            f"service return "
            "'scores' of 0 or 1 beside 'rewards'."
        )
    return scores == 1


class ExperienceMaker(RemoteExperienceMaker):
    """OpenRLHF's experience maker with the estimators gtpo and grpo_s, and with metrics for all of them."""

    metrics: dict[str, float]
    step = 0
    """The global step that the next batch belongs to; told by the trainer."""

    @classmethod
    def like(cls, maker: RemoteExperienceMaker) -> "ExperienceMaker":
        """Take over from OpenRLHF's own experience maker."""
        new = adopt(cls, maker)
        new.metrics = {}
        return new

    @torch.no_grad()
    def compute_advantages_and_returns(self, experiences: list[Experience]) -> list[Experience]:
        """Advantages of a whole rollout batch, whatever its micro-batches; OpenRLHF's own estimators are left to
        OpenRLHF."""
        begin = time.perf_counter()
        batch = whole_batch(experiences, self.args.rollout.n_samples_per_prompt)
        extra = self._punish_overlong(experiences, batch) if self.args.shaping.grop else {}
        shaped = None
        if self.args.algo.advantage.estimator in ESTIMATORS:
            shaped = self._shape(experiences, batch)
        else:
            experiences = super().compute_advantages_and_returns(experiences)
        if self.args.shaping.top_entropy_share < 1:
            extra |= self._keep_forking_tokens(experiences, batch)
        extra["shaping/seconds"] = time.perf_counter() - begin
        self._measure(experiences, batch, shaped)
        self.metrics |= extra
        return experiences

    def _punish_overlong(self, experiences: list[Experience], batch: WholeBatch) -> dict[str, float]:
        """Add Group Relative Overlong Punishment to the rewards, whatever the estimator makes of them."""
        punishment = overlong_punishment(batch.mask.sum(-1), correctness(batch.scores), batch.group)
        for experience, rows in zip(experiences, batch.order, strict=True):
            experience.rewards = experience.rewards.flatten().float() + punishment[rows]
        return {
            "overlong/punished_share": (punishment < 0).float().mean().item(),
            "overlong/punishment_mean": punishment.mean().item(),
        }

    def _keep_forking_tokens(self, experiences: list[Experience], batch: WholeBatch) -> dict[str, float]:
        """Leave an advantage, and with it a gradient, to the tokens of highest entropy only."""
        kept = forking_tokens(batch.entropy, batch.mask, self.args.shaping.top_entropy_share)
        for experience, rows in zip(experiences, batch.order, strict=True):
            columns = slice(experience.action_mask.shape[1])
            experience.advantages = experience.advantages * kept[rows, columns]
        return {
            "forking/kept_share": (kept.sum() / batch.mask.sum()).item(),
            "forking/entropy_threshold": batch.entropy[kept].min().item(),
        }

    def _shape(self, experiences: list[Experience], batch: WholeBatch) -> Shaped:
        args = self.args
        correct = correctness(batch.scores)
        for experience in experiences:
            experience.rewards = experience.rewards.flatten().float()
        apply_length_penalties(experiences, args)
        penalised = torch.zeros_like(batch.rewards)
        for experience, rows in zip(experiences, batch.order, strict=True):
            penalised[rows] = experience.rewards
        penalty = penalised - batch.rewards
        settings = ShapingSettings.of(args)
        shape = {"gtpo": gtpo, "grpo_s": grpo_s}[args.algo.advantage.estimator]
        try:
            shaped = shape(
                batch.entropy,
                batch.mask,
                correct,
                batch.group,
                alpha1=settings.alpha1,
                alpha2=settings.alpha2,
                over=settings.over,
                scope=settings.scope,
                entropy_clip=settings.entropy_clip,
                penalty=penalty if penalty.any() else None,
            )
        except ValueError as error:
            raise ShapingFailed(f"The rollout batch of step {self.step} cannot be shaped: {error}") from error
        deviation = penalised.view(-1, args.rollout.n_samples_per_prompt).std(-1)[batch.group]
        length = batch.mask.sum(-1).clamp(min=1)
        mean_shaped = shaped.rewards.sum(-1) / length
        for experience, rows in zip(experiences, batch.order, strict=True):
            columns = slice(experience.action_mask.shape[1])
            experience.advantages = shaped.advantages[rows, columns]
            experience.returns = experience.advantages.clone()
            experience.info["group_reward_std"] = deviation[rows]
            experience.info["return"] = mean_shaped[rows]
            experience.kl = None
        return shaped

    def _measure(self, experiences: list[Experience], batch: WholeBatch, shaped: Shaped | None) -> None:
        try:
            correct = correctness(batch.scores)
        except NotBinary:
            correct = None  # only with an estimator of OpenRLHF's own, which takes any reward
        advantages = torch.zeros_like(batch.entropy)
        for experience, rows in zip(experiences, batch.order, strict=True):
            advantages[rows, : experience.advantages.shape[1]] = experience.advantages.float()
        rewards = None if shaped is None else shaped.rewards
        self.metrics = rollout_metrics(
            entropy=batch.entropy,
            mask=batch.mask,
            correct=correct,
            group=batch.group,
            advantages=advantages,
            shaped_rewards=rewards,
            logprob_gap=batch.logprob_gap,
        )
        if self.args.shaping.save_rollouts:
            self._save_rollouts(experiences, batch, correct, advantages, rewards)

    def _save_rollouts(
        self,
        experiences: list[Experience],
        batch: WholeBatch,
        correct: torch.Tensor | None,
        advantages: torch.Tensor,
        rewards: torch.Tensor | None,
    ) -> None:
        """Write groups to rollouts.jsonl, those with both right and wrong responses first."""
        informative = torch.zeros(int(batch.group[-1]) + 1, dtype=torch.bool)
        if correct is not None:
            sizes = batch.group.bincount()
            hits = torch.zeros_like(sizes).index_add_(0, batch.group, correct.long())
            informative = (hits > 0) & (hits < sizes)
        chosen = informative.long().argsort(descending=True, stable=True)[: self.args.shaping.save_rollouts].tolist()
        place = {int(row): (m, i) for m, rows in enumerate(batch.order) for i, row in enumerate(rows)}
        with rollouts_path(self.args).open("a") as file:
            for group in chosen:
                for row in (batch.group == group).nonzero().flatten().tolist():
                    m, i = place[row]
                    experience, mask = experiences[m], batch.mask[row]
                    tokens = experience.sequences[i, 1:][mask[: experience.action_mask.shape[1]]].tolist()
                    line = {
                        "step": self.step,
                        "group": group,
                        "prompt": experience.prompts[i],
                        "label": experience.labels[i],
                        "correct": None if correct is None else bool(correct[row]),
                        "tokens": [self.tokenizer.decode([token]) for token in tokens],
                        "entropy": _significant(batch.entropy[row][mask]),
                        "shaped_reward": None if rewards is None else _significant(rewards[row][mask]),
                        "advantage": _significant(advantages[row][mask]),
                    }
                    file.write(json.dumps(line) + "\n")


def _significant(values: torch.Tensor) -> list[float]:
    """What float32 holds and no more: places after the point would lose the small entropies, whose inverse counts."""
    return [float(f"{value:.7g}") for value in values.tolist()]


def rollouts_path(args: Any) -> Path:
    """Where rollouts.jsonl goes, from OpenRLHF's nested ``args``: beside the metrics."""
    return metrics_path(args).with_name("rollouts.jsonl")
