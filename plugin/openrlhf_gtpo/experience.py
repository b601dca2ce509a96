"""Lives in the controller: turns whole groups into advantages, and saves some for people to look at."""

import functools
import json
import time
from pathlib import Path
from typing import Any, Literal

import torch
from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker, apply_length_penalties

from openrlhf_gtpo.errors import OneSentence
from openrlhf_gtpo.forking import forking_tokens
from openrlhf_gtpo.guide.settings import GuideSettings
from openrlhf_gtpo.metrics import rollout_metrics
from openrlhf_gtpo.mixed_policy import batch_factors, group_norm, guide_statistics
from openrlhf_gtpo.openrlhf_seam import adopt
from openrlhf_gtpo.punishment import overlong_punishment
from openrlhf_gtpo.settings import ESTIMATORS, ShapingSettings, metrics_path
from openrlhf_gtpo.shaping import Shaped, grpo_s, gtpo
from openrlhf_gtpo.whole_batch import NotBinary, WholeBatch, correctness, whole_batch


class ShapingFailed(OneSentence):
    """What the rollouts brought is not what entropies and scores can be; the sentence of `openrlhf_gtpo.shaping`
    says which."""


class PolicyBroken(OneSentence):
    """The policy's log-probabilities are no numbers, so an update would spoil every weight."""


