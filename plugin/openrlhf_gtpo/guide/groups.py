"""Runs in the controller: asks the guide while the policy still generates, and adds its responses to the groups."""

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from openrlhf.trainer.ray.vllm_engine import batch_vllm_engine_call

from openrlhf_gtpo.batch import Group, Response
from openrlhf_gtpo.guide.engines import find_engines
from openrlhf_gtpo.seeds import derived


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

    policy: list[Response]
    """The policy's own responses to the prompt."""
    rescues: bool
    """Whether they are all wrong, and join the second batch if the guide solves the prompt."""
    answer: Any = None
    """A Ray reference to the guide's responses; None until it is asked."""


class Guide:
    """Asks a guide for responses, one rollout batch after the other.

    For each batch, `see` gets every response of the policy as it arrives, then `join` gets the groups that are left,
    once. In between OpenRLHF may drop whole groups and change their order; a prompt's place says whose an answer is.

    Args:
        args: OpenRLHF's nested ``args``.
        response_of: makes a `Response` of what the guide's rollout actor returned, with its place and OpenRLHF's
            arguments of generation.

    Attributes:
        engines: Ray's handles of the guide's engines, which are asked in turns.
        tokenizer: the policy's, as an argument of remote calls (`openrlhf_gtpo.sent_once`).
        tally: of the batch that was generated last.
    """

    engines: Sequence[Any]
    tokenizer: Any

    def __init__(self, args: Any, response_of: Callable[..., Response]) -> None:
        self.args = args
        self.tally = GuideTally()
        self._response_of = response_of
        self._open: list[Response] = []  # of the group that is not complete yet
        self._requests: dict[tuple[int, int], _Request] = {}  # by the place of the prompt
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

    def see(self, response: Response, generate_kwargs: Mapping[str, Any]) -> None:
        """Take a response of the policy. The guide is asked as soon as a group is complete, so that it generates while
        the policy does.

        Args:
            response: responses to one prompt come one after the other.
            generate_kwargs: OpenRLHF's, with the limits on lengths in tokens.
        """
        self._open.append(response)
        if len(self._open) < self.args.rollout.n_samples_per_prompt:
            return
        group, self._open = self._open, []
        if not all(one.has_reward for one in group):
            return  # the group will be dropped
        self._generate_kwargs = generate_kwargs
        when = self.args.guide.when
        rescues = "zero_reward" in when and not any(one.is_correct for one in group)
        if not rescues and ("all" not in when or self._is_filtered_out(group)):
            return
        request = self._requests[response.place] = _Request(group, rescues)
        if self._asks_at_once:
            self._ask(request)

    def _is_filtered_out(self, group: Sequence[Response]) -> bool:
        """Whether OpenRLHF's dynamic filtering drops a group."""
        low, high = self.args.algo.dynamic_filtering_range
        mean = sum(float(one.returned["scores"]) for one in group) / len(group)
        return self.args.algo.dynamic_filtering_enable and not low < mean < high

    def _ask(self, request: _Request) -> None:
        """Ask for the guide's responses, in the form of a rollout actor's.

        The guide always samples at temperature 1 without top-k or top-p, whatever the policy's settings are: only then
        are vLLM's log-probabilities those of pi_phi itself.
        """
        from vllm import SamplingParams

        response, limits = request.policy[0], self._generate_kwargs
        engine = self.engines[next(self._turns) % len(self.engines)]
        parameters = SamplingParams(
            temperature=1.0,
            max_tokens=limits.get("max_new_tokens"),
            min_tokens=limits.get("min_new_tokens", 1),
            skip_special_tokens=False,
            # With it OpenRLHF's executor returns log-probabilities, as it does for the policy's responses.
            logprobs=None if response.returned["rollout_log_probs"] is None else 1,
        )
        request.answer = engine.generate_responses.remote(
            prompt=response.returned["prompt"],
            label=response.returned["label"],
            sampling_params=parameters,
            max_length=limits.get("max_len", 2048),
            hf_tokenizer=self.tokenizer,
            num_samples=self.args.guide.samples,
            images=response.returned.get("images"),
            seed=derived(self.args.train.seed, "guide", *response.place),
        )

    def join(self, groups: Sequence[Group]) -> list[Group]:
        """The groups with the guide's responses: those of the first batch, then those of the second.

        Args:
            groups: the policy's, of this batch.
        """
        begin = time.monotonic()
        self.tally = GuideTally()
        if not self._asks_at_once:
            self._ask_after_the_policy()
        first: list[Group] = []
        second: list[_Request] = []
        for group in groups:
            request = self._requests.pop(group.policy[0].place, None)
            if request is not None and request.rescues:  # still here if OpenRLHF does not filter
                second.append(request)
            else:
                first.append(Group(group.policy, self._answers(request) if request else []))
        # Groups that dynamic filtering dropped.
        second += (self._requests[place] for place in sorted(self._requests) if self._requests[place].rescues)
        self._requests = {}
        rescued = [self._rescued(request) for request in second]
        self.tally.wait_seconds = time.monotonic() - begin
        return [*first, *filter(None, rescued)]

    def _ask_after_the_policy(self) -> None:
        """If engines sleep: wake the guide's, get all answers, and put them to sleep again."""
        if not self._requests:
            return
        batch_vllm_engine_call(self.engines, "wake_up")
        for request in self._requests.values():
            self._ask(request)
        answers = [request.answer for request in self._requests.values()]
        ray.wait(answers, num_returns=len(answers))
        batch_vllm_engine_call(self.engines, "sleep")

    def _answers(self, request: _Request) -> list[Response]:
        """The guide's responses to a group's prompt; none if one of their rewards failed."""
        place = request.policy[0].place
        answers = [self._response_of(one, place, self._generate_kwargs) for one in ray.get(request.answer)]
        self.tally.asked_groups += 1
        if not all(one.has_reward for one in answers):
            self.tally.failed_groups += 1
            return []
        self.tally.responses += len(answers)
        self.tally.correct += sum(one.is_correct for one in answers)
        return answers

    def _rescued(self, request: _Request) -> Group | None:
        """The group with the guide's responses if one of these is correct."""
        answers = self._answers(request)
        self.tally.zero_reward_groups += 1
        if any(one.is_correct for one in answers):
            self.tally.rescued_groups += 1
            return Group(request.policy, answers, is_second=True)
        self.tally.unsolved_groups += bool(answers)  # else a reward failed
        return None
