"""Runs in the rollout actors: generates with vLLM, collects each token's entropy, and fetches the reward.

OpenRLHF's own executor (or the user's agent) still generates. It gets a recorder in place of the engine, which asks
for entropies and keeps them. Rewards are fetched here, not in the executor, whose client turns an outage into
``None``.

A response gains these entries:

* ``entropy`` and ``logprob``: float32 arrays, one number per observation token, 0 outside the response
* ``kept``: int32 array (n, 2), for each token that one could have been sampled in its place the place among the
  observation tokens and the token; None in runs that need none
* ``reward_error``: one sentence, or None
* ``reward_refused``: whether the reward service refuses every request
* ``generated_at``: Unix time of its last token
* ``reward_seconds``: from then to its reward
"""

import asyncio
import dataclasses
import functools
import gc
import math
import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import openrlhf.trainer.ray.vllm_engine as vllm_engine
from openrlhf.utils.agent import AgentExecutorBase, SingleTurnAgentExecutor
from vllm.sampling_params import RequestOutputKind

from math_reward.client import ClientError, Item
from math_reward.client.settings import speaks_grade
from openrlhf_gtpo.engine import one_message
from openrlhf_gtpo.errors import UserError
from openrlhf_gtpo.openrlhf_internals import plain_class
from openrlhf_gtpo.rewards.client import RewardClient, sentence
from openrlhf_gtpo.rollout.kept import engine_with_kept, sampling_with_kept, take_kept
from openrlhf_gtpo.seeds import derived
from openrlhf_gtpo.settings import RolloutSettings
from openrlhf_gtpo.vllm_entropy import entropies_and_logprobs


class AgentMismatch(UserError):
    """An agent's calls of the engine do not match its action ranges, so entropies cannot be assigned to tokens, or not
    the run's way of sampling."""


class EntropyRecorder:
    """Replaces the engine during one rollout: asks for entropies with every request and keeps them in order.

    ``text``: whether anyone reads the generated text. If not, vLLM does not have to decode tokens.
    ``seed``: what the seeds of its requests are derived from; None for no seeds.
    ``columns``: the engine's for kept tokens, 0 in runs that need none.
    """

    def __init__(self, engine: Any, *, text: bool = True, seed: int | None = None, columns: int = 0) -> None:
        self._engine = engine
        self._text = text
        self._columns = columns
        self._seed = seed
        self._asked = 0
        self.calls: list[tuple[np.ndarray, np.ndarray]] = []
        """For each call of `generate`, the entropies (nats) and the log-probabilities of its tokens, (T,) each."""
        self.kept: list[np.ndarray] = []
        """For each call its kept tokens, see `take_kept`; empty without columns."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def generate(self, prompt_token_ids: list[int], sampling_params: Any, multi_modal_data: Any = None) -> Any:
        """As the engine's own `generate`, whose output it returns, without the columns of kept tokens.

        Raises:
            AgentMismatch: kept tokens are needed, and an agent took top-k out of its request.
        """
        if self._columns and sampling_params.top_k < 1:
            raise AgentMismatch(
                "The agent of --train.agent_func_path asks for a response without the run's --rollout.top_k, which "
                "importance correction needs: let it pass on the sampling parameters that it is given."
            )
        for name, value in sampling_with_kept(self._columns).items():
            setattr(sampling_params, name, value)
        if self._seed is not None:
            sampling_params.seed = derived(self._seed, self._asked)  # an agent asks once a turn
        self._asked += 1
        # OpenRLHF reads the last output only. By default vLLM would send one, and wake this process, for every token.
        sampling_params.output_kind = RequestOutputKind.FINAL_ONLY
        sampling_params.detokenize = sampling_params.detokenize and (self._text or bool(sampling_params.stop))
        output = await self._engine.generate(prompt_token_ids, sampling_params, multi_modal_data=multi_modal_data)
        completion = output.outputs[0]
        if self._columns:
            self.kept.append(take_kept(completion, self._columns))
        self.calls.append(entropies_and_logprobs(completion))
        return output


class PromptsOnce:
    """A tokenizer that tokenizes a prompt once; OpenRLHF's executor does it anew for each response of a group."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._encode = functools.lru_cache(maxsize=1024)(tokenizer.__call__)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tokenizer, name)

    def __call__(self, **arguments: Any) -> Any:
        """As the tokenizer's. Whoever changes the result changes it for all callers."""
        return self._encode(**arguments)


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


def kept_in_sequence(response: dict[str, Any], kept: list[np.ndarray]) -> np.ndarray:
    """(n, 2) int32, the kept tokens of a response with their places among its ``observation_tokens``.

    Args:
        response: as for `aligned`, which checks it.
        kept: the `kept` of an `EntropyRecorder` with columns.
    """
    moved = [one + np.array([start, 0]) for (start, _), one in zip(response["action_ranges"], kept, strict=True)]
    return np.concatenate([np.zeros((0, 2)), *moved]).astype(np.int32)


