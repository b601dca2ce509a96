"""Reads exact per-token entropies out of vLLM, for anyone who uses vLLM; `engine/hook.py` computes them there.

    llm = vllm.LLM(model=..., **engine_kwargs())
    check_hook(llm.collective_rpc("entropy_hook_report"))
    output, = llm.generate(prompt, vllm.SamplingParams(temperature=0.8, **sampling_kwargs()))
    entropies(output.outputs[0])        # one number per sampled token, nats

The entropy is that of the distribution each token was sampled from: after temperature, penalties, min-p, top-k and
top-p. A greedy request (temperature 0) samples from no distribution; it gets the entropy at temperature 1.

The entropy takes the place of one log-probability: in such an engine the entry beside a sampled token holds its
entropy, not the most likely token.

Over HTTP, and in any engine whose settings are not yours, a variable of the environment switches the hook on:

    OPENRLHF_GTPO_ENTROPY=1 python -m vllm.entrypoints.openai.api_server --logprobs-mode processed_logprobs --model ...

    check_server("http://localhost:8000")
    answer = httpx.post("http://localhost:8000/v1/completions", json={..., **http_fields()}).json()
    read_http(answer)[0].entropies      # of the first choice

The same pass over the logits gives other statistics of the distribution: `STATISTICS` lists them. Give the same names,
in the same order, to `engine_kwargs`, `sampling_kwargs` and `statistics`."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from openrlhf_gtpo.algorithms.distribution import CONFIG_KEY, ENTROPY, STATISTICS, declared
from openrlhf_gtpo.engine.over_http import Served, check_server, http_fields, read_http
from openrlhf_gtpo.engine.versions import INSTALL_TESTED
from openrlhf_gtpo.errors import EntropyMissing

if TYPE_CHECKING:  # a process that reads answers over HTTP needs no NumPy
    import numpy as np

__all__ = [
    "STATISTICS",
    "EntropyMissing",
    "Served",
    "check_hook",
    "check_server",
    "engine_kwargs",
    "entropies",
    "entropies_and_logprobs",
    "http_fields",
    "logprobs",
    "read_http",
    "sampling_kwargs",
    "statistics",
]


def engine_kwargs(statistics: Iterable[str] = ENTROPY) -> dict[str, Any]:
    """Arguments of an engine that returns entropies: ``vllm.LLM``, ``vllm.EngineArgs`` or ``vllm.AsyncEngineArgs``.

    Args:
        statistics: names of `STATISTICS`, each of which gets a column.

    Raises:
        ValueError: a name is not in `STATISTICS`, or given twice.
    """
    names = declared(statistics)
    return {
        "worker_extension_cls": "openrlhf_gtpo.vllm_worker.EntropyWorkerExtension",
        "logprobs_mode": "processed_logprobs",
        "max_logprobs": len(names),
        **({} if names == ENTROPY else {"additional_config": {CONFIG_KEY: list(names)}}),
    }


def sampling_kwargs(statistics: Iterable[str] = ENTROPY) -> dict[str, Any]:
    """Arguments of a request that returns entropies: ``vllm.SamplingParams``.

    Flat log-probabilities are lists of numbers instead of two objects per token, which is much less work for vLLM.

    Args:
        statistics: those of `engine_kwargs`.

    Raises:
        ValueError: as for `engine_kwargs`.
    """
    return {"logprobs": len(declared(statistics)), "flat_logprobs": True}


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
                f"GTPO and GRPO-S cannot be computed: {INSTALL_TESTED}, or set VLLM_USE_V2_MODEL_RUNNER=0."
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
    return statistics(completion, ENTROPY)["entropy"]


def statistics(completion: Any, names: Iterable[str]) -> dict[str, list[float]]:
    """Each statistic of each sampled token of one completion.

    Args:
        completion: as for `entropies`.
        names: those of `engine_kwargs` and `sampling_kwargs`, in the same order.

    Returns:
        Name -> one float per entry of ``completion.token_ids``, >= 0, in the unit that `STATISTICS` gives.

    Raises:
        EntropyMissing: as for `entropies`, or the request asked for another number of statistics.
        ValueError: as for `engine_kwargs`.
    """
    asked = declared(names)
    return dict(zip(asked, _values(completion, asked)[:, 1:].T.tolist(), strict=True))


def entropies_and_logprobs(completion: Any) -> "tuple[np.ndarray, np.ndarray]":
    """`entropies` and `logprobs` as arrays, (T,) each, for whoever reads millions of tokens.

    Args:
        completion: as for `entropies`.

    Raises:
        EntropyMissing: as for `entropies`.
    """
    values = _values(completion, ENTROPY)
    return values[:, 1], values[:, 0]


def _values(completion: Any, asked: tuple[str, ...]) -> "np.ndarray":
    """(T, 1 + k): each sampled token's log-probability, then the k statistics."""
    import numpy as np

    if completion.logprobs is None:
        raise EntropyMissing(
            "The request did not ask vLLM for entropies: add **sampling_kwargs() to its SamplingParams."
        )
    values = _rows(completion, 1 + len(asked))
    if values is not None and (broken := np.isnan(values[:, 1:]).any(axis=1)).any():
        raise EntropyMissing(
            f"Token {broken.argmax() + 1} of {len(broken)} has no entropy: vLLM sampled it from logits that are NaN "
            "or infinite, so the model's weights are broken. Look at the checkpoint, or at the learning rate and the "
            "gradient norms of the run that made it."
        )
    if values is None or not (values[:, 1:] >= 0.0).all():
        missing, given = ("entropies", "") if asked == ENTROPY else (", ".join(asked), str(list(asked)))
        raise EntropyMissing(
            f"vLLM returned log-probabilities without {missing}: start the engine with **engine_kwargs({given}), on a "
            "vLLM whose sampler the hook covers (check_hook says whether it does)."
        )
    return values


