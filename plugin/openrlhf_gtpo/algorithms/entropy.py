"""Entropy and other statistics of rows of logits, exact, in one pass and without a second tensor of their size.

With x = z - max z, s = sum e^x and t = sum x e^x, the entropy of softmax(z) is H = log s - t / s. Both terms are >= 0
(s >= 1 and t <= 0), so nothing cancels, H is never negative, and a masked token (z = -inf) contributes 0. The textbook
form, logsumexp(z) - sum p z, loses half of float32's digits and turns masked tokens into NaN. The log-probability of a
token with logit c is c - max z - log s, and sum p^2 is sum e^2x / s^2.

On a GPU one Triton kernel reads every logit once; elsewhere a few rows at a time go through scratch memory that
fits in a cache. Sums are taken in float64: over 150,000 tokens float32 would not keep the result within 1e-6.
"""

import functools
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import torch

from openrlhf_gtpo.algorithms.distribution import ENTROPY, STATISTICS

BLOCK, WARPS = 16384, 16
"""Logits per block of a Triton program, and its warps: 32 logits a thread. Blocks are large because each costs a dozen
float64 operations, which many GPUs do at a 64th of their float32 rate; warps are many because few rows would leave a
GPU idle otherwise. No register is spilled (tests/plugin/algorithms/test_entropy_compiled.py)."""

# Scratch of the eager path, in float32 elements (1 MiB): rows are taken as many at a time as fit.
_SCRATCH_ELEMENTS = 1 << 18
# Replaces -inf, whose product with 0 would be NaN: e^-1e4 is 0 in float32, and -1e4 * 0 is 0.
_FLOOR = -1.0e4


def token_entropy(logits: torch.Tensor) -> torch.Tensor:
    """Entropy of ``softmax(logits)`` for each row.

    Args:
        logits: (rows, V), any floating dtype and device. -inf marks a token that cannot be sampled.
            Log-probabilities are logits too.

    Returns:
        (rows,) float32, in nats, each in [0, log V]. A row with a NaN, with +inf, or with -inf only gives NaN.

    Raises:
        ValueError: ``logits`` is not a floating tensor with two axes.
    """
    return token_statistics(logits, ENTROPY).squeeze(1)


def token_statistics(
    logits: torch.Tensor, statistics: Sequence[str], sampled: torch.Tensor | None = None
) -> torch.Tensor:
    """Statistics of ``softmax(logits)`` for each row, and the log-probability of a sampled token.

    Args:
        logits: as for `token_entropy`.
        statistics: names of `openrlhf_gtpo.algorithms.distribution.STATISTICS`.
        sampled: (rows,) int32 or int64, a token of each row.

    Returns:
        (rows, 1 + k) float32: the log-probability of ``sampled`` in nats, then the k statistics in the order asked
        for; (rows, k) without ``sampled``. A row with a NaN, with +inf, or with -inf only gives NaN throughout.

    Raises:
        ValueError: ``logits`` is not a floating tensor with two axes.
    """
    if logits.dim() != 2 or not logits.is_floating_point():
        raise ValueError(
            f"logits must be a floating-point tensor of shape (rows, vocabulary), not {logits.dtype} of shape "
            f"{tuple(logits.shape)}."
        )
    columns = (*(() if sampled is None else ("logprob",)), *statistics)
    if logits.is_cuda and logits.stride(1) == 1 and _triton_installed():
        return _triton_kernel()(logits, sampled, columns)
    return _eager(logits, sampled, columns)


@functools.cache
def _triton_installed() -> bool:
    return importlib.util.find_spec("triton") is not None