def completion_text(response: dict[str, Any], tokenizer: Any) -> str:
    """The policy's text, without the prompt and without end-of-sequence and padding tokens at its end."""
    start = response["action_ranges"][0][0] if response["action_ranges"] else len(response["observation_tokens"])
    tokens = list(response["observation_tokens"][start:])
    while tokens and tokens[-1] in (tokenizer.eos_token_id, tokenizer.pad_token_id):
        tokens.pop()
    return tokenizer.decode(tokens, skip_special_tokens=False)


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


class RewardingExecutor(AgentExecutorBase):
    """Generates with another executor, then fetches the reward and reports every failure."""

    def __init__(
        self, inner: AgentExecutorBase, client: RewardClient | None, reward_function: bool, columns: int = 0
    ) -> None:
        """
        Args:
            inner: the executor that generates; an agent returns the reward too.
            client: of the reward service, or None.
            reward_function: whether ``inner`` is OpenRLHF's single-turn executor with a user's ``reward_func``.
            columns: the engine's for kept tokens.
        """
        self.columns = columns
        self.inner = inner
        self.client = client
        self.reward_function = reward_function
        protocols = {speaks_grade(url) for url in client.settings.urls} if client else set()
        self.reads_completion = True in protocols
        self.reads_query = False in protocols or reward_function
        self._tokenizer: PromptsOnce | None = None

    async def execute(
        self,
        prompt: str,
        label: str,
        sampling_params: Any,
        max_length: int,
        hf_tokenizer: Any,
        llm_engine: Any,
        images: Any = None,
        seed: int | None = None,
    ) -> dict[str, Any]:
        """One rollout. The module's docstring lists the entries that it adds to OpenRLHF's response.

        Args:
            seed: decides its random numbers; without one vLLM's own state does. The others are OpenRLHF's.
        """
        # OpenRLHF's own executor reads only the tokens; a user's agent may read the text.
        is_openrlhfs = type(self.inner) is SingleTurnAgentExecutor
        recorder = EntropyRecorder(llm_engine, text=not is_openrlhfs, seed=seed, columns=self.columns)
        if self._tokenizer is None or self._tokenizer.tokenizer is not hf_tokenizer:
            self._tokenizer = PromptsOnce(hf_tokenizer)
        response = await self.inner.execute(
            prompt=prompt,
            label=label,
            sampling_params=sampling_params,
            max_length=max_length,
            hf_tokenizer=self._tokenizer if is_openrlhfs and not images else hf_tokenizer,
            llm_engine=recorder,
            images=images,
        )
        response["entropy"], response["logprob"] = aligned(response, recorder.calls)
        response["kept"] = kept_in_sequence(response, recorder.kept) if self.columns else None
        return await self._rewarded(response, prompt, label, hf_tokenizer)

    async def worked_solution(
        self, prompt: str, label: str, solution: str, max_length: int, hf_tokenizer: Any, log_probs: bool
    ) -> dict[str, Any]:
        """A worked solution as a response that was certain to be generated: every probability is 1, every entropy 0.

        Args:
            prompt: as the policy gets it.
            label: the reference answer.
            solution: the text; the end-of-sequence token is appended. Tokens beyond ``max_length`` are cut off, and
                the response then counts as truncated.
            max_length: tokens of prompt and solution.
            hf_tokenizer: the policy's tokenizer or processor.
            log_probs: whether OpenRLHF's executor returns log-probabilities in this run.
        """
        # For a vision model this is a processor, whose first argument is images.
        tokenizer = getattr(hf_tokenizer, "tokenizer", hf_tokenizer)
        start = tokenizer(prompt, add_special_tokens=False)["input_ids"]
        tokens = start + tokenizer(solution, add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id]
        truncated, tokens = len(tokens) > max_length, tokens[:max_length]
        nothing = np.zeros(len(tokens), dtype=np.float32)
        response = {
            "prompt": prompt,
            "label": label,
            "images": None,
            "mm_train_inputs": None,
            "observation_tokens": tokens,
            "action_ranges": [(len(start), len(tokens))],
            "rollout_log_probs": nothing.tolist() if log_probs else None,
            "truncated": truncated,
            "reward": None,
            "scores": None,
            "extra_logs": {},
            "entropy": nothing,
            "logprob": nothing,
            "kept": None,
        }
        return await self._rewarded(response, prompt, label, hf_tokenizer)

    async def _rewarded(self, response: dict[str, Any], prompt: str, label: str, hf_tokenizer: Any) -> dict[str, Any]:
        """The response with its reward, or with a sentence that says why it has none."""
        response["reward_error"], response["reward_refused"] = None, False
        response["generated_at"], started = time.time(), time.monotonic()
        try:
            await self._reward(response, prompt, label, hf_tokenizer)
        except (ClientError, ValueError) as error:
            refused = isinstance(error, ClientError) and error.cause.refuses_all
            why = sentence(error) if isinstance(error, ClientError) else str(error)
            response.update(reward=None, scores=None, extra_logs={}, reward_error=why, reward_refused=refused)
        response["reward_seconds"] = time.monotonic() - started
        return response

    async def _reward(self, response: dict[str, Any], prompt: str, label: str, tokenizer: Any) -> None:
        # Decoding takes milliseconds for a long response, so each text is made only where somebody reads it.
        query = completion = ""
        if self.reads_query:
            query = tokenizer.decode(response["observation_tokens"], skip_special_tokens=False)
        if self.client is not None:
            if self.reads_completion:
                completion = completion_text(response, tokenizer)
            answer = await self.client.reward(Item(completion, str(label), prompt, query=query))
            response.update(reward=answer.reward, scores=answer.score, extra_logs=answer.extra_logs)
            return
        if self.reward_function:
            try:
                (answer_of_function,) = await self.inner._fetch_rewards_via_func([query], [prompt], [label])
                returned = dict(answer_of_function)
            except Exception as error:
                raise ValueError(f"the reward function failed: {type(error).__name__}: {error}") from error
            response.update(
                reward=returned.get("rewards"),
                scores=returned.get("scores") if returned.get("scores") is not None else returned.get("rewards"),
                extra_logs=returned.get("extra_logs") or {},
            )
        elif isinstance(self.inner, SingleTurnAgentExecutor):
            return  # OpenRLHF asks a reward model later
        response["reward"] = number(response["reward"], "the reward")
        response["scores"] = number(response["scores"], "the score")
        response["extra_logs"] = {
            key: number(value, f"extra_logs[{key!r}]") for key, value in (response.get("extra_logs") or {}).items()
        }


