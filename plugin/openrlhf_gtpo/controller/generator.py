"""Runs in the controller: keeps each response's entropies and reward errors, drops groups that lost a reward and draws
other prompts for them. A group is whole or dropped.

Places do not depend on time. Prompts are numbered as they are drawn; the number gives a prompt's responses their seeds
and its group its place in the batch, whichever engine answers, and when. A prompt is drawn for every one that dynamic
filtering drops, so the prompts of a batch are the first ones that are enough, in whatever order their answers come."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator

from openrlhf_gtpo.batch.transformation import Transformation
from openrlhf_gtpo.controller.transformations import transformations
from openrlhf_gtpo.errors import UserError
from openrlhf_gtpo.openrlhf_internals import rebuilt_as
from openrlhf_gtpo.seeds import derived

logger = logging.getLogger(__name__)

REPLACEMENT_ROUNDS = 3
"""How often other prompts are drawn for groups that lost a reward; after that the batch is smaller."""


class RewardsFailed(UserError):
    """Rewards failed, and there is nothing to train on without them."""


class GroupBroken(UserError):
    """A group has responses to different prompts, or too few responses."""


@dataclass
class RewardTally:
    """Counts and waiting times of the rewards of one rollout batch."""

    failed_responses: int = 0
    dropped_groups: int = 0
    seconds_sum: float = 0.0
    seconds_max: float = 0.0
    responses: int = 0
    last_error: str = ""
    last_token_at: float = 0.0
    last_reward_at: float = 0.0

    def add(self, response: dict[str, Any]) -> None:
        """Count one response of a rollout actor."""
        self.responses += 1
        self.seconds_sum += response["reward_seconds"]
        self.seconds_max = max(self.seconds_max, response["reward_seconds"])
        self.last_token_at = max(self.last_token_at, response["generated_at"])
        self.last_reward_at = max(self.last_reward_at, response["generated_at"] + response["reward_seconds"])
        if response["reward_error"] is not None:
            self.failed_responses += 1
            self.last_error = response["reward_error"]

    def metrics(self) -> dict[str, float]:
        """Metric name -> value. Waiting times are from a response's last token to its reward.

        ``reward/wait_after_generation`` is from the last token of the whole batch to its last reward. That is the time
        that grading adds to a step; before, it runs beside generation.
        """
        return {
            "reward/failed_responses": float(self.failed_responses),
            "reward/dropped_groups": float(self.dropped_groups),
            "reward/wait_seconds_mean": self.seconds_sum / max(1, self.responses),
            "reward/wait_seconds_max": self.seconds_max,
            "reward/wait_after_generation": self.last_reward_at - self.last_token_at,
        }


class SeededEngine:
    """A rollout actor's handle for one dispatch: the next prompt gets the next number, and the seed that follows from
    it."""

    def __init__(self, engine: Any, arguments: Iterator[dict[str, int]]) -> None:
        self._engine = engine
        self._arguments = arguments

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    @property
    def generate_responses(self) -> "SeededEngine":
        """As the handle's method, which has one method of its own."""
        return self

    def remote(self, **arguments: Any) -> Any:
        """As Ray's."""
        return self._engine.generate_responses.remote(**arguments, **next(self._arguments))


