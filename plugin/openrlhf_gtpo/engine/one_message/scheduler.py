"""vLLM's scheduler, which keeps what a request that wants its final output alone has generated, until its end.

The scheduler still makes each token's output, in ``update_from_output``. Of a request that is kept it goes no further:
its tokens are in the request, which the scheduler has anyway, and its log-probabilities in `kept_rows`. They leave
with the last output. An output that carries more than tokens (the statistics of its prefill, an event) passes without
its tokens, so the front-end's counts of requests, prompts and cached tokens are as ever.

Preempted and paused requests stay kept. Whoever aborts requests, a client or a pause, gets what they had generated:
an output with the reason ``abort`` in the next step, which the scheduler always has, to tell the workers."""

import copy
import functools
import logging
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine import EngineCoreOutput, EngineCoreOutputs
from vllm.v1.outputs import LogprobsLists
from vllm.v1.request import RequestStatus

from openrlhf_gtpo.engine.one_message import vllm_internals
from openrlhf_gtpo.engine.one_message.kept_rows import KeptRequest, StepRows

logger = logging.getLogger(__name__)


class OneMessageScheduler:
    """A scheduler for ``scheduler_cls``: an instance of `scheduler_class`.

    The class is chosen here, in the EngineCore, since vLLM takes its name before it decides how to schedule.
    """

    def __new__(cls, vllm_config: Any, *args: Any, **kwargs: Any) -> Any:
        """
        Args:
            vllm_config: and the others, as vLLM's scheduler takes them.
        """
        return scheduler_class(vllm_config)(vllm_config, *args, **kwargs)


def scheduler_class(vllm_config: Any) -> type:
    """The scheduler that vLLM would have chosen, synchronous or asynchronous, and one that keeps tokens if it can."""
    settings = copy.copy(vllm_config.scheduler_config)
    settings.scheduler_cls = None
    chosen = settings.get_scheduler_cls()
    why_not = vllm_internals.misfit() or _unfit(vllm_config)
    if why_not is None:
        return _keeping(chosen)
    logger.warning("vLLM sends one message a token, not one a request: %s.", why_not)
    return chosen


def wants_final_output_alone(request: Any) -> bool:
    """Whether nobody needs this request's tokens before it ends.

    Stop strings are looked for in the front-end, which needs every token for it at once.
    """
    params = request.sampling_params
    return (
        params is not None
        and params.output_kind is RequestOutputKind.FINAL_ONLY
        and not params.stop
        and params.prompt_logprobs is None
        and (params.num_logprobs or 0) >= 0  # -1 is the whole vocabulary: too much to keep
        and not request.resumable
    )


def _unfit(vllm_config: Any) -> str | None:
    """Why this engine's requests cannot be kept, as a clause, or None."""
    model, parallel = vllm_config.model_config, vllm_config.parallel_config
    # Each under the names that it has in the versions from 0.27 on.
    each_token = [
        getattr(model, "return_sampling_mask", False),
        getattr(model, "enable_return_routed_experts", False),
        getattr(getattr(vllm_config, "aux_output_config", None), "enabled", False),
    ]
    if any(each_token):
        return "this engine returns routed experts or sampling masks, of each token"
    if getattr(parallel, "enable_fault_tolerance", False):
        return "this engine aborts requests itself after a fault (enable_fault_tolerance)"
    return None


@functools.cache
def _keeping(scheduler: type) -> type:
    return type(f"OneMessage{scheduler.__name__}", (_KeepsTokens, scheduler), {})


class _Places(LogprobsLists):
    """A step's rows, of which vLLM's scheduler gets places while it makes the outputs, until it is known who keeps
    them: slices of arrays, three for each token, would cost more than all else that is done here."""

    __slots__ = ()

    def slice_request(self, req_idx: int, num_positions: int) -> Any:
        return req_idx, num_positions


class _KeepsTokens:
    """Mixed into a scheduler class of vLLM."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._kept: dict[str, KeptRequest] = {}
        self._step_rows = StepRows()
        self._columns = 0
        """What a step's rows have at most that a kept request could want."""
        self._aborted: defaultdict[int, list[Any]] = defaultdict(list)
        """The last outputs of aborted requests, for each client."""

    def add_request(self, request: Any) -> None:
        if request.request_id not in self.requests and wants_final_output_alone(request):  # type: ignore[attr-defined]
            kept = self._kept[request.request_id] = KeptRequest(request)
            self._columns = max(self._columns, kept.columns)
        super().add_request(request)  # type: ignore[misc]

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> dict[int, Any]:
        if not self._kept and not self._aborted:
            return super().update_from_output(scheduler_output, model_runner_output)  # type: ignore[misc]
        rows = model_runner_output.logprobs
        if rows is not None:
            block, first = self._step_rows.add(rows, self._columns)
            starts = rows.cu_num_generated_tokens
            model_runner_output.logprobs = _Places(*rows)
        messages = super().update_from_output(scheduler_output, model_runner_output)  # type: ignore[misc]
        kept_requests = self._kept
        for message in messages.values():
            passing = []
            for output in message.outputs:
                kept, given = kept_requests.get(output.request_id), output.new_logprobs
                is_place = type(given) is tuple
                if kept is None:
                    if is_place:
                        output.new_logprobs = rows.slice_request(*given)
                    passing.append(output)
                    continue
                if is_place:
                    index, count = given
                    kept.add(block, first + (index if starts is None else starts[index]), count)
                elif given is not None:  # a vLLM that slices rows in another way, which is slower and as good
                    kept.add_rows(given)
                if output.finish_reason is not None:
                    passing.append(self._with_all(output, kept))
                elif output.prefill_stats is not None or output.events or output.num_nans_in_logits:
                    output.new_token_ids, output.new_logprobs = [], None
                    passing.append(output)
            message.outputs = passing
        for client, outputs in self._aborted.items():
            messages.setdefault(client, EngineCoreOutputs()).outputs.extend(outputs)
        self._aborted.clear()
        return {
            client: message
            for client, message in messages.items()
            if message.outputs or message.scheduler_stats is not None or message.finished_requests
        }

    def finish_requests(self, request_ids: str | Iterable[str] | None, finished_status: Any) -> list[Any]:
        """As vLLM's; but of aborted requests it returns none, since whoever aborts them sends an empty output for each
        that is returned. Their outputs, with what they had generated, are sent with the next step's."""
        finished = super().finish_requests(request_ids, finished_status)  # type: ignore[misc]
        if finished_status is not RequestStatus.FINISHED_ABORTED:
            return finished  # update_from_output has made outputs for these
        for request in finished:
            output = EngineCoreOutput(
                request_id=request.request_id,
                new_token_ids=[],
                finish_reason=request.get_finished_reason(),
                events=request.take_events(),
                trace_headers=request.trace_headers,
            )
            kept = self._kept.get(request.request_id)
            self._aborted[request.client_index].append(output if kept is None else self._with_all(output, kept))
        return []

    def _with_all(self, output: Any, kept: KeptRequest) -> Any:
        """The last output of a request, with everything that was kept of it."""
        del self._kept[output.request_id]
        output.new_token_ids = list(kept.request.output_token_ids)
        rows = kept.rows()
        output.new_logprobs = None if rows is None else LogprobsLists(*rows)
        return output
