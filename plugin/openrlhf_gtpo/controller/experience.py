"""Runs in the controller: computes the advantages of a rollout batch."""

import time

import torch
from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker, apply_length_penalties

from openrlhf_gtpo.algorithms.estimators import Estimate, Estimator, Rollouts, estimator_named
from openrlhf_gtpo.algorithms.forking import forking_tokens
from openrlhf_gtpo.algorithms.punishment import overlong_punishment
from openrlhf_gtpo.algorithms.reductions import per_group
from openrlhf_gtpo.batch import NotBinary, WholeBatch, correctness, whole_batch
from openrlhf_gtpo.controller.files import save_groups
from openrlhf_gtpo.controller.metrics import rollout_metrics
from openrlhf_gtpo.errors import UserError
from openrlhf_gtpo.guide.batch import read_marks, weigh
from openrlhf_gtpo.host import overrides, rebuilt_as
from openrlhf_gtpo.seeds import derived


class ShapingFailed(UserError):
    """An estimator refused the entropies or scores of a rollout batch; its sentence says why."""


class PolicyBroken(UserError):
    """The policy's log-probabilities are NaN, so an update would make every weight NaN."""


@overrides("split_rollout_samples", "compute_advantages_and_returns")
class ExperienceMaker(RemoteExperienceMaker):
    """OpenRLHF's experience maker with our estimators, and with metrics for all estimators."""

    metrics: dict[str, float]
    step = 0
    """The global step of the next batch; the trainer sets it."""
    _counted: list[torch.Tensor] | None
    """Of the last batch, each micro-batch's (B,) bool, where metrics are not of all responses."""

    @classmethod
    def like(cls, maker: RemoteExperienceMaker) -> "ExperienceMaker":
        """Build one from OpenRLHF's own experience maker."""
        new = rebuilt_as(cls, maker)
        new.metrics = {}
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
        args, guided = self.args, bool(self.args.guide.model)
        batch = whole_batch(experiences, args.rollout.n_samples_per_prompt, self.step)
        if (batch.actor_logprob.isnan() & batch.mask).any():
            raise PolicyBroken(
                f"The policy's log-probabilities of step {self.step}'s responses are NaN, so training stops before "
                "the update: continue from the last checkpoint, with a lower learning rate if it happens again."
            )
        estimator = estimator_named(args.algo.advantage.estimator)
        batch.correct = self._correctness(batch, estimator)
        if guided:
            read_marks(batch)
        if args.shaping.grop:
            batch.metrics |= _punish(batch)
        if estimator is None or (estimator.openrlhfs_own and not guided):
            estimate = self._openrlhfs_estimate(batch)
        else:
            estimate = self._estimate(estimator, batch)
        batch.advantages, batch.shaped_rewards = estimate.advantages, estimate.shaped_rewards
        batch.metrics |= {**estimate.metrics, "shaping/seconds": time.perf_counter() - begin}
        if args.shaping.top_entropy_share < 1:
            batch.metrics |= _only_forking_tokens(batch, args.shaping.top_entropy_share)
        batch.metrics |= rollout_metrics(batch)
        if args.shaping.save_rollouts:
            save_groups(batch, args.shaping.save_rollouts, args.logger.metrics_path, self.tokenizer)
        if guided:
            weigh(batch, args, per_response=estimator is not None and estimator.per_response)
        self.metrics = batch.metrics
        self._counted = None if batch.counted is None else batch.rows(batch.counted)
        for experience, own in zip(experiences, batch.columns(batch.advantages), strict=True):
            experience.advantages = own
            if self.critic_model_group is None:
                experience.returns = None  # a critic alone reads them, and they are sent with the advantages
        return experiences

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

    def _correctness(self, batch: WholeBatch, estimator: Estimator | None) -> torch.Tensor | None:
        """(N,) bool; None where scores are not binary and nothing needs them to be."""
        try:
            return correctness(batch.scores)
        except NotBinary:
            if self.args.shaping.grop or (estimator is not None and estimator.needs_correctness):
                raise
            return None

    def _estimate(self, estimator: Estimator, batch: WholeBatch) -> Estimate:
        """The estimate of one of our estimators; also sets the rewards that OpenRLHF logs."""
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
            after_answer=batch.after_answer,
            seed=derived(self.args.train.seed, "weights", self.step),
        )
        options = {name: getattr(self.args.shaping, name) for name in estimator.options}
        try:
            estimate: Estimate = estimator.function(rollouts, **options)
        except ValueError as error:
            why = str(error).rstrip(".")
            raise ShapingFailed(f"The rollout batch of step {self.step} cannot be shaped: {why}.") from error
        deviation = _group_std(reward, batch.group)
        for experience, rows in zip(batch.experiences, batch.order, strict=True):
            experience.rewards = reward[rows]
            experience.info |= {"group_reward_std": deviation[rows], "return": estimate.returns[rows]}
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


def _punish(batch: WholeBatch) -> dict[str, float]:
    """Group Relative Overlong Punishment, added to the rewards."""
    assert batch.correct is not None
    batch.penalty = overlong_punishment(batch.mask.sum(-1), batch.correct, batch.group)
    own = batch.penalty[batch.of_metrics]
    return {
        "overlong/punished_share": (own < 0).float().mean().item(),
        "overlong/punishment_mean": own.mean().item(),
    }


def _only_forking_tokens(batch: WholeBatch, share: float) -> dict[str, float]:
    """Only the tokens of the highest entropy keep their advantage, and so their gradient."""
    kept = forking_tokens(batch.entropy, batch.mask, share)
    batch.advantages = batch.advantages * kept
    return {
        "forking/kept_share": (kept.sum() / batch.mask.sum()).item(),
        "forking/entropy_threshold": batch.entropy[kept].min().item(),
    }


def _group_std(values: torch.Tensor, group: torch.Tensor) -> torch.Tensor:
    """(N,) the standard deviation, with Bessel's correction, of each response's group; 0 in a group of one."""
    size = group.bincount().clamp(min=1).to(values.dtype)
    mean = per_group(values, group, "mean")
    squares = per_group((values - mean[group]).square(), group)
    return (squares / (size - 1).clamp(min=1)).sqrt()[group]