class ExperienceMaker(RemoteExperienceMaker):
    """OpenRLHF's experience maker with the estimators gtpo and grpo_s, and with metrics for all of them."""

    metrics: dict[str, float]
    guide: GuideSettings | None
    step = 0
    """The global step that the next batch belongs to; told by the trainer."""
    _batch: WholeBatch

    @classmethod
    def like(cls, maker: RemoteExperienceMaker) -> "ExperienceMaker":
        """Take over from OpenRLHF's own experience maker."""
        new = adopt(cls, maker)
        new.metrics = {}
        new.guide = GuideSettings.of(maker.args)
        return new

    @torch.no_grad()
    def compute_advantages_and_returns(self, experiences: list[Experience]) -> list[Experience]:
        """Advantages of a whole rollout batch, whatever its micro-batches; OpenRLHF's own estimators are left to
        OpenRLHF."""
        begin = time.perf_counter()
        self._batch = batch = whole_batch(experiences, self.args.rollout.n_samples_per_prompt)
        if batch.actor_logprob[batch.mask].isnan().any():
            raise PolicyBroken(
                f"The policy's log-probabilities of step {self.step}'s responses are NaN, so training stops before it "
                "spoils the weights: go on from the last checkpoint, with a lower learning rate if it happens again."
            )
        extra = self._punish_overlong(experiences, batch) if self.args.shaping.grop else {}
        shaped = None
        if self.args.algo.advantage.estimator in ESTIMATORS:
            shaped = self._shape(experiences, batch)
        elif self.guide is not None:
            self._normalise(experiences, batch)
        else:
            experiences = super().compute_advantages_and_returns(experiences)
        if self.args.shaping.top_entropy_share < 1:
            extra |= self._keep_forking_tokens(experiences, batch)
        extra["shaping/seconds"] = time.perf_counter() - begin
        advantages = torch.zeros_like(batch.entropy)
        for experience, rows in zip(experiences, batch.order, strict=True):
            advantages[rows, : experience.advantages.shape[1]] = experience.advantages.float()
        self._measure(experiences, batch, shaped, advantages)
        self.metrics |= extra
        if self.guide is not None:
            self._mix(experiences, batch, advantages)
        return experiences

    def of_the_policy(self, experiences: list[Experience]) -> list[Experience]:
        """What OpenRLHF's statistics of a rollout batch are taken over: the policy's own responses in the first batch.

        Args:
            experiences: those that `compute_advantages_and_returns` has returned last.
        """
        if self.guide is None:
            return experiences
        found = []
        for experience, rows in zip(experiences, self._batch.order, strict=True):
            own = self._batch.is_policy[rows]
            found.append(
                Experience(
                    info={"reward": experience.info["reward"][own]},
                    response_length=experience.response_length[own],
                    truncated=experience.truncated[own],
                )
            )
        return found

    def _punish_overlong(self, experiences: list[Experience], batch: WholeBatch) -> dict[str, float]:
        """Add Group Relative Overlong Punishment to the rewards, whatever the estimator makes of them."""
        punishment = overlong_punishment(batch.mask.sum(-1), correctness(batch.scores), batch.group)
        for experience, rows in zip(experiences, batch.order, strict=True):
            experience.rewards = experience.rewards.flatten().float() + punishment[rows]
        punishment = punishment[batch.is_policy]
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
        penalised = self._penalised(experiences, batch)
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
        length = batch.mask.sum(-1).clamp(min=1)
        mean_shaped = shaped.rewards.sum(-1) / length
        self._hand_out(experiences, batch, shaped.advantages, penalised, mean_shaped)
        return shaped

    def _normalise(self, experiences: list[Experience], batch: WholeBatch) -> None:
        """OpenRLHF's group_norm for groups of any sizes: its own takes all for --rollout.n_samples_per_prompt."""
        penalised = self._penalised(experiences, batch)
        normalised = group_norm(penalised, batch.group).clamp(*self.args.reward.clip_range)
        self._hand_out(experiences, batch, normalised[:, None] * batch.mask, penalised, normalised)

    def _penalised(self, experiences: list[Experience], batch: WholeBatch) -> torch.Tensor:
        """(N,) the rewards with OpenRLHF's length penalties."""
        for experience in experiences:
            experience.rewards = experience.rewards.flatten().float()
        apply_length_penalties(experiences, self.args)
        penalised = torch.zeros_like(batch.rewards)
        for experience, rows in zip(experiences, batch.order, strict=True):
            penalised[rows] = experience.rewards
        return penalised

    def _hand_out(
        self,
        experiences: list[Experience],
        batch: WholeBatch,
        advantages: torch.Tensor,
        penalised: torch.Tensor,
        returns: torch.Tensor,
    ) -> None:
        """Put (N, A) advantages into the micro-batches, and (N,) rewards and returns, which OpenRLHF logs."""
        deviation = _group_std(penalised, batch.group)
        for experience, rows in zip(experiences, batch.order, strict=True):
            columns = slice(experience.action_mask.shape[1])
            experience.advantages = advantages[rows, columns]
            experience.returns = experience.advantages.clone()
            experience.info["group_reward_std"] = deviation[rows]
            experience.info["return"] = returns[rows]
            experience.kl = None

    def _mix(self, experiences: list[Experience], batch: WholeBatch, advantages: torch.Tensor) -> None:
        """Let OpenRLHF's loss be that of both policies and both batches: the guide's log-probabilities take the place
        of the old ones on its tokens, and the second batch's own mean and weight are folded into the advantages."""
        assert self.guide is not None
        low, high = self.args.actor.eps_clip_low_high
        self.metrics |= guide_statistics(
            batch.actor_logprob,
            batch.rollout_logprob,
            batch.mask & batch.is_guide[:, None],
            advantages,
            clip_low=low,
            clip_high=high,
        )
        unit: Literal["token", "response"] = "response" if self._is_per_response() else "token"
        factors = batch_factors(batch.mask, batch.is_second, weight=self.guide.weight, unit=unit)
        fillers = int(batch.is_filler.sum())
        counted = int(batch.mask.sum() if unit == "token" else batch.mask.any(-1).sum())
        if counted:  # OpenRLHF's mean counts the fillers too, one token each
            factors *= (counted + fillers) / counted
        for experience, rows in zip(experiences, batch.order, strict=True):
            columns = slice(experience.action_mask.shape[1])
            experience.advantages = experience.advantages * factors[rows, None]
            guide, logprob = batch.is_guide[rows], batch.rollout_logprob[rows, columns]
            for name in ("action_log_probs", "rollout_log_probs"):
                old = getattr(experience, name)
                if old is not None:
                    setattr(experience, name, torch.where(guide[:, None], logprob.to(old.dtype), old))

    def _is_per_response(self) -> bool:
        """Whether the loss is a mean over responses instead of tokens."""
        actor = self.args.actor
        return (
            self.args.algo.advantage.estimator == "grpo_s"
            or actor.policy_loss_type == "gspo"
            or getattr(actor, "loss_agg_mode", "token-mean") != "token-mean"
        )

    def _measure(
        self, experiences: list[Experience], batch: WholeBatch, shaped: Shaped | None, advantages: torch.Tensor
    ) -> None:
        try:
            correct = correctness(batch.scores)
        except NotBinary:
            correct = None  # only with an estimator of OpenRLHF's own, which takes any reward
        rewards = None if shaped is None else shaped.rewards
        own = batch.is_policy
        self.metrics = rollout_metrics(
            entropy=batch.entropy[own],
            mask=batch.mask[own],
            correct=None if correct is None else correct[own],
            group=batch.group[own],
            advantages=advantages[own],
            shaped_rewards=None if rewards is None else rewards[own],
            logprob_gap=(batch.rollout_logprob - batch.actor_logprob)[own].abs(),
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
        real = ~batch.is_filler
        sizes = batch.group[real].bincount()
        informative = torch.zeros_like(sizes, dtype=torch.bool)
        if correct is not None:
            hits = torch.zeros_like(sizes).index_add_(0, batch.group[real], correct[real].long())
            informative = (hits > 0) & (hits < sizes)
        chosen = informative.long().argsort(descending=True, stable=True)[: self.args.shaping.save_rollouts].tolist()
        place = {int(row): (m, i) for m, rows in enumerate(batch.order) for i, row in enumerate(rows)}
        text_of = functools.cache(lambda token: self.tokenizer.decode([token]))  # most tokens come many times
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
                        "guide": bool(batch.is_guide[row]),
                        "tokens": [text_of(token) for token in tokens],
                        "entropy": _significant(batch.entropy[row][mask]),
                        "shaped_reward": None if rewards is None else _significant(rewards[row][mask]),
                        "advantage": _significant(advantages[row][mask]),
                    }
                    file.write(json.dumps(line) + "\n")


def _group_std(values: torch.Tensor, group: torch.Tensor) -> torch.Tensor:
    """(N,) the standard deviation, with Bessel's correction, of each response's group; 0 in a group of one."""
    size = group.bincount().clamp(min=1).to(values.dtype)
    mean = torch.zeros_like(size).index_add_(0, group, values) / size
    squares = torch.zeros_like(size).index_add_(0, group, (values - mean[group]).square())
    return (squares / (size - 1).clamp(min=1)).sqrt()[group]


def _significant(values: torch.Tensor) -> list[float]:
    """What float32 holds and no more: places after the point would lose the small entropies, whose inverse counts."""
    return [float(f"{value:.7g}") for value in values.tolist()]


def rollouts_path(args: Any) -> Path:
    """Where rollouts.jsonl goes, from OpenRLHF's nested ``args``: beside the metrics."""
    return metrics_path(args).with_name("rollouts.jsonl")
