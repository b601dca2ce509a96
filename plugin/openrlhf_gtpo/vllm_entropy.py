"""Exact per-token entropies out of vLLM, for anyone who uses vLLM.

    llm = vllm.LLM(model=..., **engine_kwargs())
    check_hook(llm.collective_rpc("entropy_hook_report"))
    output, = llm.generate(prompt, vllm.SamplingParams(temperature=0.8, **sampling_kwargs()))
    entropies(output.outputs[0])        # one number per sampled token, nats

The entropy is that of the distribution each token was sampled from: after temperature, penalties, min-p, top-k and
top-p. (A greedy request, temperature 0, has no such distribution; it is given that of temperature 1.) It comes at
the price of one column: in such an engine the entry beside a sampled token's log-probability is the entropy, not
the most likely token. ``vllm serve`` takes the same settings: ``--worker-extension-cls
openrlhf_gtpo.vllm_worker.EntropyWorkerExtension --logprobs-mode processed_logprobs --max-logprobs 1``."""

from collections.abc import Iterable, Mapping
from typing import Any

from openrlhf_gtpo.errors import OneSentence

__all__ = ["EntropyMissing", "check_hook", "engine_kwargs", "entropies", "sampling_kwargs"]


class EntropyMissing(OneSentence):
    """An engine that was to return entropies does not; one sentence says why and what to do."""


def engine_kwargs() -> dict[str, Any]:
    """What an engine needs: keyword arguments for ``vllm.LLM``, ``vllm.EngineArgs`` and ``vllm.AsyncEngineArgs``."""
    return {
        "worker_extension_cls": "openrlhf_gtpo.vllm_worker.EntropyWorkerExtension",
        "logprobs_mode": "processed_logprobs",
        "max_logprobs": 1,
    }


def sampling_kwargs() -> dict[str, Any]:
    """What a request needs: keyword arguments for ``vllm.SamplingParams``."""
    return {"logprobs": 1}


def check_hook(reports: Iterable[Mapping[str, Any]]) -> None:
    """Make sure that every worker of an engine has the hook.

    Args:
        reports: what ``collective_rpc("entropy_hook_report")`` returned: one mapping per worker.

    Raises:
        EntropyMissing: a worker samples with something that the hook does not cover.
    """
    for report in reports:
        if not report["hooked"]:
            raise EntropyMissing(
                f"vLLM {report['vllm']} samples with {report['sampler']}, which the entropy hook does not cover, "
                f"so GTPO and "
                "GRPO-S cannot be computed: install a vLLM from 0.27 to 0.32, or set VLLM_USE_V2_MODEL_RUNNER=0."
            )


def entropies(completion: Any) -> list[float]:
    """The entropy of each sampled token of one completion.

    Args:
        completion: a ``vllm.outputs.CompletionOutput`` of a request with `sampling_kwargs` to an engine with
        `engine_kwargs`.

    Returns:
        One float per entry of ``completion.token_ids``, in nats, >= 0.

    Raises:
        EntropyMissing: the request did not ask for them, or the hook is not in the worker that answered.
    """
    if completion.logprobs is None:
        raise EntropyMissing(
            "The request did not ask vLLM for entropies: add **sampling_kwargs() to its SamplingParams."
        )
    found = []
    for token, entries in zip(completion.token_ids, completion.logprobs, strict=True):
        others = [entry.logprob for other, entry in entries.items() if other != token]
        if len(others) != 1 or not others[0] >= 0.0:
            raise EntropyMissing(
                "vLLM returned log-probabilities without entropies: start the engine with **engine_kwargs(), on a "
                "vLLM whose "
                "sampler the hook covers (check_hook tells)."
            )
        found.append(others[0])
    return found
