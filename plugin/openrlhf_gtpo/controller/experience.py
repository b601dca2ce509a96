"""Runs in the controller: computes the advantages of a rollout batch."""

import math
import time

import torch
from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker, apply_length_penalties
from openrlhf.utils.seqlen_balancing import get_minimum_num_micro_batch_size, get_seqlen_balanced_partitions

from openrlhf_gtpo.algorithms.estimators import Estimate, Estimator, estimator_named
from openrlhf_gtpo.algorithms.forking import forking_tokens
from openrlhf_gtpo.algorithms.punishment import overlong_punishment
from openrlhf_gtpo.algorithms.reductions import per_group
from openrlhf_gtpo.batch import RolloutBatch, correctness
from openrlhf_gtpo.controller.files import save_groups
from openrlhf_gtpo.controller.metrics import rollout_metrics
from openrlhf_gtpo.controller.micro_batches import MicroBatches, experiences_of
from openrlhf_gtpo.errors import UserError
from openrlhf_gtpo.guide.batch import measure_from_guide, weigh
from openrlhf_gtpo.host import overrides, rebuilt_as
from openrlhf_gtpo.seeds import derived


class ShapingFailed(UserError):
    """An estimator refused the entropies or scores of a rollout batch; its sentence says why."""


class PolicyBroken(UserError):
    """The policy's log-probabilities are NaN, so an update would make every weight NaN."""


