"""Reads exact per-token entropies out of vLLM, for anyone who uses vLLM; `engine/hook.py` computes them there.

    llm = vllm.LLM(model=..., **engine_kwargs())
    check_hook(llm.collective_rpc("entropy_hook_report"))
    output, = llm.generate(prompt, vllm.SamplingParams(temperature=0.8, **sampling_kwargs()))
    entropies(output.outputs[0])        # one number per sampled token, nats

The entropy is that of the distribution each token was sampled from: after temperature, penalties, min-p, top-k and
top-p. A greedy request (temperature 0) samples from no distribution; it gets the entropy at temperature 1.

The entropy takes the place of one log-probability: in such an engine the entry beside a sampled token holds its
entropy, not the most likely token. ``vllm serve`` takes the same settings: ``--worker-extension-cls
openrlhf_gtpo.vllm_worker.EntropyWorkerExtension --logprobs-mode processed_logprobs --max-logprobs 1``.

Other statistics of the same distribution cost nothing more: `STATISTICS` lists them. Give the same names, in the same
order, to `engine_kwargs`, `sampling_kwargs` and `statistics`."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from openrlhf_gtpo.algorithms.distribution import CONFIG_KEY, ENTROPY, STATISTICS, declared
from openrlhf_gtpo.engine.versions import INSTALL_TESTED
from openrlhf_gtpo.errors import UserError

__all__ = [
    "STATISTICS",
    "EntropyMissing",
    "check_hook",
    "engine_kwargs",
    "entropies",
    "logprobs",
    "sampling_kwargs",
    "statistics",
]


class EntropyMissing(UserError):
    """An engine returned no entropies, or cannot. One sentence says why and what to do."""


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
    if completion.logprobs is None:
        raise EntropyMissing(
            "The request did not ask vLLM for entropies: add **sampling_kwargs() to its SamplingParams."
        )
    asked = declared(names)
    found = _beside(completion, len(asked))
    for values in found or ():
        if any(map(math.isnan, values)):
            place = next(i for i, value in enumerate(values) if math.isnan(value))
            raise EntropyMissing(
                f"Token {place + 1} of {len(values)} has no entropy: vLLM sampled it from logits that are NaN or "
                "infinite, so the model's weights are broken. Look at the checkpoint, or at the learning rate and the "
                "gradient norms of the run that made it."
            )
    if found is None or not all(value >= 0.0 for values in found for value in values):
        missing, given = ("entropies", "") if asked == ENTROPY else (", ".join(asked), str(list(asked)))
        raise EntropyMissing(
            f"vLLM returned log-probabilities without {missing}: start the engine with **engine_kwargs({given}), on a "
            "vLLM whose sampler the hook covers (check_hook says whether it does)."
        )
    return dict(zip(asked, found, strict=True))


def logprobs(completion: Any) -> list[float]:
    """The log-probability of each sampled token of one completion, in the distribution that it was sampled from.

    Args:
        completion: as for `entropies`.

    Returns:
        One float per entry of ``completion.token_ids``, in nats, <= 0.
    """
    rows = _rows(completion.logprobs)
    if rows is not None:
        return rows[1][:, 0].tolist()
    if _is_flat(completion.logprobs):
        return [completion.logprobs.logprobs[start] for start in completion.logprobs.start_indices]
    return [entries[token].logprob for token, entries in zip(completion.token_ids, completion.logprobs, strict=True)]


def _rows(logprobs: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Token ids and values, (T, 1 + k) each, of log-probabilities that came in one message (`engine.one_message`)."""
    arrays = getattr(logprobs, "arrays", None)
    return None if arrays is None else arrays[:2]


def _is_flat(logprobs: Any) -> bool:
    return hasattr(logprobs, "start_indices")


def _beside(completion: Any, k: int) -> list[list[float]] | None:
    """The k columns beside the sampled tokens' log-probabilities; None unless each token has k entries beside its."""
    tokens, given = list(completion.token_ids), completion.logprobs
    rows = _rows(given)
    if rows is not None:
        ids, values = rows
        # The sampled token's entry is the first of each row's.
        fits = ids.shape == (len(tokens), 1 + k) and np.array_equal(ids[:, 0], tokens)
        return values[:, 1:].T.tolist() if fits and (ids[:, 1:] != ids[:, :1]).all() else None
    if _is_flat(given):
        # The sampled token's entry is the first of each position's.
        ids, values, width = given.token_ids, given.logprobs, 1 + k
        if len(values) != width * len(tokens) or ids[::width] != tokens:
            return None
        if any(a == b for column in range(1, width) for a, b in zip(tokens, ids[column::width], strict=True)):
            return None
        return [values[column::width] for column in range(1, width)]
    others = [
        [entry.logprob for other, entry in entries.items() if other != token]
        for token, entries in zip(tokens, given, strict=True)
    ]
    return [[row[column] for row in others] for column in range(k)] if all(len(row) == k for row in others) else None
