"""Shannon entropy of rows of logits, exact and without a second tensor of their size.

With x = z - max z, s = sum e^x and t = sum x e^x, the entropy of softmax(z) is H = log s - t / s. Both terms are >= 0
(s >= 1 and t <= 0), so nothing cancels, H is never negative, and a masked token (z = -inf) contributes 0. The textbook
form, logsumexp(z) - sum p z, loses half of float32's digits and turns masked tokens into NaN.

On a GPU one Triton kernel reads every logit once; elsewhere a few rows at a time go through scratch memory that
fits in a cache. Sums are taken in float64: over 150,000 tokens float32 would not keep the result within 1e-6.
"""

import functools
import importlib.util
from collections.abc import Callable
from typing import Any

import torch

__all__ = ["token_entropy"]

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
    if logits.dim() != 2 or not logits.is_floating_point():
        raise ValueError(
            f"logits must be a floating-point tensor of shape (rows, vocabulary), not {logits.dtype} of shape "
            f"{tuple(logits.shape)}."
        )
    if logits.is_cuda and logits.stride(1) == 1 and _triton_installed():
        return _triton_kernel()(logits)
    return _eager(logits)


@functools.cache
def _triton_installed() -> bool:
    return importlib.util.find_spec("triton") is not None


def _eager(logits: torch.Tensor) -> torch.Tensor:
    rows, vocabulary = logits.shape
    entropy = torch.empty(rows, dtype=torch.float32, device=logits.device)
    step = max(1, _SCRATCH_ELEMENTS // max(1, vocabulary))
    for start in range(0, rows, step):
        chunk = logits[start : start + step]
        largest = chunk.amax(dim=-1, keepdim=True).to(torch.float32)
        # A copy that may be overwritten: `to` alone would return the caller's own float32 logits.
        x = chunk.to(torch.float32, copy=True).sub_(largest).clamp_(min=_FLOOR)
        weight = x.exp()
        s = weight.sum(dim=-1, dtype=torch.float64)
        t = weight.mul_(x).sum(dim=-1, dtype=torch.float64)
        entropy[start : start + step] = s.log() - t / s
    return entropy


@functools.cache
def _triton_function() -> Any:
    """The kernel, one program a row. Triton is imported here, so only where a GPU or a test needs it."""
    import triton
    import triton.language as tl

    @triton.jit
    def kernel(logits_ptr, row_stride, entropy_ptr, vocabulary, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        row = tl.program_id(0).to(tl.int64)
        row_ptr = logits_ptr + row * row_stride
        largest = tl.full((), float("-inf"), tl.float32)
        s = tl.full((), 0.0, tl.float64)
        t = tl.full((), 0.0, tl.float64)
        for start in range(0, vocabulary, BLOCK):
            column = start + tl.arange(0, BLOCK)
            z = tl.load(row_ptr + column, mask=column < vocabulary, other=float("-inf")).to(tl.float32)
            largest_yet = tl.maximum(largest, tl.max(z, axis=0))
            # While all logits are -inf, any finite number can be the maximum.
            reference = tl.where(largest_yet == float("-inf"), 0.0, largest_yet)
            possible = z != float("-inf")  # True for a NaN, which so reaches the result
            x = tl.where(possible, z - reference, 0.0)
            weight = tl.where(possible, tl.exp(x), 0.0)
            # Move the sums so far to the new maximum: sum e^(x+d) = e^d s and sum (x+d) e^(x+d) = e^d (t + d s).
            shift = tl.where(largest == float("-inf"), 0.0, largest - reference).to(tl.float64)
            scale = tl.exp(shift)
            t = scale * (t + shift * s) + tl.sum(weight * x, axis=0).to(tl.float64)
            s = scale * s + tl.sum(weight, axis=0).to(tl.float64)
            largest = largest_yet
        tl.store(entropy_ptr + row, (tl.log(s) - t / s).to(tl.float32))

    return kernel


@functools.cache
def _triton_kernel() -> Callable[[torch.Tensor], torch.Tensor]:
    """A function that starts the kernel, which Triton compiles at its first call."""
    kernel = _triton_function()

    def launch(logits: torch.Tensor) -> torch.Tensor:
        rows, vocabulary = logits.shape
        entropy = torch.empty(rows, dtype=torch.float32, device=logits.device)
        if rows:
            kernel[(rows,)](logits, logits.stride(0), entropy, vocabulary, BLOCK=BLOCK, num_warps=WARPS)
        return entropy

    return launch