class RolloutActor(plain_class(vllm_engine.RolloutRayActor)):  # type: ignore[misc]
    """OpenRLHF's rollout actor, with an engine that returns entropies and rewards from our client."""

    executor: Any
    llm: Any

    # An asynchronous constructor, as in OpenRLHF's own class; Ray awaits it.
    async def __init__(  # type: ignore[misc]
        self, *args: Any, rollout: RolloutSettings, remote_rm_url: Any = None, **kwargs: Any
    ) -> None:
        kwargs.update(engine_with_kept(rollout.kept_columns) | one_message.switch_on())
        kwargs["disable_log_stats"] = True  # counted for every token, and nobody reads them
        if kwargs.get("full_determinism"):  # --train.full_determinism_enable
            os.environ.setdefault("VLLM_BATCH_INVARIANT", "1")
        kwargs["worker_extension_cls"] = rollout.worker_extension_cls
        if rollout.dtype is not None:
            kwargs["dtype"] = rollout.dtype
        if rollout.max_num_seqs is not None:
            kwargs["max_num_seqs"] = rollout.max_num_seqs
        urls = [remote_rm_url] if isinstance(remote_rm_url, str) else list(remote_rm_url or [])
        reward_function = bool(urls) and urls[0].endswith(".py")
        # Without a URL OpenRLHF's executor fetches no reward, and we do. From a .py file it loads the reward function.
        await super().__init__(*args, remote_rm_url=urls if reward_function else None, **kwargs)
        if reward_function:
            self.executor.reward_endpoints = []
        self.reward_client = None if rollout.reward is None else RewardClient(rollout.reward)
        self.executor = RewardingExecutor(self.executor, self.reward_client, reward_function, rollout.kept_columns)
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
        responses = await asyncio.gather(
            *(
                self.executor.execute(
                    llm_engine=self, seed=None if seed is None else derived(seed, i), **of_the_prompt
                )
                for i in range(num_samples)
            )
        )
        return [{**response, "place": place} for response in responses]

    async def entropy_hook_report(self) -> list[dict[str, Any]]:
        """Each worker's report on the entropy hook, for `openrlhf_gtpo.vllm_entropy.check_hook`."""
        return await self.llm.collective_rpc("entropy_hook_report")

    async def worked_solutions(
        self, prompt: str, label: str, solutions: list[str], max_length: int, hf_tokenizer: Any, log_probs: bool
    ) -> list[dict[str, Any]]:
        """Worked solutions of one prompt, graded; see `RewardingExecutor.worked_solution`."""
        return await asyncio.gather(
            *(
                self.executor.worked_solution(prompt, label, solution, max_length, hf_tokenizer, log_probs)
                for solution in solutions
            )
        )

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
