"""The precision of the loop on a CPU: bfloat16 where the CPU multiplies matrices in it, else float32.

Without such instructions torch multiplies bfloat16 element by element, ten times as slowly as float32.

torch is imported inside the functions, since the driver imports this module before it sets the environment that torch
reads."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


_VLLM_NAMES = {"bf16": "bfloat16", "fp32": "float32"}


def has_native_bf16() -> bool:
    """Whether this CPU has instructions for matrix products in bfloat16, and oneDNN, torch's library, may use them.

    These are AVX512_BF16 or AMX on x86-64, and the BF16 extension on aarch64. ``ONEDNN_MAX_CPU_ISA=AVX2`` switches
    them off.
    """
    import torch

    try:
        allowed = torch.ops.mkldnn._is_mkldnn_bf16_supported()
        # With AVX-512 alone oneDNN accepts bfloat16, but converts it and computes in float32.
        native = platform.machine() != "x86_64" or (
            torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
        )
    except (AttributeError, RuntimeError):  # a torch without oneDNN, or with other names
        return False
    return bool(allowed and native)


def param_dtype(wanted: str) -> str:
    """``bf16`` or ``fp32``: the given one, or for ``auto`` the faster on this CPU."""
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
