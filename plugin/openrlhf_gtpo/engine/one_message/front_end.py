"""The front-end of an engine that sends one message a request: the process that asks, and reads the outputs.

vLLM appends log-probabilities to lists token by token. Those of a whole response stay the arrays in which they came,
and lists are made of them if somebody reads lists. vLLM's front-end ends an aborted request by itself, with what it
has; here it asks the EngineCore first, which has the tokens."""

import asyncio
import functools
import logging
import time
from collections.abc import Iterable
from typing import Any

import numpy as np
from vllm.logprobs import FlatLogprobs
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.logprobs import LogprobsProcessor

from openrlhf_gtpo.engine.one_message import SCHEDULER

logger = logging.getLogger(__name__)

_MARK = "_openrlhf_gtpo_one_message"

_FEW = 16
"""Rows that are appended as vLLM does it. With speculative decoding a token's message may have some."""

_ABORT_SECONDS = 30.0
"""How long the EngineCore may take to answer an abort; it does so after the step that it is in."""


class ArrayLogprobs(FlatLogprobs):
    """vLLM's flat log-probabilities of a whole response as arrays, until somebody reads or changes the lists."""

    arrays: tuple[np.ndarray, np.ndarray, np.ndarray] | None
    """Token ids and log-probabilities (T, 1 + k), each row's first the sampled token's, and its rank (T,). None once
    lists were made of them."""

    def __init__(self, token_ids: np.ndarray, logprobs: np.ndarray, ranks: np.ndarray) -> None:
        self.arrays = (token_ids, logprobs, ranks)

    def __len__(self) -> int:
        return len(self.start_indices) if self.arrays is None else len(self.arrays[0])

    def __getattr__(self, name: str) -> Any:
        arrays = self.__dict__.get("arrays")
        if arrays is None or name not in FlatLogprobs.__dataclass_fields__:
            raise AttributeError(f"{type(self).__name__} has no {name}")
        token_ids, logprobs, ranks = arrays
        tokens, width = token_ids.shape
        all_ranks = np.tile(np.arange(width), (tokens, 1))  # the others' are their places
        all_ranks[:, 0] = ranks
        self.start_indices = [*range(0, tokens * width, width)]
        self.end_indices = [*range(width, tokens * width + 1, width)]
        self.token_ids, self.logprobs = token_ids.ravel().tolist(), logprobs.ravel().tolist()
        self.ranks, self.decoded_tokens = all_ranks.ravel().tolist(), [None] * (tokens * width)
        self.arrays = None
        return self.__dict__[name]


def install() -> None:
    """Change vLLM's front-end in this process. Calling it again changes nothing."""
    if getattr(LogprobsProcessor, _MARK, False):
        return
    setattr(LogprobsProcessor, _MARK, True)
    update, abort = LogprobsProcessor._update_sample_logprobs, AsyncLLM.abort

    @functools.wraps(update)
    def update_at_once(self: Any, logprobs_lists: Any) -> None:
        token_ids, logprobs, ranks, _ = logprobs_lists
        width = 1 + self.num_logprobs
        whole = len(ranks) > _FEW and self.tokenizer is None and logprobs.shape[1] == width
        if not whole or type(self.logprobs) is not FlatLogprobs or len(self.logprobs):
            update(self, logprobs_lists)
            return
        # Copies, since the arrays are views of a message that has other requests' tokens too.
        self.logprobs = ArrayLogprobs(token_ids.copy(), logprobs.copy(), ranks.copy())
        # One after the other in float64, as vLLM adds them.
        self.cumulative_logprob += float(np.cumsum(logprobs[:, 0], dtype=np.float64)[-1])

    @functools.wraps(abort)
    async def abort_with_tokens(self: Any, request_id: str | Iterable[str], internal: bool = False) -> None:
        external = [request_id] if isinstance(request_id, str) else list(request_id)
        # An internal abort is that of a caller who has gone: nobody reads the output.
        if not internal and self.vllm_config.scheduler_config.scheduler_cls == SCHEDULER:
            await _let_engine_abort(self, external)
        await abort(self, external, internal)

    LogprobsProcessor._update_sample_logprobs = update_at_once
    AsyncLLM.abort = abort_with_tokens


async def _let_engine_abort(llm: Any, external: list[str]) -> None:
    """Abort requests in the EngineCore and wait for their last outputs, which have their tokens."""
    states, ids_of = llm.output_processor.request_states, llm.output_processor.external_req_ids
    ids = [internal for request_id in external for internal in ids_of.get(request_id, ())]
    await llm.engine_core.abort_requests_async(ids)
    until = time.monotonic() + _ABORT_SECONDS
    while waiting := [request_id for request_id in ids if request_id in states]:
        if llm.errored or time.monotonic() > until:
            logger.warning(
                "%d aborted requests end without their tokens: vLLM's EngineCore does not answer.", len(waiting)
            )
            return
        await asyncio.sleep(0.002)
