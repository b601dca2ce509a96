"""Lives in the controller: turns rollouts into whole groups, and whole groups into advantages.

`Generator` keeps what each response brings (entropies, failed rewards), drops groups that lost a reward and draws
other prompts for them. `ExperienceMaker` puts the micro-batches back into rollout order, so that every statistic
is taken over whole groups however OpenRLHF splits them, and shapes."""

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker, apply_length_penalties
from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator

from openrlhf_gtpo.errors import OneSentence
from openrlhf_gtpo.forking import forking_tokens
from openrlhf_gtpo.metrics import rollout_metrics
from openrlhf_gtpo.openrlhf_seam import adopt
from openrlhf_gtpo.punishment import overlong_punishment
from openrlhf_gtpo.settings import ESTIMATORS, ShapingSettings, metrics_path
from openrlhf_gtpo.shaping import Shaped, grpo_s, gtpo

logger = logging.getLogger(__name__)

REPLACEMENT_ROUNDS = 3
"""How often other prompts are drawn for groups that lost a reward before a smaller batch has to do."""


class RewardsFailed(OneSentence):
    """Rewards could not be had, and going on without them would train on nothing."""


class NotBinary(OneSentence):
    """A score is neither right nor wrong, so responses cannot be told apart by correctness."""


class ShapingFailed(OneSentence):
    """What the rollouts brought is not what entropies and scores can be; the sentence of `openrlhf_gtpo.shaping`
    says which."""


class GroupBroken(OneSentence):
    """What should be one group is not: responses of different prompts, or too few of them."""


@dataclass
class RewardTally:
    """What became of the rewards of one rollout batch."""

    failed_responses: int = 0
    dropped_groups: int = 0
    seconds_sum: float = 0.0
    seconds_max: float = 0.0
    responses: int = 0
    last_error: str = ""

    def add(self, response: dict[str, Any]) -> None:
        """Count one response of a rollout actor."""
        self.responses += 1
        self.seconds_sum += response["reward_seconds"]
        self.seconds_max = max(self.seconds_max, response["reward_seconds"])
        if response["reward_error"] is not None:
            self.failed_responses += 1
            self.last_error = response["reward_error"]

    def metrics(self) -> dict[str, float]:
        """Under the names that are logged; waiting times are from a response's last token to its reward."""
        return {
            "reward/failed_responses": float(self.failed_responses),
            "reward/dropped_groups": float(self.dropped_groups),
            "reward/wait_seconds_mean": self.seconds_sum / max(1, self.responses),
            "reward/wait_seconds_max": self.seconds_max,
        }


