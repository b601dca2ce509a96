"""Reads exact per-token entropies out of vLLM, for anyone who uses vLLM; `engine/hook.py` computes them there.

    llm = vllm.LLM(model=..., **engine_kwargs())
    check_hook(llm.collective_rpc("entropy_hook_report"))
    output, = llm.generate(prompt, vllm.SamplingParams(temperature=0.8, **sampling_kwargs()))
    entropies(output.outputs[0])        # one number per sampled token, nats

The entropy is that of the distribution each token was sampled from: after temperature, penalties, min-p, top-k and
top-p. A greedy request (temperature 0) samples from no distribution; it gets the entropy at temperature 1.

The entropy takes the place of one log-probability: in such an engine the entry beside a sampled token holds its
entropy, not the most likely token. So do not use beam search there, which adds log-probabilities up.

Over HTTP, and in any engine whose settings are not yours, a variable of the environment switches the hook on:

    OPENRLHF_GTPO_ENTROPY=1 python -m vllm.entrypoints.openai.api_server --logprobs-mode processed_logprobs --model ...

    check_server("http://localhost:8000")
    answer = httpx.post("http://localhost:8000/v1/completions", json={..., **HTTP_FIELDS}).json()
    read_http(answer)[0].entropies      # of the first choice
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from openrlhf_gtpo.engine.over_http import HTTP_FIELDS, Served, check_server, read_http
from openrlhf_gtpo.engine.versions import INSTALL_TESTED
from openrlhf_gtpo.errors import EntropyMissing

if TYPE_CHECKING:  # a process that reads answers over HTTP needs no NumPy
    import numpy as np

__all__ = [
    "HTTP_FIELDS",
    "EntropyMissing",
    "Served",
    "check_hook",
    "check_server",
    "engine_kwargs",
    "entropies",
    "entropies_and_logprobs",
    "logprobs",
    "read_http",
    "sampling_kwargs",
]


def engine_kwargs() -> dict[str, Any]:
    """Arguments of an engine that returns entropies: ``vllm.LLM``, ``vllm.EngineArgs`` or ``vllm.AsyncEngineArgs``."""
    return {
        "worker_extension_cls": "openrlhf_gtpo.vllm_worker.EntropyWorkerExtension",
        "logprobs_mode": "processed_logprobs",
        "max_logprobs": 1,
    }


def sampling_kwargs() -> dict[str, Any]:
    """Arguments of a request that returns entropies: ``vllm.SamplingParams``.

    Flat log-probabilities are lists of numbers instead of two objects per token, which is much less work for vLLM.
    """
    return {"logprobs": 1, "flat_logprobs": True}


def check_hook(reports: Iterable[Mapping[str, Any]]) -> None:
    """Make sure that every worker of an engine has the hook.

    Args:
        reports: one mapping per worker, as ``collective_rpc("entropy_hook_report")`` returned them.

    Raises:
        EntropyMissing: a worker uses a sampler that the hook does not cover.
    """
    for report in reports:
        if not report["hooked"]:
            raise EntropyMissing(
                f"vLLM {report['vllm']} samples with {report['sampler']}, which the entropy hook does not cover, so "
                f"GTPO and GRPO-S cannot be computed: {INSTALL_TESTED}; or set VLLM_USE_V2_MODEL_RUNNER=0."
            )


def entropies(completion: Any) -> list[float]:
    """The entropy of each sampled token of one completion.

    Args:
        completion: a ``vllm.outputs.CompletionOutput`` of a request with `sampling_kwargs` to an engine with
            `engine_kwargs`.

    Returns:
        One float per entry of ``completion.token_ids``, in nats, >= 0.

    Raises:
        EntropyMissing: the request did not ask for entropies, the worker that answered has no hook, or a token was
            sampled from logits that are NaN or infinite.
    """
    return entropies_and_logprobs(completion)[0].tolist()


def entropies_and_logprobs(completion: Any) -> "tuple[np.ndarray, np.ndarray]":
    """`entropies` and `logprobs` as arrays, (T,) each, for whoever reads millions of tokens.

    Args:
        completion: as for `entropies`.

    Raises:
        EntropyMissing: as for `entropies`.
    """
    import numpy as np

    if completion.logprobs is None:
        raise EntropyMissing(
            "The request did not ask vLLM for entropies: add **sampling_kwargs() to its SamplingParams."
        )
    values = _rows(completion)
    if values is not None and (broken := np.isnan(values[:, 1])).any():
        raise EntropyMissing(
            f"Token {broken.argmax() + 1} of {len(broken)} has no entropy: vLLM sampled it from logits that are NaN "
            "or infinite, so the model's weights are broken. Look at the checkpoint, or at the learning rate and the "
            "gradient norms of the run that made it."
        )
    if values is None or (values[:, 1] < 0.0).any():
        raise EntropyMissing(
            "vLLM returned log-probabilities without entropies: start the engine with **engine_kwargs(), on a vLLM "
            "whose sampler the hook covers (check_hook says whether it does)."
        )
    return values[:, 1], values[:, 0]


def logprobs(completion: Any) -> list[float]:
    """The log-probability of each sampled token of one completion, in the distribution that it was sampled from.

    Args:
        completion: as for `entropies`.

    Returns:
        One float per entry of ``completion.token_ids``, in nats, <= 0.

    Raises:
        EntropyMissing: as for `entropies`.
    """
    return entropies_and_logprobs(completion)[1].tolist()


def _rows(completion: Any) -> "np.ndarray | None":
    """(T, 2): each token's log-probability and what stands beside it; None unless each has these two entries."""
    import numpy as np

    tokens, given = np.asarray(completion.token_ids, dtype=np.int64), completion.logprobs
    if getattr(given, "arrays", None) is not None:  # a response that came in one message (`engine.one_message`)
        ids, values = given.arrays[:2]
    elif hasattr(given, "start_indices"):  # flat: the sampled token's entry is the first of each position's
        ids, values = np.asarray(given.token_ids, dtype=np.int64), np.asarray(given.logprobs, dtype=np.float64)
    else:
        rows = [{token: entries[token], **entries} for token, entries in zip(tokens.tolist(), given, strict=True)]
        if any(len(row) != 2 for row in rows):
            return None
        ids = np.asarray([other for row in rows for other in row], dtype=np.int64)
        values = np.asarray([entry.logprob for row in rows for entry in row.values()], dtype=np.float64)
    if ids.size != 2 * len(tokens):
        return None
    ids, values = ids.reshape(-1, 2), values.reshape(-1, 2)
    return values if (ids[:, 0] == tokens).all() and (ids[:, 1] != ids[:, 0]).all() else None
