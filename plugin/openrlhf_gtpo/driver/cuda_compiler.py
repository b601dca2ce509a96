"""Checks for the compiler with which DeepSpeed builds its optimizer, FusedAdam or CPUAdam, when training starts.

A wheel of flash-attn saves compiling that, and not this: without nvcc a run ends after minutes, when the model is
loaded."""

import os
import re
import subprocess
from pathlib import Path

from openrlhf_gtpo.driver.cuda_architectures import is_compiled

__all__ = ["compiler_faults"]

SKIP_VARIABLE = "DS_SKIP_CUDA_CHECK"
"""Set to 1, DeepSpeed takes any nvcc."""
_ALIKE = (11, 12)
"""Versions of CUDA of which DeepSpeed 0.19 takes any release for any other."""


def compiler_faults() -> list[str]:
    """One sentence if there is no nvcc that DeepSpeed takes; none where its optimizer was compiled at installation."""
    import torch
    from torch.utils import cpp_extension

    wanted = torch.version.cuda
    if wanted is None or is_compiled():
        return []
    fix = (
        f"install the toolkit of CUDA {wanted} (plugin/Dockerfile has it) and set CUDA_HOME to it, or install "
        "DeepSpeed where it is, with DS_BUILD_FUSED_ADAM=1 and DS_BUILD_CPU_ADAM=1"
    )
    home = cpp_extension.CUDA_HOME
    if home is None:
        return [f"DeepSpeed compiles its optimizer, and there is no nvcc: {fix}."]
    nvcc = Path(home) / "bin" / "nvcc"
    try:
        said = subprocess.run([nvcc, "--version"], capture_output=True, text=True, timeout=30, check=True).stdout
        match = re.search(r"release (\d+)\.(\d+)", said)
        assert match is not None
    except (OSError, subprocess.SubprocessError, AssertionError):
        return [f"DeepSpeed compiles its optimizer, but {nvcc} cannot be run: {fix}."]
    release, of_torch = (int(match[1]), int(match[2])), tuple(map(int, wanted.split(".")[:2]))
    if release == of_torch or (release[0] == of_torch[0] in _ALIKE) or os.environ.get(SKIP_VARIABLE) == "1":
        return []
    if release[0] == of_torch[0]:
        fix = f"set {SKIP_VARIABLE}=1, since releases of CUDA {release[0]} go together, or {fix}"
    return [
        f"DeepSpeed compiles its optimizer, but {nvcc} is of CUDA {release[0]}.{release[1]} and torch of {wanted}: "
        f"{fix}."
    ]