@overrides("split_rollout_samples", "compute_advantages_and_returns")
class ExperienceMaker(RemoteExperienceMaker):
    """OpenRLHF's experience maker with our estimators, and with metrics for all estimators.

    Attributes:
        batch: the one of this step.
    """

    batch: RolloutBatch

    @classmethod
    def like(cls, maker: RemoteExperienceMaker) -> "ExperienceMaker":
        """Build one from OpenRLHF's own experience maker."""
        return rebuilt_as(cls, maker)

    def split_rollout_samples(self, rollout_samples: RolloutBatch) -> list[Experience]:
        """OpenRLHF's micro-batches of a batch. Of dynamic ones each rank gets as many: their number is rounded up;
        OpenRLHF rounds it down, and exceeds ``--rollout.max_tokens_per_gpu``, up to twice."""
        self.batch = rollout_samples
        samples, args = experiences_of(rollout_samples), self.args
        if not args.train.dynamic_batch_enable:
            return super().split_rollout_samples(samples)
        lengths = [int(sample.total_length) for sample in samples]
        together = (args.ds.ring_attn_size, args.ds.tensor_parallel_size)
        needed = get_minimum_num_micro_batch_size(lengths, args.rollout.max_tokens_per_gpu, *together)
        ranks = args.actor.num_nodes * args.actor.num_gpus_per_node // math.prod(together)
        for row, sample in enumerate(samples):
            sample.index = [row]
        return [
            Experience.concat_experiences([samples[row] for row in rows], self.tokenizer.pad_token_id)
            for rows in get_seqlen_balanced_partitions(lengths, needed + -needed % ranks, False)
        ]

    @torch.no_grad()
    def compute_advantages_and_returns(self, experiences: list[Experience]) -> list[Experience]:
        """Put the advantages of the rollout batch, computed over whole groups, into its micro-batches."""
        begin = time.perf_counter()
        batch, micro = self.batch, MicroBatches(experiences)
        batch.actor_logprob = micro.read("action_log_probs")
        batch.given_reward = micro.read("rewards")  # of a reward model too, which OpenRLHF asked meanwhile
        estimator = estimator_named(self.args.algo.advantage.estimator)
        self._check(batch, estimator)
        batch.reward = batch.given_reward + (_punishment(batch) if self.args.shaping.grop else 0.0)
        if estimator is None or (estimator.openrlhfs_own and not self.args.guide.model):
            estimate = self._openrlhfs_estimate(batch, micro)
        else:
            estimate = self._estimate(batch, micro, estimator)
        batch.advantages, batch.shaped_rewards = estimate.advantages, estimate.shaped_rewards
        batch.metrics |= {**estimate.metrics, "shaping/seconds": time.perf_counter() - begin}
        self._finish(batch, micro, per_response=estimator is not None and estimator.per_response)
        return experiences

    def counted(self, experiences: list[Experience]) -> list[Experience]:
        """The responses for OpenRLHF's statistics of a rollout batch: those that our metrics are of.

        Args:
            experiences: as `compute_advantages_and_returns` returned them last.
        """
        own = self.batch.counted
        if isinstance(own, slice):
            return experiences
        return [
            Experience(
                info={"reward": experience.info["reward"][rows]},
                response_length=experience.response_length[rows],
                truncated=experience.truncated[rows],
            )
            for experience, rows in zip(experiences, MicroBatches(experiences).split(own), strict=True)
        ]

    def _check(self, batch: RolloutBatch, estimator: Estimator | None) -> None:
        """Refuse what would spoil the weights, or could not be shaped."""
        if (batch.actor_logprob.isnan() & batch.mask).any():
            raise PolicyBroken(
                f"The policy's log-probabilities of step {batch.step}'s responses are NaN, so training stops before "
                "the update: continue from the last checkpoint, with a lower learning rate if it happens again."
            )
        if self.args.shaping.grop or (estimator is not None and estimator.needs_correctness):
            correctness(batch.scores)

    def _estimate(self, batch: RolloutBatch, micro: MicroBatches, estimator: Estimator) -> Estimate:
        """The estimate of one of our estimators; also sets the rewards that OpenRLHF logs."""
        everything = Experience(  # OpenRLHF's own penalties are computed on the batch as one micro-batch
            rewards=batch.reward,
            response_length=micro.read("response_length"),
            truncated=micro.read("truncated"),
            info={},
        )
        apply_length_penalties([everything], self.args)  # in place
        batch.seed = derived(self.args.train.seed, "weights", batch.step)
        batch.reward_clip = self.args.reward.clip_range
        options = {name: getattr(self.args.shaping, name) for name in estimator.options}
        try:
            estimate: Estimate = estimator.function(batch, **options)
        except ValueError as error:
            why = str(error).rstrip(".")
            raise ShapingFailed(f"The rollout batch of step {batch.step} cannot be shaped: {why}.") from error
        micro.write("rewards", batch.reward)
        for name, values in (
            ("reward", batch.reward),
            ("group_reward_std", _group_std(batch.reward, batch.group)),
            ("return", estimate.returns),
        ):
            micro.log(name, values)
        for experience in micro.experiences:
            experience.kl = None
        return estimate

    def _openrlhfs_estimate(self, batch: RolloutBatch, micro: MicroBatches) -> Estimate:
        """The estimate of OpenRLHF's own estimator, which works on micro-batches."""
        micro.write("rewards", batch.reward)
        super().compute_advantages_and_returns(micro.experiences)
        return Estimate(micro.read("advantages"), returns=batch.given_reward)

    def _finish(self, batch: RolloutBatch, micro: MicroBatches, *, per_response: bool) -> None:
        """What is left once there are advantages: forking tokens, metrics, files, a guide's weights."""
        args = self.args
        if args.shaping.top_entropy_share < 1:
            _keep_forking_tokens(batch, args.shaping.top_entropy_share)
        batch.metrics |= rollout_metrics(batch)
        if args.shaping.save_rollouts:
            save_groups(batch, args.shaping.save_rollouts, args.logger.metrics_path, self.tokenizer)
        if args.guide.model:
            weigh(batch, args, per_response=per_response)
            for experience, guide, logprob in zip(
                micro.experiences, micro.split(batch.guide), micro.split(batch.logprob), strict=True
            ):
                measure_from_guide(experience, guide, logprob)
        micro.write("advantages", batch.advantages)
        if self.critic_model_group is None:
            for experience in micro.experiences:
                experience.returns = None  # a critic alone reads them, and they are sent with the advantages


def _punishment(batch: RolloutBatch) -> torch.Tensor:
    """(N,) Group Relative Overlong Punishment."""
    assert batch.correct is not None
    penalty = overlong_punishment(batch.mask.sum(-1), batch.correct, batch.group)
    own = penalty[batch.counted]
    batch.metrics |= {
        "overlong/punished_share": (own < 0).float().mean().item(),
        "overlong/punishment_mean": own.mean().item(),
    }
    return penalty


def _keep_forking_tokens(batch: RolloutBatch, share: float) -> None:
    """Only the tokens of the highest entropy keep their advantage, and so their gradient."""
    kept = forking_tokens(batch.entropy, batch.mask, share)
    batch.advantages = batch.advantages * kept
    batch.metrics |= {
        "forking/kept_share": (kept.sum() / batch.mask.sum()).item(),
        "forking/entropy_threshold": batch.entropy[kept].min().item(),
    }


def _group_std(values: torch.Tensor, group: torch.Tensor) -> torch.Tensor:
    """(N,) the standard deviation, with Bessel's correction, of each response's group; 0 in a group of one."""
    size = group.bincount().clamp(min=1).to(values.dtype)
    mean = per_group(values, group, "mean")
    squares = per_group((values - mean[group]).square(), group)
    return (squares / (size - 1).clamp(min=1)).sqrt()[group]
