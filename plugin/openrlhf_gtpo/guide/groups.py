"""Runs in the controller: asks the guide while the policy still generates, and joins both responses in groups."""

import dataclasses
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray
import torch
from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ray.vllm_engine import batch_vllm_engine_call

from openrlhf_gtpo.guide.engines import find_engines
from openrlhf_gtpo.seeds import derived

PROMPT = "_guide_prompt"
"""Entry of `Guide.see` in ``info`` of the policy's responses until `Guide.after_generation`, (1,) int: the index of
the prompt."""

MARKS = ("guide/group", "guide/second_batch", "guide/filler", "guide/share")
"""Entries that `Guide.after_generation` adds to ``info`` of every response, (1,) float: the number of its group; 1 in
the second batch; 1 for a filler; 1 for a response of the guide."""


@dataclass
class GuideTally:
    """Counts of one rollout batch, by the names of their metrics."""

    asked_groups: int = 0
    responses: int = 0
    correct: int = 0
    zero_reward_groups: int = 0
    rescued_groups: int = 0
    unsolved_groups: int = 0
    failed_groups: int = 0
    fillers: int = 0
    wait_seconds: float = 0.0

    def metrics(self) -> dict[str, float]:
        """Metric name -> value."""
        counts = {f"guide/{name}": float(value) for name, value in vars(self).items() if name != "correct"}
        return counts | {
            "guide/pass_rate": self.correct / max(1, self.responses),
            "guide/rescued_share": self.rescued_groups / max(1, self.zero_reward_groups),
        }


@dataclass
class _Request:
    """A prompt for the guide, and its answer."""

    group: list[Experience]
    """The policy's own responses to the prompt."""
    rescues: bool
    """Whether the group is all wrong, and joins the second batch if the guide solves it."""
    seed: int
    answer: Any = None
    """A Ray reference to the guide's responses; None until it is asked."""


