"""The precision of the loop on a CPU: bfloat16 where the CPU multiplies matrices in it, else float32.

Without such instructions torch multiplies bfloat16 element by element, ten times as slowly as float32.

torch is imported where it is needed and no earlier: the driver imports this module before it has set the environment
that torch reads."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

__all__ = ["has_native_bf16", "param_dtype", "to_torch_dtype", "vllm_dtype"]

_VLLM_NAMES = {"bf16": "bfloat16", "fp32": "float32"}


def has_native_bf16() -> bool:
    """Whether this CPU has matrix products in bfloat16, and oneDNN, which computes them for torch, may use them.

    On x86-64 that takes AVX512_BF16 or AMX, on aarch64 the BF16 extension. ``ONEDNN_MAX_CPU_ISA=AVX2`` forbids them to
    oneDNN, as on a CPU that has none.
    """
    import torch

    try:
        allowed = torch.ops.mkldnn._is_mkldnn_bf16_supported()
        # With AVX-512 alone oneDNN takes bfloat16 too, but computes it in float32 after a conversion.
        native = platform.machine() != "x86_64" or (
            torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
        )
    except (AttributeError, RuntimeError):  # a torch without oneDNN, or one that answers by other names
        return False
    return bool(allowed and native)


def param_dtype(wanted: str) -> str:
    """``bf16`` or ``fp32``: what was asked for, or for ``auto`` what suits this CPU."""
    if wanted != "auto":
        return wanted
    return "bf16" if has_native_bf16() else "fp32"


def vllm_dtype(name: str) -> str:
    """The name of ``bf16`` or ``fp32`` in vLLM."""
    return _VLLM_NAMES[name]


def to_torch_dtype(name: str) -> torch.dtype:
    """OpenRLHF's ``convert_to_torch_dtype`` for the precisions of a CPU run.

    Raises:
        ValueError: it is neither ``bf16`` nor ``fp32``.
    """
    if name not in _VLLM_NAMES:
        raise ValueError(f"Invalid param_dtype: {name}")
    import torch

    return getattr(torch, _VLLM_NAMES[name])