class Generator(SamplesGenerator):
    """OpenRLHF's samples generator whose groups are whole or gone: a failed reward is never 0 or None."""

    tally: RewardTally
    steps = 0
    """Batches that were generated, those before a resumption included."""
    _evaluating = False

    @classmethod
    def like(cls, generator: SamplesGenerator) -> "Generator":
        """Take over from OpenRLHF's own generator."""
        new = adopt(cls, generator)
        new.tally = RewardTally()
        return new

    def generate_samples(self, **generate_kwargs: Any) -> Any:
        """As OpenRLHF's, with a fresh tally; after ``--train.max_steps`` batches there are no more prompts."""
        self.tally = RewardTally()
        most = self.args.train.max_steps
        if most is not None and self.steps >= most:
            return [], None, 0, True
        samples, pass_rate, consumed, exhausted = super().generate_samples(**generate_kwargs)
        self.steps += bool(samples)
        return samples, pass_rate, consumed, exhausted or (most is not None and self.steps >= most)

    def generate_eval_samples(self, **generate_kwargs: Any) -> Any:
        """As OpenRLHF's; groups that lost a reward are left out and told, since evaluation has no prompts to spare."""
        kept, self.tally, self._evaluating = self.tally, RewardTally(), True
        try:
            return super().generate_eval_samples(**generate_kwargs)
        finally:
            if self.tally.dropped_groups:
                logger.warning(
                    "%d prompts are missing from this evaluation because their rewards failed; the last reason: %s",
                    self.tally.dropped_groups,
                    self.tally.last_error,
                )
            self.tally, self._evaluating = kept, False

    def _generate_vllm(self, dataloader_iter: Any, num_prompts: int, dynamic_filtering: Any, **kwargs: Any) -> Any:
        samples, consumed, exhausted = super()._generate_vllm(
            dataloader_iter=dataloader_iter, num_prompts=num_prompts, dynamic_filtering=dynamic_filtering, **kwargs
        )
        group_size = kwargs.get("n_samples_per_prompt", self.args.rollout.n_samples_per_prompt)
        if self.args.reward.remote_url:  # else a reward model gives the rewards later
            samples, consumed, exhausted = self._rewarded(
                samples, consumed, exhausted, dataloader_iter, dynamic_filtering, group_size, **kwargs
            )
        if not self._evaluating and len(samples) < num_prompts * group_size:
            samples = self._whole_updates(samples, group_size)
        return self._same_logs(samples), consumed, exhausted

    def _rewarded(
        self,
        samples: list[Experience],
        consumed: int,
        exhausted: bool,
        dataloader_iter: Any,
        dynamic_filtering: Any,
        group_size: int,
        **kwargs: Any,
    ) -> tuple[list[Experience], int, bool]:
        """The groups that have all their rewards, with groups of other prompts in the place of those that have not."""
        drawn = len(samples)
        samples = self._whole_groups(samples, **kwargs)
        if drawn and not samples:
            raise RewardsFailed(
                f"No reward could be had for a whole rollout batch ({drawn} responses), so training stops: "
                f"{self.tally.last_error}"
            )
        for _ in range(REPLACEMENT_ROUNDS):
            missing = (drawn - len(samples)) // group_size
            if not missing or exhausted or self._evaluating:
                break
            logger.warning("Drawing %d other prompts for groups that lost a reward.", missing)
            more, more_consumed, exhausted = super()._generate_vllm(
                dataloader_iter=dataloader_iter, num_prompts=missing, dynamic_filtering=dynamic_filtering, **kwargs
            )
            consumed += more_consumed
            samples += self._whole_groups(more, **kwargs)
        return samples, consumed, exhausted

    def _process_response_into_experience(self, response: dict[str, Any], **generate_kwargs: Any) -> Experience:
        self.tally.add(response)
        if response["reward_error"] is not None and self.args.reward.on_failure == "stop":
            raise RewardsFailed(f"A reward failed and --reward.on_failure is stop: {response['reward_error']}")
        experience = super()._process_response_into_experience(response, **generate_kwargs)
        # Aligned as OpenRLHF aligns rollout_log_probs: entry t belongs to token t + 1 of the sequence.
        width = experience.action_mask.shape[-1]
        for name in ("entropy", "logprob"):
            values = torch.tensor(response[name][1 : width + 1], dtype=torch.float32)
            experience.info[name] = values.unsqueeze(0)  # (1, A)
        return experience

    def _whole_groups(self, samples: list[Experience], **kwargs: Any) -> list[Experience]:
        """Leave out every group with a response that has no reward."""
        size = kwargs.get("n_samples_per_prompt", self.args.rollout.n_samples_per_prompt)
        kept: list[Experience] = []
        for start in range(0, len(samples), size):
            group = samples[start : start + size]
            if len(group) != size or len({sample.prompts[0] for sample in group}) != 1:
                raise GroupBroken(
                    f"Responses {start} to {start + len(group) - 1} of a rollout batch do not form a group of "
                    f"{size} to one "
                    "prompt, so no statistic over groups can be trusted; please report this with your command line."
                )
            if all(sample.rewards is not None for sample in group):
                kept += group
            else:
                self.tally.dropped_groups += 1
                logger.warning("Dropped a group of %d responses: %s", size, self.tally.last_error)
        return kept

    def _whole_updates(self, samples: list[Experience], group_size: int) -> list[Experience]:
        """As many groups as fill optimiser updates.

        What is left over, because rewards failed or the prompts ran out, would stay in DeepSpeed's gradient
        accumulation and shift every later update; and it would leave the ranks with unequal numbers of micro-batches,
        on which they wait for each other for ever.
        """
        kept = len(samples)
        while kept % self.args.train.batch_size:
            kept -= group_size
            self.tally.dropped_groups += 1
        if kept < len(samples):
            logger.warning("Left out %d responses that do not fill --train.batch_size.", len(samples) - kept)
        return samples[:kept]

    def _same_logs(self, samples: list[Experience]) -> list[Experience]:
        """Keep the extra_logs that every response has: OpenRLHF cannot batch a key that some lack."""
        if samples:
            common = set.intersection(*(set(sample.info) for sample in samples))
            for name in {name for sample in samples for name in sample.info} - common:
                logger.warning("extra_logs[%r] is missing from some responses and is not logged.", name)
            for sample in samples:
                sample.info = {name: value for name, value in sample.info.items() if name in common}
        return samples


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
        batch = whole_batch(experiences, self.args.rollout.n_samples_per_prompt)
        extra = self._punish_overlong(experiences, batch) if self.args.shaping.grop else {}
        shaped = None
        if self.args.algo.advantage.estimator in ESTIMATORS:
            shaped = self._shape(experiences, batch)
        else:
            experiences = super().compute_advantages_and_returns(experiences)
        if self.args.shaping.top_entropy_share < 1:
            extra |= self._keep_forking_tokens(experiences, batch)
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