class Guide:
    """Asks a guide for responses, one rollout batch after the other.

    For each batch, `see` gets every response of the policy as it arrives, then `after_generation` gets those that are
    left, once. In between OpenRLHF may drop whole groups, change their order and keep some for later batches: `see`
    numbers the prompts and writes each response's number into its ``info``, by which the answer to it is found.

    Args:
        args: OpenRLHF's nested ``args``.

    Attributes:
        engines: Ray's handles of the guide's engines, which are asked in turns.
        tokenizer: the policy's, as an argument of remote calls (`openrlhf_gtpo.sent_once`).
        tally: of the batch that was generated last.
    """

    engines: Sequence[Any]
    tokenizer: Any

    def __init__(self, args: Any) -> None:
        self.args = args
        self.tally = GuideTally()
        self._open: list[Experience] = []  # of the group that is not complete yet
        self._prompts = 0  # seen so far
        self._requests: dict[int, _Request] = {}  # by the index of the prompt
        self._turns = itertools.count()
        self._generate_kwargs: Mapping[str, Any] = {}
        # An engine that shares a GPU sleeps while the policy's are awake, so it is asked afterwards.
        self._asks_at_once = not args.vllm.enable_sleep

    def connect(self, tokenizer: Any) -> None:
        """Before the first batch: wait for the guide's engines, and check that they can guide.

        Raises:
            UserError: as `openrlhf_gtpo.guide.engines.find_engines`.
        """
        self.tokenizer, self.engines = tokenizer, find_engines(self.args, tokenizer.value)

    def see(self, experience: Experience, generate_kwargs: Mapping[str, Any]) -> None:
        """Take a response of the policy. The guide is asked as soon as a group is complete, so that it generates while
        the policy does.

        Args:
            experience: the response; its ``index`` has the place of its prompt, which gives the guide its seed and
                groups their order. Responses to one prompt come one after the other.
            generate_kwargs: OpenRLHF's, with the limits on lengths in tokens.
        """
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
        when, scores = self.args.guide.when, [sample.scores.item() for sample in group]
        rescues = "zero_reward" in when and not any(score == 1 for score in scores)
        if not rescues and ("all" not in when or self._is_filtered_out(scores)):
            return
        request = _Request(group, rescues, derived(self.args.train.seed, "guide", *experience.index))
        self._requests[index] = request
        if self._asks_at_once:
            self._ask(request)

    def _is_filtered_out(self, scores: list[float]) -> bool:
        """Whether OpenRLHF's dynamic filtering drops a group of these scores."""
        low, high = self.args.algo.dynamic_filtering_range
        return self.args.algo.dynamic_filtering_enable and not low < sum(scores) / len(scores) < high

    def _ask(self, request: _Request) -> None:
        """Ask for the guide's responses, in the form of a rollout actor's.

        The guide always samples at temperature 1 without top-k or top-p, whatever the policy's settings are: only then
        are vLLM's log-probabilities those of pi_phi itself.
        """
        from vllm import SamplingParams

        sample, limits = request.group[0], self._generate_kwargs
        engine = self.engines[next(self._turns) % len(self.engines)]
        parameters = SamplingParams(
            temperature=1.0,
            max_tokens=limits.get("max_new_tokens"),
            min_tokens=limits.get("min_new_tokens", 1),
            skip_special_tokens=False,
            # With it OpenRLHF's executor returns log-probabilities, as it does for the policy's responses.
            logprobs=None if sample.rollout_log_probs is None else 1,
        )
        request.answer = engine.generate_responses.remote(
            prompt=sample.prompts[0],
            label=sample.labels[0],
            sampling_params=parameters,
            max_length=limits.get("max_len", 2048),
            hf_tokenizer=self.tokenizer,
            num_samples=self.args.guide.samples,
            images=sample.images[0],
            seed=request.seed,
        )

    def after_generation(
        self,
        samples: list[Experience],
        waiting: Sequence[Experience],
        experience_of: Callable[[dict[str, Any]], Experience],
    ) -> list[Experience]:
        """The rollout batch with the guide's responses: groups of the first batch, groups of the second, fillers.

        Args:
            samples: the policy's responses of this batch, group after group.
            waiting: responses that OpenRLHF keeps for later batches.
            experience_of: makes an experience of a guide's response.

        Returns:
            Responses with `MARKS`, in a number that fills optimiser updates on every rank; empty if there are none.
        """
        begin = time.monotonic()
        self.tally = GuideTally()
        size = self.args.rollout.n_samples_per_prompt
        if not self._asks_at_once:
            self._ask_after_the_policy()
        first: list[list[Experience]] = []
        second: list[_Request] = []
        for start in range(0, len(samples), size):
            group = samples[start : start + size]
            (index,) = {int(sample.info[PROMPT]) for sample in group}
            request = self._requests.pop(index, None)
            if request is not None and request.rescues:  # still here if OpenRLHF does not filter
                second.append(request)
            else:
                first.append(group + (self._answers(request, experience_of) if request else []))
        kept = {int(sample.info[PROMPT]) for sample in waiting}
        later = {index: request for index, request in self._requests.items() if index in kept}
        # Groups that dynamic filtering dropped.
        dropped = [request for index, request in self._requests.items() if request.rescues and index not in kept]
        second += sorted(dropped, key=lambda request: request.group[0].index)
        self._requests = later
        rescued = [group for request in second if (group := self._rescued(request, experience_of))]
        joined = [(group, False) for group in first] + [(group, True) for group in rescued]
        responses = [
            _marked(sample, number, in_second, place >= size)
            for number, (group, in_second) in enumerate(joined)
            for place, sample in enumerate(group)
        ]
        self.tally.wait_seconds = time.monotonic() - begin
        return responses + self._fillers(responses, len(joined))

    def _ask_after_the_policy(self) -> None:
        """If engines sleep: wake the guide's, get all answers, and put them to sleep again."""
        pending = [request for request in self._requests.values() if request.answer is None]
        if not pending:
            return
        batch_vllm_engine_call(self.engines, "wake_up")
        for request in pending:
            self._ask(request)
        ray.wait([request.answer for request in pending], num_returns=len(pending))
        batch_vllm_engine_call(self.engines, "sleep")

    def _answers(self, request: _Request, experience_of: Callable[[dict[str, Any]], Experience]) -> list[Experience]:
        """The guide's responses to a group's prompt; none if one of their rewards failed."""
        answers = [experience_of(response) for response in ray.get(request.answer)]
        self.tally.asked_groups += 1
        if any(sample.rewards is None for sample in answers):
            self.tally.failed_groups += 1
            return []
        self.tally.responses += len(answers)
        self.tally.correct += sum(sample.scores.item() == 1 for sample in answers)
        return answers

    def _rescued(self, request: _Request, experience_of: Callable[[dict[str, Any]], Experience]) -> list[Experience]:
        """The group with the guide's responses if one of these is correct, else empty."""
        answers = self._answers(request, experience_of)
        self.tally.zero_reward_groups += 1
        if any(sample.scores.item() == 1 for sample in answers):
            self.tally.rescued_groups += 1
            return request.group + answers
        self.tally.unsolved_groups += bool(answers)  # else a reward failed
        return []

    def _fillers(self, samples: list[Experience], groups: int) -> list[Experience]:
        """Fillers up to whole optimiser updates and equal numbers of micro-batches on every rank; with unequal ones
        the ranks would wait for each other for ever.

        A filler is a response cut after its first token. Its advantage is 0, and our metrics leave it out. OpenRLHF's
        own means over the trained responses include it, and so do KL and entropy terms of the loss, with one token.
        """
        missing = -len(samples) % self.args.whole_updates
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
