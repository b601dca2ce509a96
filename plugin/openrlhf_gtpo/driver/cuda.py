"""Whether DeepSpeed can compile its optimizer for GPUs, FusedAdam or CPUAdam, as it does when training starts.

A wheel of flash-attn saves compiling that, and not this. Without these checks a run ends minutes after its start, when
the model is loaded."""

import os
import re
import subprocess
from pathlib import Path

ARCHITECTURES = "TORCH_CUDA_ARCH_LIST"
SKIP_VARIABLE = "DS_SKIP_CUDA_CHECK"
"""Set to 1, DeepSpeed takes any nvcc."""
_ALIKE = (11, 12)
"""Versions of CUDA of which DeepSpeed 0.19 takes any release for any other."""


def architecture_fault() -> str | None:
    """One sentence if TORCH_CUDA_ARCH_LIST has an entry that DeepSpeed cannot read, else None.

    torch takes ``9.0a`` there, and some images set it. DeepSpeed 0.19 does not (seen on an H100).
    """
    entries = [entry for entry in re.split(r"[;\s]+", os.environ.get(ARCHITECTURES, "")) if entry]
    unreadable = [entry for entry in entries if not re.fullmatch(r"\d+\.\d+(\+PTX)?", entry)]
    if not unreadable or _is_compiled():
        return None
    numbers = re.match(r"\d+\.\d+", unreadable[0])
    instead = f"write {numbers[0]} instead" if numbers else "write numbers such as 9.0"
    return (
        f"The environment variable {ARCHITECTURES} has {', '.join(unreadable)}, which DeepSpeed cannot read when it "
        f"compiles its optimizer: {instead}, or unset it."
    )


def compiler_fault() -> str | None:
    """One sentence if there is no nvcc that DeepSpeed takes, else None."""
    import torch
    from torch.utils import cpp_extension

    wanted = torch.version.cuda
    if wanted is None or _is_compiled():
        return None
    fix = (
        f"install the toolkit of CUDA {wanted} (plugin/Dockerfile has it) and set CUDA_HOME to it, or install "
        "DeepSpeed where it is, with DS_BUILD_FUSED_ADAM=1 and DS_BUILD_CPU_ADAM=1"
    )
    home = cpp_extension.CUDA_HOME
    if home is None:
        return f"DeepSpeed compiles its optimizer, and there is no nvcc: {fix}."
    nvcc = Path(home) / "bin" / "nvcc"
    try:
        said = subprocess.run([nvcc, "--version"], capture_output=True, text=True, timeout=30, check=True).stdout
        match = re.search(r"release (\d+)\.(\d+)", said)
        assert match is not None
    except (OSError, subprocess.SubprocessError, AssertionError):
        return f"DeepSpeed compiles its optimizer, but {nvcc} cannot be run: {fix}."
    release, of_torch = (int(match[1]), int(match[2])), tuple(map(int, wanted.split(".")[:2]))
    if release == of_torch or (release[0] == of_torch[0] in _ALIKE) or os.environ.get(SKIP_VARIABLE) == "1":
        return None
    if release[0] == of_torch[0]:
        fix = f"set {SKIP_VARIABLE}=1, since releases of CUDA {release[0]} go together, or {fix}"
    return (
        f"DeepSpeed compiles its optimizer, but {nvcc} is of CUDA {release[0]}.{release[1]} and torch of {wanted}: "
        f"{fix}."
    )


def _is_compiled() -> bool:
    """Whether DeepSpeed was installed with its optimizer compiled (``DS_BUILD_FUSED_ADAM=1``)."""
    try:
        from deepspeed.git_version_info_installed import installed_ops
    except ImportError:
        return False
    return bool(installed_ops.get("fused_adam"))
