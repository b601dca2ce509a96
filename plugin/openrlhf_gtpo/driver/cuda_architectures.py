"""Checks TORCH_CUDA_ARCH_LIST, which DeepSpeed reads when it compiles its optimizer for the GPU.

torch takes ``9.0a`` there, and some images set it. DeepSpeed 0.19 does not: without this check a run ends with a
traceback out of DeepSpeed minutes after its start (seen on an H100)."""

import os
import re

__all__ = ["architecture_faults", "is_compiled"]

VARIABLE = "TORCH_CUDA_ARCH_LIST"
_READABLE = re.compile(r"\d+\.\d+(\+PTX)?")


def architecture_faults() -> list[str]:
    """One sentence if the variable has an entry that DeepSpeed cannot read.

    It does not matter where DeepSpeed was installed with its optimizer compiled (``DS_BUILD_FUSED_ADAM=1``).
    """
    unreadable = [entry for entry in re.split(r"[;\s]+", os.environ.get(VARIABLE, "")) if entry]
    unreadable = [entry for entry in unreadable if not _READABLE.fullmatch(entry)]
    if not unreadable or is_compiled():
        return []
    numbers = re.match(r"\d+\.\d+", unreadable[0])
    instead = f"write {numbers[0]} instead" if numbers else "write numbers such as 9.0"
    return [
        f"The environment variable {VARIABLE} has {', '.join(unreadable)}, which DeepSpeed cannot read when it "
        f"compiles its optimizer: {instead}, or unset it."
    ]


def is_compiled() -> bool:
    """Whether DeepSpeed was installed with its optimizer for GPUs compiled."""
    try:
        from deepspeed.git_version_info_installed import installed_ops
    except ImportError:
        return False
    return bool(installed_ops.get("fused_adam"))
