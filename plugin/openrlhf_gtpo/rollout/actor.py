"""Runs in the rollout actors: generates with vLLM, collects each token's entropy, and fetches the reward.

OpenRLHF's own executor (or the user's agent) still generates. It gets a recorder in place of the engine, which asks
for entropies and keeps them. Rewards are fetched here, not in the executor, whose client turns an outage into
``None``.

A response gains these entries:

* ``entropy`` and ``logprob``: float32 arrays, one number per observation token, 0 outside the response
* ``reward_error``: one sentence, or None
* ``reward_refused``: whether the reward service refuses every request
* ``answer_end``: place in the sequence of the first token after the answer that was graded; its length where none is
* ``verdict``: the reward service's, or nothing
* ``generated_at``: Unix time of its last token
* ``reward_seconds``: from then to its reward
"""

import asyncio
import dataclasses
import gc
import math
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import numpy as np
import openrlhf.trainer.ray.vllm_engine as vllm_engine
from openrlhf.utils.agent import AgentExecutorBase, SingleTurnAgentExecutor
from vllm.sampling_params import RequestOutputKind

from math_reward.client import ClientError, Item
from math_reward.client import Settings as ClientSettings
from math_reward.client.settings import speaks_grade
from openrlhf_gtpo.data.tokenizer import end_of_turn, tokens_within, without_end
from openrlhf_gtpo.engine import one_message
from openrlhf_gtpo.errors import UserError
from openrlhf_gtpo.host import overrides, plain_class
from openrlhf_gtpo.rewards.client import RewardClient, sentence
from openrlhf_gtpo.rewards.function import LimitedFunction
from openrlhf_gtpo.seeds import derived
from openrlhf_gtpo.vllm_entropy import engine_kwargs, entropies_and_logprobs, sampling_kwargs


@dataclasses.dataclass(frozen=True)
class RolloutSettings:
    """Settings of a rollout actor that OpenRLHF does not pass to it."""

    reward: ClientSettings | None
    """None when rewards come from a Python function, from an agent or from a reward model."""
    worker_extension_cls: str
    """Dotted name of the class that vLLM adds to its workers."""
    dtype: str | None = None
    """The engine's precision by vLLM's name. None leaves it to OpenRLHF, whose engines compute in bfloat16."""
    max_num_seqs: int = 128
    """Responses that an engine generates at once. The default is vLLM's for an engine like OpenRLHF's."""
    reward_options: dict[str, str] | None = None
    """How to grade, `math_reward.client.Item.options`; None for the service's own settings."""
    chat: bool = False
    """Whether prompts are rendered by the chat template, whose end of a turn then ends a response too."""
    function_seconds: float = 300.0
    """How long a reward function may take for one response."""


class AgentMismatch(UserError):
    """An agent's calls of the engine do not match its action ranges, so entropies cannot be assigned to tokens."""


class EntropyRecorder:
    """Replaces the engine during one rollout: asks for entropies with every request and keeps them in order.

    ``text``: whether anyone reads the generated text. If not, vLLM does not have to decode tokens.
    ``seed``: what the seeds of its requests are derived from; None for no seeds.
    ``end``: a token that ends a response besides the end of a sequence, or None.
    """

    def __init__(self, engine: Any, *, text: bool = True, seed: int | None = None, end: int | None = None) -> None:
        self._engine = engine
        self._end = end
        self._text = text
        self._seed = seed
        self._asked = 0
        self.calls: list[tuple[np.ndarray, np.ndarray]] = []
        """For each call of `generate`, the entropies (nats) and the log-probabilities of its tokens, (T,) each."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def generate(self, prompt_token_ids: list[int], sampling_params: Any, multi_modal_data: Any = None) -> Any:
        """As the engine's own `generate`, whose output it returns."""
        for name, value in sampling_kwargs().items():
            setattr(sampling_params, name, value)
        if self._seed is not None:
            sampling_params.seed = derived(self._seed, self._asked)  # an agent asks once a turn
        self._asked += 1
        if self._end is not None and self._end not in sampling_params.all_stop_token_ids:
            sampling_params.stop_token_ids = [*(sampling_params.stop_token_ids or ()), self._end]
            sampling_params.all_stop_token_ids.add(self._end)  # which vLLM fills when the parameters are made
        # OpenRLHF reads the last output only. By default vLLM would send one, and wake this process, for every token.
        sampling_params.output_kind = RequestOutputKind.FINAL_ONLY
        sampling_params.detokenize = sampling_params.detokenize and (self._text or bool(sampling_params.stop))
        output = await self._engine.generate(prompt_token_ids, sampling_params, multi_modal_data=multi_modal_data)
        self.calls.append(entropies_and_logprobs(output.outputs[0]))
        return output


