"""Runs in the controller: computes the advantages of a rollout batch."""

import time
from typing import Any

import torch
from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker, apply_length_penalties

from openrlhf_gtpo.algorithms.estimators import Estimate, Rollouts
from openrlhf_gtpo.algorithms.groups import per_group
from openrlhf_gtpo.algorithms.table import Estimator, line_of
from openrlhf_gtpo.batch.transformation import Transformation
from openrlhf_gtpo.batch.whole_batch import NotBinary, WholeBatch, correctness, whole_batch
from openrlhf_gtpo.controller.transformations import transformations
from openrlhf_gtpo.errors import UserError
from openrlhf_gtpo.openrlhf_internals import rebuilt_as
from openrlhf_gtpo.seeds import derived


class ShapingFailed(UserError):
    """An estimator refused the entropies or scores of a rollout batch; its sentence says why."""


class PolicyBroken(UserError):
    """The policy's log-probabilities are NaN, so an update would make every weight NaN."""


class ExperienceMaker(RemoteExperienceMaker):
    """OpenRLHF's experience maker with the estimators of our table, and with metrics for all estimators."""

    metrics: dict[str, float]
    transformations: list[Transformation]
    step = 0
    """The global step of the next batch; the trainer sets it."""
    _kept: list[list[torch.Tensor]]
    """Each micro-batch's kept tokens; empty in runs without."""
    _counted: list[torch.Tensor] | None
    """Of the last batch, each micro-batch's (B,) bool, where metrics are not of all responses."""

    @classmethod
    def like(cls, maker: RemoteExperienceMaker) -> "ExperienceMaker":
        """Build one from OpenRLHF's own experience maker."""
        new = rebuilt_as(cls, maker)
        new.metrics = {}
        new.transformations = transformations(maker.args, maker.tokenizer)
        return new

    def split_rollout_samples(self, rollout_samples: list[Experience]) -> list[Experience]:
        """As OpenRLHF's; empties the list, since the micro-batches have all that is in it."""
        micro_batches = super().split_rollout_samples(rollout_samples)
        rollout_samples.clear()
        return micro_batches

    def make_experience(self, samples_list: list[Experience]) -> list[Experience]:
        """As OpenRLHF's, whose policy gets the tokens that each token was sampled from, where they are known."""
        self._kept = [sample.info["kept"] for sample in samples_list if "kept" in sample.info]
        return super().make_experience(samples_list)

    def _dispatch_forward(self, group: Any, sync_condition: Any, **of_micro_batches: Any) -> Any:
        if self._kept and group is self.actor_model_group:
            of_micro_batches["kept"] = self._kept
        return super()._dispatch_forward(group, sync_condition, **of_micro_batches)

    @torch.no_grad()
    def compute_advantages_and_returns(self, experiences: list[Experience]) -> list[Experience]:
        """Advantages of a rollout batch, computed over all of its micro-batches.

        The micro-batches are joined once into (N, T) tensors, every step works on these, and the advantages are
        split again at the end.
        """
        begin = time.perf_counter()
        batch = self._put_together(experiences)
        batch.correct = self._correctness(batch)
        for transformation in self.transformations:
            transformation.before_advantages(batch)
        estimator = self._own_estimator()
        estimate = self._openrlhfs_estimate(batch) if estimator is None else self._estimate(estimator, batch)
        batch.advantages, batch.shaped_rewards = estimate.advantages, estimate.shaped_rewards
        batch.metrics |= {**estimate.metrics, "shaping/seconds": time.perf_counter() - begin}
        for transformation in reversed(self.transformations):
            transformation.before_updates(batch)
        self.metrics = batch.metrics
        self._counted = None if batch.counted is None else batch.rows(batch.counted)
        for experience, own in zip(experiences, batch.columns(batch.advantages), strict=True):
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

    def counted(self, experiences: list[Experience]) -> list[Experience]:
        """The responses for OpenRLHF's statistics of a rollout batch: those that our metrics are of.

        Args:
            experiences: as `compute_advantages_and_returns` returned them last.
        """
        if self._counted is None:
            return experiences
        return [
            Experience(
                info={"reward": experience.info["reward"][own]},
                response_length=experience.response_length[own],
                truncated=experience.truncated[own],
            )
            for experience, own in zip(experiences, self._counted, strict=True)
        ]

    def _put_together(self, experiences: list[Experience]) -> WholeBatch:
        batch = whole_batch(experiences, self.args.rollout.n_samples_per_prompt, self.step)
        if (batch.actor_logprob.isnan() & batch.mask).any():
            raise PolicyBroken(
                f"The policy's log-probabilities of step {self.step}'s responses are NaN, so training stops before "
                "the update: continue from the last checkpoint, with a lower learning rate if it happens again."
            )
        return batch

    def _own_estimator(self) -> Estimator | None:
        """The line of our table; None for an estimator of OpenRLHF, such as its group_norm for groups of one size."""
        estimator = line_of(self.args.algo.advantage.estimator)
        changed = any(one.changes_groups for one in self.transformations)
        return None if estimator is None or (estimator.openrlhfs_own and not changed) else estimator

    def _correctness(self, batch: WholeBatch) -> torch.Tensor | None:
        """(N,) bool; None where scores are not binary and nothing needs them to be."""
        estimator = self._own_estimator()
        try:
            return correctness(batch.scores)
        except NotBinary:
            needs = [one.needs_correctness for one in self.transformations]
            if any(needs) or (estimator is not None and estimator.needs_correctness):
                raise
            return None

    def _estimate(self, estimator: Estimator, batch: WholeBatch) -> Estimate:
        """The estimate of an estimator of our table; also sets the rewards that OpenRLHF logs."""
        reward = self._with_length_penalties(batch)
        rollouts = Rollouts(
            entropy=batch.entropy,
            logprob=batch.rollout_logprob,
            mask=batch.mask,
            correct=batch.correct,
            group=batch.group,
            reward=reward,
            penalty=reward - batch.rewards,
            reward_clip=self.args.reward.clip_range,
            seed=derived(self.args.train.seed, "weights", self.step),
        )
        try:
            estimate: Estimate = estimator.load()(rollouts, **self.args.plugin.options(estimator.flags))
        except ValueError as error:
            why = str(error).rstrip(".")
            raise ShapingFailed(f"The rollout batch of step {self.step} cannot be shaped: {why}.") from error
        deviation = _group_std(reward, batch.group)
        for experience, rows in zip(batch.experiences, batch.order, strict=True):
            experience.rewards = reward[rows]
            experience.info |= {"group_reward_std": deviation[rows], "return": estimate.returns[rows]}
            for name, number in estimate.for_loss.items():
                experience.info[name] = torch.full((len(rows),), number)
            if "reward" in experience.info:
                experience.info["reward"] = reward[rows]
            experience.kl = None
        return estimate

    def _openrlhfs_estimate(self, batch: WholeBatch) -> Estimate:
        """The estimate of OpenRLHF's own estimator, which works on micro-batches."""
        for experience, reward in zip(batch.experiences, batch.rows(batch.rewards + batch.penalty), strict=True):
            experience.rewards = reward
        super().compute_advantages_and_returns(batch.experiences)
        advantages = batch.together([experience.advantages for experience in batch.experiences])
        return Estimate(advantages, returns=batch.rewards)

    def _with_length_penalties(self, batch: WholeBatch) -> torch.Tensor:
        """(N,) rewards with every penalty: OpenRLHF's own are computed on the batch as one micro-batch."""
        everything = Experience(
            rewards=batch.rewards + batch.penalty,
            response_length=batch.response_length,
            truncated=batch.truncated,
            info={},
        )
        apply_length_penalties([everything], self.args)
        return everything.rewards


def _group_std(values: torch.Tensor, group: torch.Tensor) -> torch.Tensor:
    """(N,) the standard deviation, with Bessel's correction, of each response's group; 0 in a group of one."""
    size = group.bincount().clamp(min=1).to(values.dtype)
    mean = per_group(values, group, "mean")
    squares = per_group((values - mean[group]).square(), group)
    return (squares / (size - 1).clamp(min=1)).sqrt()[group]