def logprobs(completion: Any) -> list[float]:
    """The log-probability of each sampled token of one completion, in the distribution that it was sampled from.

    Args:
        completion: as for `entropies`.

    Returns:
        One float per entry of ``completion.token_ids``, in nats, <= 0.
    """
    given = completion.logprobs
    if _came_at_once(given):
        return given.arrays[1][:, 0].tolist()
    if _is_flat(given):
        return [given.logprobs[start] for start in given.start_indices]
    return [entries[token].logprob for token, entries in zip(completion.token_ids, given, strict=True)]


def _came_at_once(logprobs: Any) -> bool:
    """Whether they are the arrays of a response that came in one message (`engine.one_message`)."""
    return getattr(logprobs, "arrays", None) is not None


def _is_flat(logprobs: Any) -> bool:
    return hasattr(logprobs, "start_indices")


def _rows(completion: Any, width: int) -> "np.ndarray | None":
    """(T, width) log-probabilities, each token's own first; None unless each has as many entries, of other tokens."""
    import numpy as np

    tokens, given = np.asarray(completion.token_ids, dtype=np.int64), completion.logprobs
    if _came_at_once(given):
        ids, values = given.arrays[:2]
    elif _is_flat(given):  # the sampled token's entry is the first of each position's
        ids, values = np.asarray(given.token_ids, dtype=np.int64), np.asarray(given.logprobs, dtype=np.float64)
    else:
        rows = [{token: entries[token], **entries} for token, entries in zip(tokens.tolist(), given, strict=True)]
        if any(len(row) != width for row in rows):
            return None
        ids = np.asarray([other for row in rows for other in row], dtype=np.int64)
        values = np.asarray([entry.logprob for row in rows for entry in row.values()], dtype=np.float64)
    if ids.size != len(tokens) * width:
        return None
    ids, values = ids.reshape(-1, width), values.reshape(-1, width)
    return values if (ids[:, 0] == tokens).all() and (ids[:, 1:] != ids[:, :1]).all() else None