def aligned(response: dict[str, Any], calls: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Entropies and log-probabilities at the places of their tokens.

    They are arrays, since they are sent to the controller: a list takes nine bytes per number and is pickled slowly.

    Args:
        response: has ``observation_tokens`` (the whole sequence) and ``action_ranges`` (start and end of each
            generated part).
        calls: the `calls` of an `EntropyRecorder`.

    Returns:
        Two float32 arrays as long as ``observation_tokens``, 0.0 outside the action ranges.

    Raises:
        AgentMismatch: the ranges do not match the calls; possible only with a user's own agent.
    """
    ranges = response["action_ranges"]
    if [end - start for start, end in ranges] != [len(entropy) for entropy, _ in calls]:
        raise AgentMismatch(
            f"The agent of --train.agent_func_path reports action ranges {ranges}, but its calls of generate() gave "
            f"{[len(entropy) for entropy, _ in calls]} tokens: each call must be one action range, in order."
        )
    entropy_T = np.zeros(len(response["observation_tokens"]), dtype=np.float32)
    logprob_T = np.zeros_like(entropy_T)
    for (start, end), (entropy, logprob) in zip(ranges, calls, strict=True):
        entropy_T[start:end] = entropy
        logprob_T[start:end] = logprob
    return entropy_T, logprob_T


def completion_tokens(response: dict[str, Any], tokenizer: Any, end: int | None = None) -> list[int]:
    """The policy's tokens, without the prompt and without end-of-sequence, end-of-turn and padding tokens at their
    end."""
    start = response["action_ranges"][0][0] if response["action_ranges"] else len(response["observation_tokens"])
    return without_end(response["observation_tokens"][start:], tokenizer, end)


def number(value: Any, name: str) -> float:
    """A reward as one finite float.

    Args:
        value: a number, a tensor of one element, or (nested) lists of one.
        name: for the message.

    Raises:
        ValueError: the value is missing, not a single number, or not finite.
    """
    value = value.tolist() if hasattr(value, "tolist") else value
    while isinstance(value, (list, tuple)) and len(value) == 1:
        value = value[0]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{name} is {value!r}, not one finite number")
    return float(value)


def checked(reward: Any, score: Any, logs: Any) -> dict[str, Any]:
    """The entries of a response whose reward comes from a user's program; a ValueError as that of `number`."""
    return {
        "reward": number(reward, "the reward"),
        "scores": number(score, "the score"),
        "extra_logs": {key: number(value, f"extra_logs[{key!r}]") for key, value in (logs or {}).items()},
    }


@overrides("execute")
class RewardingExecutor(AgentExecutorBase):
    """Generates with another executor, then fetches the reward and reports every failure."""

    def __init__(
        self,
        inner: AgentExecutorBase,
        client: RewardClient | None,
        function_seconds: float | None = None,
        chat: bool = False,
    ) -> None:
        """
        Args:
            inner: the executor that generates; an agent returns the reward too.
            client: of the reward service, or None.
            function_seconds: how long a user's ``reward_func`` may take, which ``inner``, OpenRLHF's single-turn
                executor, has loaded; None where there is none.
            chat: whether the chat template's end of a turn ends a response.
        """
        self.rewards_awaited = 0
        """Responses that wait for their rewards."""
        self._end: int | None = None
        self._end_is_known = not chat
        self.inner = inner
        self.client: Any = client
        protocols = {speaks_grade(url) for url in client.settings.urls} if client else set()
        self.reads_completion, self.reads_query = True in protocols, False in protocols
        self._entries: Callable[[dict[str, Any], str, str, Any], Awaitable[dict[str, Any]]]
        """Of a response, its prompt, its label and the tokenizer: the entries with its reward."""
        if client is not None:
            self._entries = self._of_service
        elif function_seconds is not None:
            self._function = LimitedFunction(inner.reward_func, function_seconds)
            self._entries = self._of_function
        elif isinstance(inner, SingleTurnAgentExecutor):
            self._entries = self._of_model
        else:
            self._entries = self._of_agent

    async def execute(
        self, *, prompt: str, label: str, hf_tokenizer: Any, llm_engine: Any, seed: int | None = None, **others: Any
    ) -> dict[str, Any]:
        """One rollout. The module's docstring lists the entries that it adds to OpenRLHF's response.

        Args:
            seed: decides its random numbers; without one vLLM's own state does. The others are OpenRLHF's.
        """
        # OpenRLHF's own executor reads only the tokens; a user's agent may read the text.
        is_openrlhfs = type(self.inner) is SingleTurnAgentExecutor
        recorder = EntropyRecorder(llm_engine, text=not is_openrlhfs, seed=seed, end=self._end_of_turn(hf_tokenizer))
        response = await self.inner.execute(
            prompt=prompt, label=label, hf_tokenizer=hf_tokenizer, llm_engine=recorder, **others
        )
        response["entropy"], response["logprob"] = aligned(response, recorder.calls)
        return await self._rewarded(response, prompt, label, hf_tokenizer)

    def _end_of_turn(self, tokenizer: Any) -> int | None:
        """Looked up once: every rollout brings a tokenizer of its own, which is the policy's."""
        if not self._end_is_known:
            self._end, self._end_is_known = end_of_turn(tokenizer), True
        return self._end

    async def _rewarded(self, response: dict[str, Any], prompt: str, label: str, hf_tokenizer: Any) -> dict[str, Any]:
        """The response with its reward, or with a sentence that says why it has none."""
        response |= {"reward_error": None, "reward_refused": False, "answer_end": len(response["observation_tokens"])}
        response |= {"generated_at": time.time(), "verdict": ""}
        started = time.monotonic()
        self.rewards_awaited += 1
        try:
            response.update(await self._entries(response, prompt, label, hf_tokenizer))
        except (ClientError, ValueError) as error:
            refused = isinstance(error, ClientError) and error.cause.refuses_all
            why = sentence(error) if isinstance(error, ClientError) else str(error)
            response.update(reward=None, scores=None, extra_logs={}, reward_error=why, reward_refused=refused)
        finally:
            self.rewards_awaited -= 1
        response["reward_seconds"] = time.monotonic() - started
        return response

    async def _of_service(self, response: dict[str, Any], prompt: str, label: str, tokenizer: Any) -> dict[str, Any]:
        # Decoding takes milliseconds for a long response, so each text is made only where a service reads it.
        query = completion = ""
        if self.reads_query:
            query = tokenizer.decode(response["observation_tokens"], skip_special_tokens=False)
        tokens = completion_tokens(response, tokenizer, self._end_of_turn(tokenizer)) if self.reads_completion else []
        if tokens:
            completion = tokenizer.decode(tokens, skip_special_tokens=False)
        answer = await self.client.reward(Item(completion, str(label), prompt, self.client.options, query))
        entries = {"reward": answer.reward, "scores": answer.score, "extra_logs": answer.extra_logs}
        if answer.span is not None:
            after = tokens_within(len(completion) - answer.span[1], tokens, tokenizer)
            entries["answer_end"] = response["action_ranges"][0][0] + len(tokens) - after
        return {**entries, "verdict": answer.verdict or ""}

    async def _of_function(self, response: dict[str, Any], prompt: str, label: str, tokenizer: Any) -> dict[str, Any]:
        query = tokenizer.decode(response["observation_tokens"], skip_special_tokens=False)
        returned = await self._function(query, prompt, label)
        reward, score = returned.get("rewards"), returned.get("scores")
        return checked(reward, reward if score is None else score, returned.get("extra_logs"))

    async def _of_agent(self, response: dict[str, Any], *_: Any) -> dict[str, Any]:
        return checked(response["reward"], response["scores"], response.get("extra_logs"))

    async def _of_model(self, *_: Any) -> dict[str, Any]:
        return {}  # OpenRLHF asks it later


@overrides("generate_responses")
class RolloutActor(plain_class(vllm_engine.RolloutRayActor)):  # type: ignore[misc]
    """OpenRLHF's rollout actor, with an engine that returns entropies and rewards from our client."""

    executor: Any
    llm: Any

    # An asynchronous constructor, as in OpenRLHF's own class; Ray awaits it.
    async def __init__(  # type: ignore[misc]
        self, *args: Any, rollout: RolloutSettings, remote_rm_url: Any = None, **kwargs: Any
    ) -> None:
        kwargs.update(engine_kwargs() | one_message.switch_on())
        kwargs["disable_log_stats"] = True  # counted for every token, and nobody reads them
        if kwargs.get("full_determinism"):  # --train.full_determinism_enable
            os.environ.setdefault("VLLM_BATCH_INVARIANT", "1")
        kwargs |= {"worker_extension_cls": rollout.worker_extension_cls, "max_num_seqs": rollout.max_num_seqs}
        if rollout.dtype is not None:
            kwargs["dtype"] = rollout.dtype
        urls = [remote_rm_url] if isinstance(remote_rm_url, str) else list(remote_rm_url or [])
        reward_function = bool(urls) and urls[0].endswith(".py")
        for program in [kwargs.get("agent_func_path"), urls[0] if reward_function else None]:
            if program:  # which may import its neighbours, as `python PROGRAM` could
                sys.path.insert(0, os.path.dirname(os.path.abspath(program)))
        # Without a URL OpenRLHF's executor fetches no reward, and we do. From a .py file it loads the reward function.
        await super().__init__(*args, remote_rm_url=urls if reward_function else None, **kwargs)
        if reward_function:
            self.executor.reward_endpoints = []
        self.reward_client = None if rollout.reward is None else RewardClient(rollout.reward, rollout.reward_options)
        seconds = rollout.function_seconds if reward_function else None
        self.executor = RewardingExecutor(self.executor, self.reward_client, seconds, rollout.chat)
        # vLLM's own front-end does the same. Otherwise reading the arrays of log-probabilities sets off collections
        # that go through all of vLLM's objects.
        gc.collect()
        gc.freeze()

    async def generate_responses(
        self, *, num_samples: int = 1, seed: int | None = None, place: int | None = None, **of_the_prompt: Any
    ) -> list[dict[str, Any]]:
        """As OpenRLHF's: responses to one prompt, in the order of their places in the group.

        Args:
            num_samples: responses.
            seed: of the group, see `openrlhf_gtpo.seeds`.
            place: the prompt's; each response has it as ``place``.
            of_the_prompt: OpenRLHF's other arguments.
        """
        seeds = [None if seed is None else derived(seed, i) for i in range(num_samples)]
        calls = [self.executor.execute(llm_engine=self, seed=one, **of_the_prompt) for one in seeds]
        return [{**response, "place": place} for response in await asyncio.gather(*calls)]

    async def entropy_hook_report(self) -> list[dict[str, Any]]:
        """Each worker's report on the entropy hook, for `openrlhf_gtpo.vllm_entropy.check_hook`."""
        return await self.llm.collective_rpc("entropy_hook_report")

    async def rewards_awaited(self) -> int:
        """How many responses wait for their rewards."""
        return int(self.executor.rewards_awaited)

    async def reward_stats(self) -> dict[str, float]:
        """Counters of this actor's reward client since its start; empty without a client."""
        return {} if self.reward_client is None else dataclasses.asdict(self.reward_client.stats)


class ConfiguredRolloutActor:
    """Replaces `openrlhf.trainer.ray.vllm_engine.RolloutRayActor` in the driver: starts `RolloutActor` with our
    settings besides OpenRLHF's own arguments.

    The settings are an argument, because a rollout actor gets no flags, and because the reward service's token must
    not be in an environment or a printed list of flags.
    """

    def __init__(self, remote_class: Any, rollout: RolloutSettings, names: Iterator[str] | None = None) -> None:
        self._remote_class = remote_class
        self._rollout = rollout
        self._names = names

    def named(self, names: Iterator[str]) -> "ConfiguredRolloutActor":
        """The same class, whose actors take their names in Ray from this iterator."""
        return ConfiguredRolloutActor(self._remote_class, self._rollout, names)

    def options(self, **options: Any) -> "ConfiguredRolloutActor":
        """As Ray's: the same class with other resources."""
        name = {} if self._names is None else {"name": next(self._names)}
        return ConfiguredRolloutActor(self._remote_class.options(**options, **name), self._rollout)

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Start an actor."""
        return self._remote_class.remote(*args, rollout=self._rollout, **kwargs)
