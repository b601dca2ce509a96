"""Environment variables with which OpenRLHF, vLLM, DeepSpeed and Ray run on a CPU."""

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path

STUBS = Path(__file__).parent / "stubs"
"""Folder with replacements for flash-attn, for the Python path of a CPU run."""

_SETTINGS = {
    "DS_ACCELERATOR": "cpu",
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # engines share the cores instead of pinning themselves to the same ones
    "VLLM_CPU_CI_ENV": "1",  # no compiled kernels for odd shapes
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the engine stays inside its Ray actor
    "TORCH_COMPILE_DISABLE": "1",  # a compiler run costs more than it saves at this size
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "VLLM_BATCH_INVARIANT": "0",  # for GPUs; here a row's bits never depend on the batch
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_ZERO_COPY_TORCH_TENSORS": "1",  # as OpenRLHF sets it on GPUs: tensors arrive read-only
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


def cpu_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that a CPU run sets in the driver and in every Ray worker.

    Args:
        environ: the present environment. Its values take precedence, and ``PYTHONPATH`` is extended, not replaced.
    """
    settings = {name: environ.get(name, value) for name, value in _SETTINGS.items()}
    paths = [path for path in environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if importlib.util.find_spec("flash_attn") is None or str(STUBS) in paths:
        paths = [str(STUBS), *(path for path in paths if path != str(STUBS))]
    settings["PYTHONPATH"] = os.pathsep.join(paths)
    return settings
