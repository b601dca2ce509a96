"""Compares what OpenRLHF's actors ask for with what a Ray cluster has, before the run starts.

Ray itself waits for ever for resources that no node has, since another node may join."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from openrlhf_gtpo.errors import UserError
from openrlhf_gtpo.settings import Settings

GROWS = "OPENRLHF_GTPO_CLUSTER_GROWS"
"""Environment variable for clusters that add nodes by themselves: set, it switches this check off."""


class ClusterTooSmall(UserError):
    """A Ray cluster has fewer GPUs or CPUs than the actors of a run ask for."""


def shares_gpus(flags: Mapping[str, Any]) -> bool:
    """Whether engines and policy are on the same GPUs, from OpenRLHF's flat flags."""
    return bool(flags["train.colocate_all"] and not flags["train.async_enable"])


def gpus_by_role(settings: Settings) -> dict[str, int]:
    """The number of GPUs that a command line asks for, for each role that has its own. Each comes with a request for
    one CPU."""
    flags = settings.flags

    def of(role: str) -> int:
        return int(flags[f"{role}.num_nodes"] * flags[f"{role}.num_gpus_per_node"])

    everything = flags["train.colocate_all"]
    gpus = {"trainers": of("actor")}
    if flags["algo.kl.init_coef"] > 0 and not (everything or flags["train.colocate_actor_ref"]):
        gpus["the reference policy"] = of("ref")
    if not shares_gpus(flags):
        gpus["engines"] = (flags["vllm.num_engines"] or 0) * flags["vllm.tensor_parallel_size"]
        if guide := settings.guide:
            gpus["the guide's engines"] = guide.engines * guide.tensor_parallel_size
    critic = bool(flags["critic.model_name_or_path"]) or flags["algo.advantage.estimator"] == "gae"
    if critic and not everything:
        gpus["the critic"] = of("critic")
    shares_critic = critic and flags["train.colocate_critic_reward"]
    if flags["reward.model_name_or_path"] and not (everything or shares_critic or flags["reward.remote_url"]):
        gpus["the reward model"] = of("reward")
    return {role: number for role, number in gpus.items() if number}


def check_cluster(settings: Settings, nodes: Sequence[Mapping[str, Any]], *, logical: bool) -> None:
    """Refuse a run that a cluster can never place.

    Args:
        settings: of the run.
        nodes: the living ones, as ``ray.nodes()`` describes them.
        logical: whether Ray's GPUs are logical ones (the CPU platform).

    Raises:
        ClusterTooSmall: the nodes have too few GPUs or CPUs, and ``GROWS`` is not set.
    """
    roles = gpus_by_role(settings)
    needed = sum(roles.values())
    gpus, cpus = (int(sum(node["Resources"].get(name, 0) for node in nodes)) for name in ("GPU", "CPU"))
    if os.environ.get(GROWS) or min(gpus, cpus) >= needed:
        return
    kind = "logical GPUs" if logical else "GPUs"
    parts = ", ".join(f"{number} for {role}" for role, number in roles.items())
    where = "its node has" if len(nodes) == 1 else f"its {len(nodes)} nodes have"
    fix = f"ray start --head --num-gpus {needed}" if logical else "ray start on more nodes"
    if cpus < needed <= gpus:
        fix = f"ray start with --num-cpus {needed} or more"
    raise ClusterTooSmall(
        f"The Ray cluster can never place this run, which needs {needed} {kind} ({parts}) and as many CPUs; {where} "
        f"{gpus} and {cpus}: start Ray with more ({fix}), or ask for less by --actor.num_gpus_per_node and "
        f"--vllm.num_engines. If the cluster adds nodes by itself, set {GROWS}=1."
    )
