"""Runs in the controller: computes the advantages of a rollout batch."""

import time
from typing import Literal

import torch
from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker, apply_length_penalties

from openrlhf_gtpo.algorithms.estimators import Estimate, Rollouts
from openrlhf_gtpo.algorithms.forking import forking_tokens
from openrlhf_gtpo.algorithms.groups import per_group
from openrlhf_gtpo.algorithms.mixed_policy import batch_factors, guide_statistics
from openrlhf_gtpo.algorithms.punishment import overlong_punishment
from openrlhf_gtpo.algorithms.table import ESTIMATORS, Estimator
from openrlhf_gtpo.controller.metrics import rollout_metrics
from openrlhf_gtpo.controller.rollouts_file import rollouts_path
from openrlhf_gtpo.controller.saved_rollouts import save_rollouts
from openrlhf_gtpo.controller.whole_batch import NotBinary, WholeBatch, correctness, whole_batch
from openrlhf_gtpo.errors import UserError
from openrlhf_gtpo.openrlhf_internals import rebuilt_as
from openrlhf_gtpo.seeds import derived
from openrlhf_gtpo.settings import GuideSettings


class ShapingFailed(UserError):
    """An estimator refused the entropies or scores of a rollout batch; its sentence says why."""


class PolicyBroken(UserError):
    """The policy's log-probabilities are NaN, so an update would make every weight NaN."""


