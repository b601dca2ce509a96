"""Extends OpenRLHF's evaluations during training (``--eval.*``) from pass1 and passN to every k."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from openrlhf_gtpo.algorithms.pass_at_k import bootstrap, pass_at_k

__all__ = ["with_every_k"]

Measure = Callable[[Any, Sequence[Any], int], dict[str, float]]


def with_every_k(measure: Measure) -> Measure:
    """Wrap OpenRLHF's ``compute_eval_metrics(eval_dataloader, samples, n)``.

    The result has OpenRLHF's logs and, for each data source D of the evaluation's prompts:

    * ``eval_D_pass{k}``: unbiased Pass@k for k = 1, 2, 4, ... and n, with the 95 % interval over prompts as
      ``eval_D_pass{k}_low`` and ``eval_D_pass{k}_high``
    * ``eval_D_entropy_token_mean`` and ``eval_D_entropy_response_mean``, nats

    Where scores are not binary, Pass@k is not defined and nothing is added.
    """

    @functools.wraps(measure)
    def measured(eval_dataloader: Any, samples: Sequence[Any], n_samples_per_prompt: int) -> dict[str, float]:
        logs = measure(eval_dataloader, samples, n_samples_per_prompt)
        return {**logs, **_more(eval_dataloader, samples, n_samples_per_prompt)}

    return measured


def _more(eval_dataloader: Any, samples: Sequence[Any], n: int) -> dict[str, float]:
    source = {
        prompt: name for names, prompts, *_ in eval_dataloader for name, prompt in zip(names, prompts, strict=True)
    }
    correct: dict[str, list[int]] = {}
    entropies: dict[str, list[list[float]]] = {}  # of each response's tokens
    for start in range(0, len(samples), n):  # OpenRLHF keeps the n responses to a prompt together
        group = samples[start : start + n]
        scores = [_score(sample) for sample in group]
        if not set(scores) <= {0.0, 1.0, -1.0}:
            return {}
        name = source.get(group[0].prompts[0], "unknown")
        correct.setdefault(name, []).append(sum(score == 1 for score in scores))
        for sample in group:
            if "entropy" in sample.info:
                mask = sample.action_mask.flatten().bool()
                entropies.setdefault(name, []).append(sample.info["entropy"].flatten()[mask].tolist())
    metrics: dict[str, float] = {}
    for name, counts in correct.items():
        for k in sorted({n, *(2**power for power in range(n.bit_length()))}):
            estimate = bootstrap([pass_at_k(n, count, k) for count in counts])
            metrics[f"eval_{name}_pass{k}"] = estimate.mean
            metrics[f"eval_{name}_pass{k}_low"] = estimate.low
            metrics[f"eval_{name}_pass{k}_high"] = estimate.high
        responses = [values for values in entropies.get(name, []) if values]
        if responses:
            metrics[f"eval_{name}_entropy_token_mean"] = sum(map(sum, responses)) / sum(map(len, responses))
            means = [sum(values) / len(values) for values in responses]
            metrics[f"eval_{name}_entropy_response_mean"] = sum(means) / len(means)
    return metrics


def _score(sample: Any) -> float:
    """Verified correctness if the reward service returns it, else the reward."""
    return float((sample.rewards if sample.scores is None else sample.scores).flatten()[0])
