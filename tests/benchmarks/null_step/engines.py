"""Rollout actors, ours and OpenRLHF's, around an engine without a model."""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import openrlhf.trainer.ray.vllm_engine as vllm_engine
import vllm
from vllm.logprobs import FlatLogprobs

from null_step import trace
from null_step.material import key_of
from openrlhf_gtpo.cpu.engines import CpuRolloutActor
from openrlhf_gtpo.openrlhf_internals import plain_class

try:
    from openrlhf_gtpo.engine.one_message.front_end import ArrayLogprobs
except ImportError:  # an older checkout is measured
    ArrayLogprobs = None

POOL = 20_000


class NullEngine:
    """Answers as vLLM's AsyncLLM: a text of the documentation that ends in a right or a wrong answer, with
    log-probabilities and entropies where the request asks for them."""

    def __init__(self) -> None:
        model, folder = Path(trace.SETTINGS["model"]), trace.FOLDER
        self._text = json.loads((model / "text.json").read_text())
        self._ends = json.loads((folder / "ends.json").read_text())
        self._draw = random.Random(trace.SETTINGS["seed"])
        values = np.random.default_rng(0)
        self._entropies = values.gamma(0.5, 0.6, POOL).astype(np.float32)
        self._logprobs = (-values.gamma(0.4, 0.5, POOL)).astype(np.float32)
        self._unfinished = 0
        self.output_processor = SimpleNamespace(get_num_unfinished_requests=lambda: self._unfinished)

    async def generate(self, prompt: Any, params: Any, request_id: str | None = None) -> AsyncIterator[Any]:
        arrived = time.time()
        self._unfinished += 1
        try:
            completion = self._completion(prompt["prompt_token_ids"], params)
            length = len(completion.token_ids)
            trace.write(arrived=arrived, tokens=length, sequence=len(prompt["prompt_token_ids"]) + length)
            await asyncio.sleep(trace.SETTINGS["seconds"]["generate"] * length / trace.SETTINGS["longest"])
            yield SimpleNamespace(outputs=[completion])
        finally:
            self._unfinished -= 1

    def _completion(self, prompt_tokens: list[int], params: Any) -> SimpleNamespace:
        right, wrong = self._ends[key_of(prompt_tokens)]
        end = right if self._draw.random() < 0.5 else wrong
        n = max(len(end), self._draw.randint(trace.SETTINGS["shortest"], trace.SETTINGS["longest"]))
        at = self._draw.randrange(len(self._text) - n)
        tokens = self._text[at : at + n - len(end)] + end
        logprobs = None if params.logprobs is None else self._logprobs_of(tokens)
        return SimpleNamespace(token_ids=tokens, text="", logprobs=logprobs, finish_reason="stop")

    def _logprobs_of(self, tokens: list[int]) -> FlatLogprobs:
        n = len(tokens)
        ids = np.stack([tokens, np.add(tokens, 1)], axis=1)
        values = np.stack([self._slice(self._logprobs, n), self._slice(self._entropies, n)], axis=1)
        ranks = np.ones(n, dtype=int)
        if ArrayLogprobs is not None:
            return ArrayLogprobs(ids, values, ranks)
        return FlatLogprobs(
            start_indices=[*range(0, 2 * n, 2)],
            end_indices=[*range(2, 2 * n + 2, 2)],
            token_ids=ids.ravel().tolist(),
            logprobs=values.ravel().tolist(),
            ranks=np.repeat(ranks, 2).tolist(),
            decoded_tokens=[None] * (2 * n),
        )

    def _slice(self, pool: np.ndarray, n: int) -> np.ndarray:
        return np.resize(pool[self._draw.randrange(POOL // 2) :], n)

    async def collective_rpc(self, method: str, *args: Any, **kwargs: Any) -> list[Any]:
        if method == "entropy_hook_report":
            return [{"hooked": True, "vllm": vllm.__version__, "sampler": "none"}]
        return [None]

    async def is_sleeping(self) -> bool:
        return False

    async def reset_prefix_cache(self) -> None:
        pass


def _vllm_without_a_model() -> SimpleNamespace:
    """What OpenRLHF's rollout actor calls ``vllm``."""
    return SimpleNamespace(
        __version__=vllm.__version__,
        AsyncEngineArgs=lambda *args, **kwargs: None,
        AsyncLLMEngine=SimpleNamespace(from_engine_args=lambda args: NullEngine()),
    )


class OurRolloutActor(CpuRolloutActor):
    """The product's actor."""

    async def __init__(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[misc]
        trace.begin("rollout actor")
        vllm_engine.vllm = _vllm_without_a_model()
        await super().__init__(*args, **kwargs)


class PlainRolloutActor(plain_class(vllm_engine.RolloutRayActor)):  # type: ignore[misc]
    """OpenRLHF's actor."""

    async def __init__(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[misc]
        trace.begin("rollout actor")
        vllm_engine.vllm = _vllm_without_a_model()
        await super().__init__(*args, **kwargs)