class ExperienceMaker(RemoteExperienceMaker):
    """OpenRLHF's experience maker with the estimators of our table, and with metrics for all estimators."""

    metrics: dict[str, float]
    guide: GuideSettings | None
    step = 0
    """The global step of the next batch; the trainer sets it."""
    _of_the_policy: list[torch.Tensor]
    """Of the last batch, each micro-batch's (B,) bool."""

    @classmethod
    def like(cls, maker: RemoteExperienceMaker) -> "ExperienceMaker":
        """Build one from OpenRLHF's own experience maker."""
        new = rebuilt_as(cls, maker)
        new.metrics = {}
        new.guide = maker.args.plugin.guide
        return new

    def split_rollout_samples(self, rollout_samples: list[Experience]) -> list[Experience]:
        """As OpenRLHF's; empties the list, since the micro-batches have all that is in it."""
        micro_batches = super().split_rollout_samples(rollout_samples)
        rollout_samples.clear()
        return micro_batches

    @torch.no_grad()
    def compute_advantages_and_returns(self, experiences: list[Experience]) -> list[Experience]:
        """Advantages of a rollout batch, computed over all of its micro-batches.

        The micro-batches are joined once into (N, T) tensors, every step works on these, and the advantages are
        split again at the end.
        """
        begin = time.perf_counter()
        batch = self._put_together(experiences)
        self._of_the_policy = batch.rows(batch.is_policy)
        correct = self._correctness(batch)
        punishment, punished = self._overlong_punishment(batch, correct)
        estimator = self._own_estimator()
        if estimator is None:
            estimate = self._openrlhfs_estimate(experiences, batch, punishment)
        else:
            estimate = self._estimate(estimator, experiences, batch, correct, punishment)
        advantages, forked = self._only_forking_tokens(batch, estimate.advantages)
        seconds = time.perf_counter() - begin

        self.metrics = self._measured(batch, correct, advantages, estimate.shaped_rewards)
        self.metrics |= {**estimate.metrics, **punished, **forked, "shaping/seconds": seconds}
        if self.args.plugin.groups_saved:
            save_rollouts(
                rollouts_path(self.args.plugin),
                self.step,
                self.args.plugin.groups_saved,
                experiences,
                batch,
                correct=correct,
                advantages=advantages,
                shaped_rewards=estimate.shaped_rewards,
                decode=self.tokenizer.decode,
            )
        if self.guide is not None:
            advantages = self._mixed(experiences, batch, advantages)
        for experience, own in zip(experiences, batch.columns(advantages, experiences), strict=True):
            experience.advantages = own
            if self.critic_model_group is None:
                experience.returns = None  # a critic alone reads them, and they are sent with the advantages
        return experiences

    @torch.no_grad()
    def get_cumulative_returns(self, rewards: torch.Tensor, action_mask: torch.Tensor, gamma: float) -> torch.Tensor:
        """As OpenRLHF's, which adds up column after column in Python, in a step's time for thousands of columns.

        Here each pass doubles the columns that a sum has. With one reward a row and gamma 1 the values are the same to
        the last bit, otherwise up to the rounding of float32: sums are in float64.

        Args:
            rewards: (B, A) float.
            action_mask: (B, A), 1 where a reward counts; None for everywhere.
            gamma: discount factor.

        Returns:
            (B, A) of the rewards' type: the sum over k of gamma^k times the reward k columns later.
        """
        total = (rewards if action_mask is None else action_mask * rewards).double()
        reach = 1
        while reach < total.shape[1]:
            total[:, :-reach] += gamma**reach * total[:, reach:]
            reach *= 2
        return total.to(rewards.dtype)

    def of_the_policy(self, experiences: list[Experience]) -> list[Experience]:
        """The responses for OpenRLHF's statistics of a rollout batch: the policy's own in the first batch.

        Args:
            experiences: as `compute_advantages_and_returns` returned them last.
        """
        if self.guide is None:
            return experiences
        found = []
        for experience, own in zip(experiences, self._of_the_policy, strict=True):
            found.append(
                Experience(
                    info={"reward": experience.info["reward"][own]},
                    response_length=experience.response_length[own],
                    truncated=experience.truncated[own],
                )
            )
        return found

    def _put_together(self, experiences: list[Experience]) -> WholeBatch:
        batch = whole_batch(experiences, self.args.rollout.n_samples_per_prompt)
        if (batch.actor_logprob.isnan() & batch.mask).any():
            raise PolicyBroken(
                f"The policy's log-probabilities of step {self.step}'s responses are NaN, so training stops before "
                "the update: continue from the last checkpoint, with a lower learning rate if it happens again."
            )
        return batch

    def _own_estimator(self) -> Estimator | None:
        """The line of our table; None for an estimator of OpenRLHF, such as its group_norm for groups of one size."""
        estimator = ESTIMATORS.get(self.args.algo.advantage.estimator)
        if estimator is None or (estimator.openrlhfs_own and self.guide is None):
            return None
        return estimator

    def _correctness(self, batch: WholeBatch) -> torch.Tensor | None:
        """(N,) bool; None where scores are not binary and nothing needs them to be."""
        estimator = self._own_estimator()
        try:
            return correctness(batch.scores)
        except NotBinary:
            if self.args.plugin.punishes_length or (estimator is not None and estimator.needs_correctness):
                raise
            return None

    def _overlong_punishment(
        self, batch: WholeBatch, correct: torch.Tensor | None
    ) -> tuple[torch.Tensor, dict[str, float]]:
        """Group Relative Overlong Punishment: (N,) penalties to add to the rewards, and the metrics."""
        if not self.args.plugin.punishes_length:
            return torch.zeros_like(batch.rewards), {}
        assert correct is not None
        punishment = overlong_punishment(batch.mask.sum(-1), correct, batch.group)
        own = punishment[batch.is_policy]
        return punishment, {
            "overlong/punished_share": (own < 0).float().mean().item(),
            "overlong/punishment_mean": own.mean().item(),
        }

    def _only_forking_tokens(
        self, batch: WholeBatch, advantages: torch.Tensor
    ) -> tuple[torch.Tensor, dict[str, float]]:
        """(N, T) the advantages of the tokens that keep their gradient, 0 elsewhere; and the metrics."""
        share = self.args.plugin.top_entropy_share
        if share == 1:
            return advantages, {}
        kept = forking_tokens(batch.entropy, batch.mask, share)
        return advantages * kept, {
            "forking/kept_share": (kept.sum() / batch.mask.sum()).item(),
            "forking/entropy_threshold": batch.entropy[kept].min().item(),
        }

    def _estimate(
        self,
        estimator: Estimator,
        experiences: list[Experience],
        batch: WholeBatch,
        correct: torch.Tensor | None,
        punishment: torch.Tensor,
    ) -> Estimate:
        """The estimate of an estimator of our table; also sets the rewards that OpenRLHF logs."""
        reward = self._with_length_penalties(batch, batch.rewards + punishment)
        rollouts = Rollouts(
            entropy=batch.entropy,
            logprob=batch.rollout_logprob,
            mask=batch.mask,
            correct=correct,
            group=batch.group,
            reward=reward,
            penalty=reward - batch.rewards,
            reward_clip=self.args.reward.clip_range,
            seed=derived(self.args.train.seed, "weights", self.step),
        )
        try:
            found: Estimate = estimator.load()(rollouts, **self.args.plugin.options(estimator.flags))
        except ValueError as error:
            raise ShapingFailed(f"The rollout batch of step {self.step} cannot be shaped: {error}") from error
        deviation = _group_std(reward, batch.group)
        for experience, rows in zip(experiences, batch.order, strict=True):
            experience.rewards = reward[rows]
            experience.info |= {"group_reward_std": deviation[rows], "return": found.returns[rows]}
            for name, number in found.for_loss.items():
                experience.info[name] = torch.full((len(rows),), number)
            if "reward" in experience.info:
                experience.info["reward"] = reward[rows]
            experience.kl = None
        return found

    def _openrlhfs_estimate(
        self, experiences: list[Experience], batch: WholeBatch, punishment: torch.Tensor
    ) -> Estimate:
        """The estimate of OpenRLHF's own estimator, which works on micro-batches."""
        for experience, reward in zip(experiences, batch.rows(batch.rewards + punishment), strict=True):
            experience.rewards = reward
        super().compute_advantages_and_returns(experiences)
        advantages = batch.together([experience.advantages for experience in experiences])
        return Estimate(advantages, returns=batch.rewards)

    def _with_length_penalties(self, batch: WholeBatch, rewards: torch.Tensor) -> torch.Tensor:
        """(N,) rewards with OpenRLHF's own length penalties, computed on the batch as one micro-batch."""
        everything = Experience(
            rewards=rewards.clone(), response_length=batch.response_length, truncated=batch.truncated, info={}
        )
        apply_length_penalties([everything], self.args)
        return everything.rewards

    def _mixed(self, experiences: list[Experience], batch: WholeBatch, advantages: torch.Tensor) -> torch.Tensor:
        """Prepare the batch so that OpenRLHF's loss is the one of `openrlhf_gtpo.algorithms.mixed_policy`: the guide's
        log-probabilities replace the old ones on its tokens, and the advantages get the factors of both batches."""
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
        if counted:  # the fillers are in OpenRLHF's mean too, one token each
            factors *= (counted + fillers) / counted
        logprobs = batch.columns(batch.rollout_logprob, experiences)
        for experience, guide, logprob in zip(experiences, batch.rows(batch.is_guide), logprobs, strict=True):
            for name in ("action_log_probs", "rollout_log_probs"):
                old = getattr(experience, name)
                if old is not None:
                    setattr(experience, name, torch.where(guide[:, None], logprob.to(old.dtype), old))
        return advantages * factors[:, None]

    def _is_per_response(self) -> bool:
        """Whether the loss is a mean over responses instead of tokens."""
        actor, estimator = self.args.actor, ESTIMATORS.get(self.args.algo.advantage.estimator)
        return (
            (estimator is not None and estimator.per_response)
            or actor.policy_loss_type == "gspo"
            or getattr(actor, "loss_agg_mode", "token-mean") != "token-mean"
        )

    def _measured(
        self,
        batch: WholeBatch,
        correct: torch.Tensor | None,
        advantages: torch.Tensor,
        shaped_rewards: torch.Tensor | None,
    ) -> dict[str, float]:
        # Without a guide every response is the policy's; an index would copy each tensor.
        own = batch.is_policy if self.guide is not None else slice(None)
        return rollout_metrics(
            entropy=batch.entropy[own],
            mask=batch.mask[own],
            correct=None if correct is None else correct[own],
            group=batch.group[own],
            advantages=advantages[own],
            shaped_rewards=None if shaped_rewards is None else shaped_rewards[own],
            rollout_logprob=batch.rollout_logprob[own],
            actor_logprob=batch.actor_logprob[own],
        )


def _group_std(values: torch.Tensor, group: torch.Tensor) -> torch.Tensor:
    """(N,) the standard deviation, with Bessel's correction, of each response's group; 0 in a group of one."""
    size = group.bincount().clamp(min=1).to(values.dtype)
    mean = per_group(values, group, "mean")
    squares = per_group((values - mean[group]).square(), group)
    return (squares / (size - 1).clamp(min=1)).sqrt()[group]
