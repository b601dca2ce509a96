"""Every internal of vLLM that `one_message` uses, checked before it is used. Read in 0.29 to 0.32."""

import inspect
import pkgutil
from collections.abc import Mapping, Sequence
from typing import Any

from openrlhf_gtpo.engine.hook import version_found

_CALLABLES: Mapping[str, Sequence[str]] = {
    "vllm.config.scheduler.SchedulerConfig.get_scheduler_cls": ["self"],
    "vllm.sampling_params.RequestOutputKind.FINAL_ONLY": [],
    "vllm.sampling_params.SamplingParams.num_logprobs": [],
    "vllm.v1.core.sched.scheduler.Scheduler.add_request": ["self", "request"],
    "vllm.v1.core.sched.scheduler.Scheduler.finish_requests": ["self", "request_ids", "finished_status"],
    "vllm.v1.core.sched.scheduler.Scheduler.update_from_output": ["self", "scheduler_output", "model_runner_output"],
    "vllm.v1.engine.async_llm.AsyncLLM.abort": ["self", "request_id", "internal"],
    "vllm.v1.engine.logprobs.LogprobsProcessor._update_sample_logprobs": ["self", "logprobs_lists"],
    "vllm.v1.outputs.LogprobsLists.slice_request": ["self", "req_idx", "num_positions"],
    "vllm.v1.request.Request.get_finished_reason": ["self"],
    "vllm.v1.request.RequestStatus.FINISHED_ABORTED": [],
}
"""What is subclassed, wrapped or read -> the names of its first arguments."""

_FIELDS: Mapping[str, set[str]] = {
    "vllm.logprobs.FlatLogprobs": {"start_indices", "end_indices", "token_ids", "logprobs", "ranks", "decoded_tokens"},
    "vllm.v1.outputs.LogprobsLists": {
        "logprob_token_ids",
        "logprobs",
        "sampled_token_ranks",
        "cu_num_generated_tokens",
    },
}
"""Classes -> their fields, which must be these and no others."""

_OUTPUT = {
    "request_id",
    "new_token_ids",
    "new_logprobs",
    "finish_reason",
    "stop_reason",
    "trace_headers",
    # These come with a request's first or last output, or let an output pass at once.
    "prefill_stats",
    "events",
    "num_nans_in_logits",
    "kv_transfer_params",
    "ec_transfer_params",
    "spec_decode_metrics",
    "mm_cache_miss_hashes",
    # Requests that get these are not kept.
    "new_prompt_logprobs_tensors",
    "prompt_token_id_logprobs",
    "pooling_output",
    "routed_experts",
    "new_sampling_mask",
}
"""All fields of EngineCoreOutput in any version that was read. One that is not among them could be lost."""


def misfit() -> str | None:
    """Why the installed vLLM does not fit, as a clause with its version, or None."""
    why = _first_difference()
    return None if why is None else f"vLLM {version_found()} differs from those that this was written for: {why}"


def _first_difference() -> str | None:
    for name, arguments in _CALLABLES.items():
        internal = _look_up(name)
        if internal is None:
            return f"there is no {name}"
        if arguments and [*inspect.signature(internal).parameters][: len(arguments)] != arguments:
            return f"{name} does not take ({', '.join(arguments)})"
    for name, fields in _FIELDS.items():
        if (has := _fields(_look_up(name))) != fields:
            return f"{name} has the fields {', '.join(sorted(has))}"
    unknown = _fields(_look_up("vllm.v1.engine.EngineCoreOutput")) - _OUTPUT
    if unknown:
        return f"EngineCoreOutput has the fields {', '.join(sorted(unknown))}"
    missing = {"outputs", "scheduler_stats", "finished_requests"} - _fields(
        _look_up("vllm.v1.engine.EngineCoreOutputs")
    )
    return f"EngineCoreOutputs has no {', '.join(sorted(missing))}" if missing else None


def _look_up(name: str) -> Any:
    """An object by its dotted name, or None."""
    try:
        return pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return None


def _fields(cls: Any) -> set[str]:
    """Of a dataclass, a named tuple or a msgspec.Struct."""
    for of in ("__struct_fields__", "_fields", "__dataclass_fields__"):
        if hasattr(cls, of):
            return {*getattr(cls, of)}
    return set()
