"""Runs in the controller: asks the guide while the policy still generates, and joins both responses in groups."""

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray
import torch
from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ray.vllm_engine import batch_vllm_engine_call

from openrlhf_gtpo.batch.transformation import Transformation
from openrlhf_gtpo.guide.sources import Source
from openrlhf_gtpo.seeds import derived
from openrlhf_gtpo.settings import GuideSettings

PROMPT = "_guide_prompt"
"""Entry of `Guide.see` in ``info`` of the policy's responses until `Guide.after_generation`, (1,) int: the index of
the prompt."""

MARKS = ("guide/group", "guide/second_batch", "guide/filler", "guide/share")
"""Entries that `Guide.after_generation` adds to ``info`` of every response, (1,) float: the number of its group; 1 in
the second batch; 1 for a filler; 1 for a response of the guide."""


@dataclass
class GuideTally:
    """Counts of the guide's responses and groups in one rollout batch."""

    asked: int = 0
    responses: int = 0
    correct: int = 0
    zero_reward: int = 0
    rescued: int = 0
    unsolved: int = 0
    failed: int = 0
    fillers: int = 0
    wait_seconds: float = 0.0

    def metrics(self) -> dict[str, float]:
        """Metric name -> value."""
        return {
            "guide/asked_groups": float(self.asked),
            "guide/responses": float(self.responses),
            "guide/pass_rate": self.correct / max(1, self.responses),
            "guide/zero_reward_groups": float(self.zero_reward),
            "guide/rescued_groups": float(self.rescued),
            "guide/rescued_share": self.rescued / max(1, self.zero_reward),
            "guide/unsolved_groups": float(self.unsolved),
            "guide/failed_groups": float(self.failed),
            "guide/fillers": float(self.fillers),
            "guide/wait_seconds": self.wait_seconds,
        }


@dataclass
class _Asked:
    """A group of the policy's responses, and the guide's answer to its prompt."""

    policy: list[Experience]
    is_zero_reward: bool
    seed: int
    answer: Any = None
    """A Ray reference; None if the guide was not asked yet, or has no answer."""