class Generator(SamplesGenerator):
    """OpenRLHF's samples generator, which drops the whole group of a failed reward: no reward is ever 0 or None for
    a failure."""

    tally: RewardTally
    vllm_engines: list[Any]
    transformations: list[Transformation]
    steps = 0
    """Batches generated, including those before the run was resumed."""
    prompts_consumed = 0
    """Prompts drawn for them, including those that dynamic filtering dropped."""
    _evaluating = False
    _drawn = 0
    """Prompts drawn in this batch or evaluation so far."""

    @classmethod
    def like(cls, generator: SamplesGenerator) -> "Generator":
        """Build one from OpenRLHF's own generator."""
        new = rebuilt_as(cls, generator)
        new.tally = RewardTally()
        new.transformations = transformations(generator.args, generator.tokenizer)
        return new

    def generate_samples(self, **generate_kwargs: Any) -> Any:
        """As OpenRLHF's, with a new tally. After ``--train.max_steps`` batches it reports that the prompts are used
        up."""
        self.tally, self._drawn = RewardTally(), 0
        most = self.args.plugin.max_steps
        if most is not None and self.steps >= most:
            return [], None, 0, True
        samples, pass_rate, consumed, exhausted = super().generate_samples(**generate_kwargs)
        self.prompts_consumed += consumed
        for transformation in self.transformations:  # also without samples: there may still be a second batch
            samples = transformation.after_generation(
                samples, self._sample_buffer, lambda response: self._experience_of(response, **generate_kwargs)
            )
        samples = self._same_logs(samples)
        self.steps += bool(samples)
        return samples, pass_rate, consumed, exhausted or (most is not None and self.steps >= most)

    def metrics(self) -> dict[str, float]:
        """Metric name -> value, of the last batch."""
        own = {**self.tally.metrics(), "rollout/prompts_consumed": float(self.prompts_consumed)}
        return {**own, **{name: value for one in self.transformations for name, value in one.metrics().items()}}

    def generate_eval_samples(self, **generate_kwargs: Any) -> Any:
        """As OpenRLHF's. Groups that lost a reward are left out with a warning: evaluation has no other prompts."""
        kept, self.tally, self._evaluating, self._drawn = self.tally, RewardTally(), True, 0
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
        samples, consumed, exhausted = self._generated(dataloader_iter, num_prompts, dynamic_filtering, **kwargs)
        group_size = kwargs.get("n_samples_per_prompt", self.args.rollout.n_samples_per_prompt)
        if self.args.reward.remote_url:  # else a reward model gives the rewards later
            samples, consumed, exhausted = self._rewarded(
                samples, consumed, exhausted, dataloader_iter, dynamic_filtering, group_size, **kwargs
            )
        if not self._evaluating and len(samples) < num_prompts * group_size:
            samples = self._whole_updates(samples, group_size)
        return samples, consumed, exhausted

    def _generated(
        self, dataloader_iter: Any, num_prompts: int, dynamic_filtering: Any, **kwargs: Any
    ) -> tuple[list[Experience], int, bool]:
        """As OpenRLHF's ``_generate_vllm``, whose groups are in the order of their answers; these are in that of their
        places."""
        samples, consumed, exhausted = super()._generate_vllm(
            dataloader_iter=dataloader_iter, num_prompts=num_prompts, dynamic_filtering=dynamic_filtering, **kwargs
        )
        return sorted(samples, key=lambda sample: sample.index), consumed, exhausted

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
        """The groups that have all their rewards, and groups of other prompts in place of those that do not."""
        drawn = len(samples)
        samples = self._whole_groups(samples, **kwargs)
        if drawn and not samples:
            raise RewardsFailed(
                f"No group of a whole rollout batch ({drawn} responses) got all its rewards, so training stops: "
                f"{self.tally.last_error}"
            )
        for _ in range(REPLACEMENT_ROUNDS):
            missing = (drawn - len(samples)) // group_size
            if not missing or exhausted or self._evaluating:
                break
            logger.warning("Drawing %d other prompts for groups that lost a reward.", missing)
            more, more_consumed, exhausted = self._generated(dataloader_iter, missing, dynamic_filtering, **kwargs)
            consumed += more_consumed
            samples += self._whole_groups(more, **kwargs)
        return samples, consumed, exhausted

    def _dispatch_prompts_to_vllm(self, prompts: list[str], labels: list[str], **kwargs: Any) -> list[Any]:
        """As OpenRLHF's; numbers the prompts, and gives top-k, which OpenRLHF has no flag for."""
        if self.args.plugin.top_k:
            kwargs["top_k"] = self.args.plugin.top_k
        purpose = "evaluation" if self._evaluating else "policy"
        places = range(self._drawn, self._drawn + len(prompts))
        self._drawn = places.stop
        seeds = (derived(self.args.train.seed, purpose, self.steps, place) for place in places)
        arguments = ({"place": place, "seed": seed} for place, seed in zip(places, seeds, strict=True))
        engines = self.vllm_engines
        self.vllm_engines = [SeededEngine(engine, arguments) for engine in engines]
        try:
            return super()._dispatch_prompts_to_vllm(prompts, labels, **kwargs)
        finally:
            self.vllm_engines = engines

    def _process_response_into_experience(self, response: dict[str, Any], **generate_kwargs: Any) -> Experience:
        experience = self._experience_of(response, **generate_kwargs)
        # Until OpenRLHF sets it, the batch and the place in it.
        experience.index = [self.steps, response["place"]]
        if not self._evaluating:
            for transformation in self.transformations:
                transformation.see(experience, generate_kwargs)
        return experience

    def _experience_of(self, response: dict[str, Any], **generate_kwargs: Any) -> Experience:
        """As OpenRLHF's method above, for every response; adds entropies, counts failures."""
        self.tally.add(response)
        if response["reward_refused"]:  # every other request would be refused too, so dropping groups does not help
            raise RewardsFailed(
                f"The reward service refuses every request, so training stops: {response['reward_error']}"
            )
        if response["reward_error"] is not None and self.args.plugin.stops_without_reward:
            raise RewardsFailed(f"A reward failed and --reward.on_failure is stop: {response['reward_error']}")
        experience: Experience = super()._process_response_into_experience(response, **generate_kwargs)
        # Aligned as OpenRLHF aligns rollout_log_probs: entry t belongs to token t + 1 of the sequence.
        width = experience.action_mask.shape[-1]
        for name in ("entropy", "logprob"):
            # A copy, since Ray's arrays are read-only.
            values = torch.tensor(response[name][1 : width + 1], dtype=torch.float32)
            experience.info[name] = values.unsqueeze(0)  # (1, A)
        if response["kept"] is not None:
            kept = torch.tensor(response["kept"]) - torch.tensor([1, 0], dtype=torch.int32)
            experience.info["kept"] = [kept[kept[:, 0] < width]]  # a list, since the responses' differ in length
        return experience

    def _whole_groups(self, samples: list[Experience], **kwargs: Any) -> list[Experience]:
        """Drop every group with a response that has no reward."""
        size = kwargs.get("n_samples_per_prompt", self.args.rollout.n_samples_per_prompt)
        kept: list[Experience] = []
        for start in range(0, len(samples), size):
            group = samples[start : start + size]
            if len(group) != size or len({sample.prompts[0] for sample in group}) != 1:
                raise GroupBroken(
                    f"Responses {start} to {start + len(group) - 1} of a rollout batch are not {size} responses to "
                    "one prompt, so no statistic over groups can be trusted: please report this with your command "
                    "line."
                )
            if all(sample.rewards is not None for sample in group):
                kept += group
            else:
                self.tally.dropped_groups += 1
                logger.warning("Dropped a group of %d responses: %s", size, self.tally.last_error)
        return kept

    def _whole_updates(self, samples: list[Experience], group_size: int) -> list[Experience]:
        """As many groups as fill optimiser updates.

        Responses may be left over, because rewards failed or the prompts ran out. They would stay in DeepSpeed's
        gradient accumulation and shift every later update. And the ranks would get unequal numbers of micro-batches
        and wait for each other for ever.
        """
        kept = len(samples)
        while kept % self.args.train.batch_size:
            kept -= group_size
            self.tally.dropped_groups += 1
        if kept < len(samples):
            logger.warning("Left out %d responses that do not fill --train.batch_size.", len(samples) - kept)
        return samples[:kept]

    def _same_logs(self, samples: list[Experience]) -> list[Experience]:
        """Keep the extra_logs that every response has: OpenRLHF cannot batch a key that some responses lack."""
        if samples:
            common = set.intersection(*(set(sample.info) for sample in samples))
            for name in {name for sample in samples for name in sample.info} - common:
                logger.warning("extra_logs[%r] is missing from some responses and is not logged.", name)
            for sample in samples:
                sample.info = {name: value for name, value in sample.info.items() if name in common}
        return samples