def _eager(logits: torch.Tensor, sampled: torch.Tensor | None, columns: Sequence[str]) -> torch.Tensor:
    rows, vocabulary = logits.shape
    out = torch.empty(rows, len(columns), dtype=torch.float32, device=logits.device)
    step = max(1, _SCRATCH_ELEMENTS // max(1, vocabulary))
    for start in range(0, rows, step):
        chunk = logits[start : start + step]
        largest = chunk.amax(dim=-1, keepdim=True).to(torch.float32)
        # A copy that may be overwritten: `to` alone would return the caller's own float32 logits.
        x = chunk.to(torch.float32, copy=True).sub_(largest).clamp_(min=_FLOOR)
        weight = x.exp()
        s = weight.sum(dim=-1, dtype=torch.float64)
        log_s = s.log()
        values = {}
        if "collision_probability" in columns:
            values["collision_probability"] = weight.square().sum(dim=-1, dtype=torch.float64) / s.square()
        entropy = values["entropy"] = log_s - weight.mul_(x).sum(dim=-1, dtype=torch.float64) / s
        values["min_entropy"] = log_s
        if "support_size" in columns:
            values["support_size"] = (chunk != float("-inf")).sum(dim=-1)
        if sampled is not None:
            token = sampled[start : start + step, None].to(torch.int64)
            values["logprob"] = (chunk.gather(1, token).double() - largest.double()).squeeze(1) - log_s
        for column, name in enumerate(columns):
            # A broken row is one in every column.
            out[start : start + step, column] = torch.where(entropy.isnan(), entropy, values[name])
    return out


@functools.cache
def _triton_function() -> Any:
    """The kernel, one program a row. Triton is imported here, so only where a GPU or a test needs it.

    Its capital arguments are constants of a compilation: BLOCK, the number of COLUMNS of the result, and the column of
    each value, or -1, which leaves its arithmetic out.
    """
    import triton
    import triton.language as tl

    @triton.jit
    def kernel(  # type: ignore[no-untyped-def]
        logits_ptr,
        row_stride,
        sampled_ptr,
        found_ptr,
        vocabulary,
        BLOCK: tl.constexpr,
        COLUMNS: tl.constexpr,
        LOGPROB: tl.constexpr,
        ENTROPY: tl.constexpr,
        COLLISION_PROBABILITY: tl.constexpr,
        SUPPORT_SIZE: tl.constexpr,
        MIN_ENTROPY: tl.constexpr,
    ):
        row = tl.program_id(0).to(tl.int64)
        row_ptr = logits_ptr + row * row_stride
        found_ptr += row * COLUMNS
        largest = tl.full((), float("-inf"), tl.float32)
        s = tl.full((), 0.0, tl.float64)
        t = tl.full((), 0.0, tl.float64)
        squares = tl.full((), 0.0, tl.float64)
        support = tl.full((), 0, tl.int32)
        for start in range(0, vocabulary, BLOCK):
            column = start + tl.arange(0, BLOCK)
            z = tl.load(row_ptr + column, mask=column < vocabulary, other=float("-inf")).to(tl.float32)
            largest_yet = tl.maximum(largest, tl.max(z, axis=0))
            # While all logits are -inf, any finite number can be the maximum.
            reference = tl.where(largest_yet == float("-inf"), 0.0, largest_yet)
            possible = z != float("-inf")  # True for a NaN, which so reaches the result
            if SUPPORT_SIZE >= 0:
                support += tl.sum(possible.to(tl.int32), axis=0)
            x = tl.where(possible, z - reference, 0.0)
            weight = tl.where(possible, tl.exp(x), 0.0)
            # Move the sums so far to the new maximum: sum e^(x+d) = e^d s and sum (x+d) e^(x+d) = e^d (t + d s).
            shift = tl.where(largest == float("-inf"), 0.0, largest - reference).to(tl.float64)
            scale = tl.exp(shift)
            t = scale * (t + shift * s) + tl.sum(weight * x, axis=0).to(tl.float64)
            s = scale * s + tl.sum(weight, axis=0).to(tl.float64)
            if COLLISION_PROBABILITY >= 0:
                squares = scale * scale * squares + tl.sum(weight * weight, axis=0).to(tl.float64)
            largest = largest_yet
        log_s = tl.log(s)
        entropy = log_s - t / s
        # 0, or NaN, which makes a broken row one in every column.
        broken = entropy - entropy
        if LOGPROB >= 0:
            token = tl.load(sampled_ptr + row).to(tl.int64)
            inside = (token >= 0) & (token < vocabulary)
            logit = tl.load(row_ptr + token, mask=inside, other=float("nan")).to(tl.float64)
            tl.store(found_ptr + LOGPROB, (logit - largest.to(tl.float64) - log_s + broken).to(tl.float32))
        if ENTROPY >= 0:
            tl.store(found_ptr + ENTROPY, entropy.to(tl.float32))
        if COLLISION_PROBABILITY >= 0:
            tl.store(found_ptr + COLLISION_PROBABILITY, (squares / (s * s) + broken).to(tl.float32))
        if SUPPORT_SIZE >= 0:
            tl.store(found_ptr + SUPPORT_SIZE, (support.to(tl.float64) + broken).to(tl.float32))
        if MIN_ENTROPY >= 0:
            tl.store(found_ptr + MIN_ENTROPY, (log_s + broken).to(tl.float32))

    return kernel


def _constants(columns: Sequence[str]) -> dict[str, int]:
    """The constants of the kernel that give these columns."""
    places = {name.upper(): columns.index(name) if name in columns else -1 for name in ("logprob", *STATISTICS)}
    return {"BLOCK": BLOCK, "COLUMNS": len(columns), **places}


@functools.cache
def _triton_kernel() -> Callable[[torch.Tensor, torch.Tensor | None, Sequence[str]], torch.Tensor]:
    """A function that starts the kernel, which Triton compiles at its first call with these columns."""
    kernel = _triton_function()

    def launch(logits: torch.Tensor, sampled: torch.Tensor | None, columns: Sequence[str]) -> torch.Tensor:
        rows, vocabulary = logits.shape
        out = torch.empty(rows, len(columns), dtype=torch.float32, device=logits.device)
        sampled = None if sampled is None else sampled.contiguous()
        if rows:
            stride = logits.stride(0)
            kernel[(rows,)](logits, stride, sampled, out, vocabulary, num_warps=WARPS, **_constants(columns))
        return out

    return launch