class Guide(Transformation):
    """Asks a guide for responses, one rollout batch after the other.

    For each batch, `see` gets every response of the policy as it arrives, then `after_generation` gets those that are
    left, once. In between OpenRLHF may drop whole groups, change their order and keep some for later batches: `see`
    numbers the prompts and writes each response's number into its ``info``, by which the answer to it is found.

    Attributes:
        settings: the flags ``--guide.*``.
        source: gives the responses, once it is connected.
        tally: of the batch that was generated last.
    """

    changes_groups = True
    source: Source

    def __init__(self, args: Any) -> None:
        """
        Args:
            args: OpenRLHF's nested ``args``.
        """
        self.args = args
        self.settings: GuideSettings = args.plugin.guide
        self.tally = GuideTally()
        self._open: list[Experience] = []
        self._prompts = 0  # seen so far
        self._asked: dict[int, _Asked] = {}  # by the index of the prompt
        self._generate_kwargs: Mapping[str, Any] = {}
        # An engine that shares a GPU sleeps while the policy's are awake, so it is asked afterwards.
        self._at_once = not self.args.vllm.enable_sleep

    def see(self, experience: Experience, generate_kwargs: Mapping[str, Any]) -> None:
        """The guide is asked as soon as a group is complete, so that it generates while the policy does. A response's
        ``index`` has the place of its prompt, which gives the guide its seed and groups their order."""
        index = self._prompts
        experience.info[PROMPT] = torch.tensor([index])
        self._open.append(experience)
        if len(self._open) < self.args.rollout.n_samples_per_prompt:
            return
        group, self._open = self._open, []
        self._prompts += 1
        if any(sample.scores is None for sample in group):
            return  # a reward failed, so the group will be dropped
        self._generate_kwargs = generate_kwargs
        scores = [sample.scores.item() for sample in group]
        is_zero_reward = not any(score == 1 for score in scores)
        rescues = self.settings.rescues and is_zero_reward
        if not rescues and not (self.settings.mixes and not self._is_thrown_away(scores)):
            return
        asked = _Asked(group, rescues, derived(self.args.train.seed, "guide", *experience.index))
        self._asked[index] = asked
        if self._at_once:
            asked.answer = self.source.ask(group[0], generate_kwargs, asked.seed)

    def _is_thrown_away(self, scores: list[float]) -> bool:
        low, high = self.args.algo.dynamic_filtering_range
        return self.args.algo.dynamic_filtering_enable and not low < sum(scores) / len(scores) < high

    def after_generation(
        self,
        samples: list[Experience],
        waiting: Sequence[Experience],
        experience_of: Callable[[dict[str, Any]], Experience],
    ) -> list[Experience]:
        """The rollout batch with the guide's responses: groups of the first batch, groups of the second, fillers.

        Returns:
            Responses with `MARKS`, in a number that fills optimiser updates on every rank; empty if there are none.
        """
        begin = time.monotonic()
        self.tally = GuideTally()
        size = self.args.rollout.n_samples_per_prompt
        if not self._at_once:
            self._ask_after_the_policy()
        first: list[list[Experience]] = []
        second: list[_Asked] = []
        for start in range(0, len(samples), size):
            group = samples[start : start + size]
            (index,) = {int(sample.info[PROMPT]) for sample in group}
            asked = self._asked.pop(index, None)
            if asked is not None and asked.is_zero_reward:  # still here if OpenRLHF does not filter
                second.append(asked)
            else:
                first.append(group + (self._answers(asked, experience_of) if asked else []))
        kept = {int(sample.info[PROMPT]) for sample in waiting}
        later = {index: asked for index, asked in self._asked.items() if index in kept}
        # Groups that dynamic filtering dropped.
        dropped = [asked for index, asked in self._asked.items() if asked.is_zero_reward and index not in kept]
        second += sorted(dropped, key=lambda asked: asked.policy[0].index)
        self._asked = later
        rescued = [group for asked in second if (group := self._rescued(asked, experience_of))]
        joined = [(group, False) for group in first] + [(group, True) for group in rescued]
        responses = [
            _marked(sample, number, in_second, place >= size)
            for number, (group, in_second) in enumerate(joined)
            for place, sample in enumerate(group)
        ]
        self.tally.wait_seconds = time.monotonic() - begin
        return responses + self._fillers(responses, len(joined))

    def metrics(self) -> dict[str, float]:
        return self.tally.metrics()

    def _ask_after_the_policy(self) -> None:
        """If engines sleep: wake the guide's, get all answers, and put them to sleep again."""
        engines = self.source.engines
        pending = [asked for asked in self._asked.values() if asked.answer is None]
        if not pending:
            return
        if engines:
            batch_vllm_engine_call(engines, "wake_up")
        for asked in pending:
            asked.answer = self.source.ask(asked.policy[0], self._generate_kwargs, asked.seed)
        ray.wait(answers := [a.answer for a in self._asked.values() if a.answer is not None], num_returns=len(answers))
        if engines:
            batch_vllm_engine_call(engines, "sleep")

    def _answers(self, asked: _Asked, experience_of: Callable[[dict[str, Any]], Experience]) -> list[Experience]:
        """The guide's responses to a group's prompt; none if one of their rewards failed."""
        if asked.answer is None:
            return []
        answers = [experience_of(response) for response in ray.get(asked.answer)]
        self.tally.asked += 1
        if any(sample.rewards is None for sample in answers):
            self.tally.failed += 1
            return []
        self.tally.responses += len(answers)
        self.tally.correct += sum(sample.scores.item() == 1 for sample in answers)
        return answers

    def _rescued(self, asked: _Asked, experience_of: Callable[[dict[str, Any]], Experience]) -> list[Experience]:
        """The group with the guide's responses if one of these is correct, else empty."""
        self.tally.zero_reward += 1
        failed = self.tally.failed
        answers = self._answers(asked, experience_of)
        if any(sample.scores.item() == 1 for sample in answers):
            self.tally.rescued += 1
            return asked.policy + answers
        self.tally.unsolved += self.tally.failed == failed
        return []

    def _fillers(self, samples: list[Experience], groups: int) -> list[Experience]:
        """Fillers up to whole optimiser updates and equal numbers of micro-batches on every rank; with unequal ones
        the ranks would wait for each other for ever.

        A filler is a response cut after its first token. Its advantage is 0, and our metrics leave it out. OpenRLHF's
        own means over the trained responses include it, and so do KL and entropy terms of the loss, with one token.
        """
        missing = -len(samples) % self.args.plugin.whole_updates
        self.tally.fillers = missing
        if not missing:
            return []
        # A filler counts as one token, so it has to come from a response with tokens, if there is one.
        spoken = [sample for sample in samples if sample.action_mask.any()] or samples
        beginning = min((_beginning(sample) for sample in spoken), key=lambda sample: sample.total_length.item())
        return [_marked(dataclasses.replace(beginning), groups, False, False, filler=True) for _ in range(missing)]


def _marked(sample: Experience, group: int, second: bool, guide: bool, filler: bool = False) -> Experience:
    values = zip(MARKS, (group, second, filler, guide), strict=True)
    sample.info = {**sample.info, **{name: torch.tensor([float(value)]) for name, value in values}}
    sample.info.pop(PROMPT, None)  # OpenRLHF would log it
    sample.index = None  # the guide's responses have none, and OpenRLHF sets it
    return sample


def _beginning(sample: Experience) -> Experience:
    """A response cut after its first token."""
    columns = int(sample.action_mask[0].long().argmax()) + 1  # column t is token t + 1 of the sequence
    changes: dict[str, Any] = {}
    for name in (f.name for f in dataclasses.fields(Experience) if Experience.is_step_tensor_field(f.name)):
        value = getattr(sample, name)
        if value is not None:
            changes[name] = value[:, : columns + (name in ("sequences", "attention_mask"))]
    # One value per response, (1,), or per token, (1, A).
    info = {key: value if value.dim() == 1 else value[:, :columns] for key, value in sample.info.items()}
    return dataclasses.replace(
        sample,
        **changes,
        info=info,
        response_length=torch.ones_like(sample.response_length),
        total_length=torch.full_like(sample.total_length, columns + 1),
    )
