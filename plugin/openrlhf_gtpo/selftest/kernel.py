"""Checks the entropy kernel: its error against float64, and its speed compared with a copy of the logits."""

import statistics
import time
from collections.abc import Callable
from functools import partial

import torch

from openrlhf_gtpo.algorithms.entropy import token_entropy
from openrlhf_gtpo.selftest.result import Result, failed, passed

VOCABULARY = 152_064  # Qwen2.5's
ROWS = {"cpu": (1, 8), "gpu": (1, 8, 64, 256, 1024)}
TOLERANCE = 2e-6
"""Nats: two units in the last place of a float32 of log(152,064)."""
REPEATS = 9


def check_kernel(device: str) -> Result:
    """Check the entropies of random logits in float32 and bfloat16.

    Args:
        device: ``cpu`` or ``gpu``.

    Returns:
        Figures: ``max_error_nats``, and for each number of rows ``copy_share_N``: the time to copy bfloat16 logits
        divided by the time to compute their entropies.
    """
    place = "cuda" if device == "gpu" else "cpu"
    generator = torch.Generator(place).manual_seed(0)
    worst = 0.0
    shares = {}
    for rows in ROWS[device]:
        logits = 4 * torch.randn(rows, VOCABULARY, device=place, generator=generator)
        logits[:, ::7] = float("-inf")  # tokens that cannot be sampled
        for values in (logits, logits.bfloat16()):
            worst = max(worst, _error(values))
        values = logits.bfloat16()
        copied, computed = (_seconds(partial(work, values), place) for work in (torch.clone, token_entropy))
        shares[f"copy_share_{rows}"] = copied / computed
    said = f"The largest error against float64 is {worst:.1e} nats over {VOCABULARY:,} tokens"
    if not worst <= TOLERANCE:
        return failed(f"{said}, more than {TOLERANCE:g}: do not train with it.", max_error_nats=worst, **shares)
    return passed(f"{said}.", max_error_nats=worst, **shares)


def _error(logits: torch.Tensor) -> float:
    """The largest error in nats, over a few rows, since float64 is slow."""
    few = logits[:8]
    logp = few.double().log_softmax(dim=-1)
    expected = -(logp.exp() * logp).nan_to_num(0.0).sum(dim=-1)
    return float((token_entropy(few).double() - expected).abs().max())


def _seconds(work: Callable[[], torch.Tensor], place: str) -> float:
    """The median of several runs, after one of warm-up."""
    taken = []
    for _ in range(REPEATS + 1):
        if place == "cuda":
            torch.cuda.synchronize()
        begin = time.perf_counter()
        work()
        if place == "cuda":
            torch.cuda.synchronize()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken[1:])
