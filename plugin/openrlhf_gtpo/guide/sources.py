"""The sources of the guide's responses: its own engines, or a file of worked solutions."""

import itertools
import random
from collections.abc import Mapping
from typing import Any, Protocol

from openrlhf.trainer.ppo_utils.experience import Experience


class Source(Protocol):
    """Answers the policy's prompts."""

    engines: list[Any]
    """The source's own engines, which sleep if the policy's do."""

    def ask(self, sample: Experience, generate_kwargs: Mapping[str, Any], seed: int) -> Any:
        """A Ray reference to responses in the form of a rollout actor's, or None if there is no answer.

        Args:
            sample: one of the policy's responses to the prompt.
            generate_kwargs: OpenRLHF's, with the limits on lengths.
            seed: decides the answer's random numbers.
        """


class ModelSource:
    """A frozen model on its own vLLM engines.

    It always samples at temperature 1 without top-k or top-p, whatever the policy's settings are: only then are vLLM's
    log-probabilities those of pi_phi itself. ``tokenizer`` is the policy's, as an argument of remote calls.
    """

    def __init__(self, engines: list[Any], samples: int, tokenizer: Any) -> None:
        self.engines = engines
        self.samples = samples
        self.tokenizer = tokenizer
        self._turn = itertools.cycle(engines)

    def ask(self, sample: Experience, generate_kwargs: Mapping[str, Any], seed: int) -> Any:
        from vllm import SamplingParams

        parameters = SamplingParams(
            temperature=1.0,
            max_tokens=generate_kwargs.get("max_new_tokens"),
            min_tokens=generate_kwargs.get("min_new_tokens", 1),
            skip_special_tokens=False,
            # With it OpenRLHF's executor returns log-probabilities, as it does for the policy's responses.
            logprobs=None if sample.rollout_log_probs is None else 1,
        )
        return next(self._turn).generate_responses.remote(
            prompt=sample.prompts[0],
            label=sample.labels[0],
            sampling_params=parameters,
            max_length=generate_kwargs.get("max_len", 2048),
            hf_tokenizer=self.tokenizer,
            num_samples=self.samples,
            images=sample.images[0],
            seed=seed,
        )


class SolutionSource:
    """Worked solutions, graded like any response by the reward clients of the policy's rollout actors.

    ``tokenizer`` is the policy's, as an argument of remote calls.
    """

    def __init__(self, solutions: dict[str, list[str]], graders: list[Any], samples: int, tokenizer: Any) -> None:
        self.engines: list[Any] = []
        self.solutions = solutions
        self.samples = samples
        self.tokenizer = tokenizer
        self._turn = itertools.cycle(graders)

    def ask(self, sample: Experience, generate_kwargs: Mapping[str, Any], seed: int) -> Any:
        texts = self.solutions.get(sample.prompts[0])
        if not texts:
            return None
        return next(self._turn).worked_solutions.remote(
            prompt=sample.prompts[0],
            label=sample.labels[0],
            solutions=random.Random(seed).sample(texts, min(self.samples, len(texts))),
            max_length=generate_kwargs.get("max_len", 2048),
            hf_tokenizer=self.tokenizer,
            log_probs=sample.rollout_log_probs is not None,
        )
