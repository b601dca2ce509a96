"""An executor for vLLM without a model: each step takes a given time, as a GPU's would, and gives random tokens.

Log-probabilities have vLLM's shape, and an entropy in column 1 as the hook puts it there. The EngineCore around it,
its scheduler and the front-end are vLLM's own. `NULL_STEP_MS` is a step's time.
"""

import os
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import torch
from vllm.v1.executor.abstract import Executor
from vllm.v1.kv_cache_interface import FullAttentionSpec
from vllm.v1.outputs import EMPTY_MODEL_RUNNER_OUTPUT, LogprobsTensors, ModelRunnerOutput

VARIANTS = 64
MOST_SEQUENCES = 1024
VOCABULARY = 150_000


def done(result: Any, non_block: bool) -> Any:
    future: Future[Any] = Future()
    future.set_result(result)
    return future if non_block else result


class Later(Future):
    """A result that is there at a time of ``time.perf_counter``, and made then."""

    def __init__(self, make: Callable[[], Any], at: float) -> None:
        super().__init__()
        self._make, self._at = make, at

    def result(self, timeout: float | None = None) -> Any:
        if not self.done():
            left = self._at - time.perf_counter()
            if left > 0:  # even a sleep of 0 gives the processor to others
                time.sleep(left)
            self.set_result(self._make())
        return super().result()


class NullExecutor(Executor):
    """Takes the place of a worker with a model."""

    supports_pp = False

    @classmethod
    def supports_async_scheduling(cls) -> bool:
        return True

    def _init_executor(self) -> None:
        self._step_seconds = float(os.environ["NULL_STEP_MS"]) / 1e3
        self._free_at, self._steps = 0.0, 0
        self._params: dict[str, Any] = {}
        generator = torch.Generator().manual_seed(0)
        shape = (VARIANTS, MOST_SEQUENCES, 2)
        self._ids = torch.randint(2, VOCABULARY, shape, generator=generator)
        self._ids[:, :, 1] = 0
        self._logprobs = -torch.rand(shape, generator=generator)
        self._logprobs[:, :, 1] *= -1
        self._ranks = torch.randint(1, 9, shape[:2], generator=generator)

    def check_health(self) -> None:
        pass

    def shutdown(self) -> None:
        pass

    def collective_rpc(
        self, method: Any, timeout: float | None = None, args: Any = (), kwargs: Any = None, non_block: bool = False
    ) -> Any:
        answers = {
            "get_kv_cache_spec": lambda: {
                "layer.0": FullAttentionSpec(block_size=16, num_kv_heads=1, head_size=64, dtype=torch.float16)
            },
            "determine_available_memory": lambda: 4 << 30,
            "get_supported_tasks": lambda: ("generate",),
            "get_supported_kv_cache_layouts": lambda: ["NHD"],
            "cpu_seconds": time.process_time,  # of the EngineCore, in whose process this runs
        }
        if method == "compile_or_warm_up_model":
            return []
        return [answers.get(method, lambda: None)()]

    def execute_model(self, scheduler_output: Any, non_block: bool = False) -> Any:
        self._asked = scheduler_output
        for request in scheduler_output.scheduled_new_reqs:
            self._params[request.req_id] = request.sampling_params
        for request_id in scheduler_output.finished_req_ids:
            self._params.pop(request_id, None)
        return done(None if scheduler_output.total_num_scheduled_tokens else EMPTY_MODEL_RUNNER_OUTPUT, non_block)

    def sample_tokens(self, grammar_output: Any, non_block: bool = False) -> Any:
        if not self._asked.total_num_scheduled_tokens:
            return done(None, non_block)
        request_ids = list(self._asked.num_scheduled_tokens)
        wanted = [self._params[request_id].logprobs for request_id in request_ids]
        columns = max((1 + k for k in wanted if k is not None), default=0)
        variant, count = self._steps % VARIANTS, len(request_ids)
        self._steps += 1

        def make() -> ModelRunnerOutput:
            ids = self._ids[variant, :count]
            rows = None
            if columns:
                logprobs = self._logprobs[variant, :count, :columns].contiguous()
                rows = LogprobsTensors(ids[:, :columns].contiguous(), logprobs, self._ranks[variant, :count]).tolists()
            return ModelRunnerOutput(
                req_ids=request_ids,
                req_id_to_index={request_id: i for i, request_id in enumerate(request_ids)},
                sampled_token_ids=ids[:, :1].tolist(),
                logprobs=rows,
                prompt_logprobs_dict={},
                pooler_output=[],
            )

        self._free_at = max(time.perf_counter(), self._free_at) + self._step_seconds
        later = Later(make, self._free_at)
        return later if non_block else later.result()
