"""The GPUs, the Ray cluster and the disk."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from openrlhf_gtpo.checks import Finding
from openrlhf_gtpo.device import nodes_of, noted_address
from openrlhf_gtpo.flags import embedded

GIB = 2**30
LESS = "ask for less by --actor.num_gpus_per_node and --vllm.num_engines"
GROWS = "OPENRLHF_GTPO_CLUSTER_GROWS"
"""Environment variable for clusters that add nodes by themselves: set, the cluster's size is not checked."""


def check(flags: Mapping[str, Any]) -> Iterator[Finding]:
    """GPUs, cluster, disk."""
    gpu, named = flags["device"] == "gpu", os.environ.get("RAY_ADDRESS")
    address = named or (noted_address() if gpu else None)  # on a CPU the driver starts a cluster of its own
    nodes = nodes_of(address)
    if nodes is None:
        who = "RAY_ADDRESS names" if named else "an earlier `ray start` noted here"
        fix = "start Ray there, or unset RAY_ADDRESS" if named else "run `ray stop`, or start it again"
        yield Finding("Ray cluster", "fault", f"No Ray cluster answers at {address}, which {who}: {fix}.")
    elif nodes:
        yield _cluster(flags, nodes)
    elif gpu:
        yield _gpus(gpus_by_role(flags) if flags["actor.model_name_or_path"] else {})  # else a doctor's without a run
    yield from _disk(flags)


def _gpus(roles: Mapping[str, int]) -> Finding:
    """Whether this machine has the GPUs that the run asks for. Ray itself waits for ever, since a node may join."""
    import torch

    count, needed = torch.cuda.device_count(), sum(roles.values())
    if count and needed <= count:
        cards = [torch.cuda.get_device_properties(i) for i in range(count)]
        listed = ", ".join(f"{card.name} with {card.total_memory / GIB:.0f} GiB" for card in cards)
        return Finding("GPU", "ok", f"{count} visible: {listed}.")
    if count:
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
        seen = f"{count}{f' (CUDA_VISIBLE_DEVICES is {hidden})' if hidden else ''}"
        sentence = (
            f"This run needs {needed} GPUs ({_listed(roles)}), and torch sees {seen}: {LESS} (GPUS of the launch "
            "scripts), or start Ray on several machines."
        )
    elif torch.version.cuda is None and torch.version.hip is None:
        sentence = f"torch {torch.__version__} is a build for CPUs: install one for CUDA, or give --device cpu."
    else:
        sentence = f"torch {torch.__version__} finds no GPU: fix the driver or CUDA_VISIBLE_DEVICES, or --device cpu."
    return Finding("GPU", "fault", sentence)


def gpus_by_role(flags: Mapping[str, Any]) -> dict[str, int]:
    """The number of GPUs that a command line asks for, for each role that has its own. Each comes with a request for
    one CPU."""

    def of(role: str) -> int:
        return int(flags[f"{role}.num_nodes"] * flags[f"{role}.num_gpus_per_node"])

    everything = flags["train.colocate_all"]
    gpus = {"trainers": of("actor")}
    if flags["algo.kl.init_coef"] > 0 and not (everything or flags["train.colocate_actor_ref"]):
        gpus["the reference policy"] = of("ref")
    if not shares_gpus(flags):
        each = flags["vllm.tensor_parallel_size"]
        gpus["engines"] = (flags["vllm.num_engines"] or 0) * each
        if flags["guide.model"]:
            gpus["the guide's engines"] = flags["guide.engines"] * (flags["guide.tensor_parallel_size"] or each)
    critic = bool(flags["critic.model_name_or_path"]) or flags["algo.advantage.estimator"] == "gae"
    if critic and not everything:
        gpus["the critic"] = of("critic")
    shares_critic = critic and flags["train.colocate_critic_reward"]
    if flags["reward.model_name_or_path"] and not (everything or shares_critic or flags["reward.remote_url"]):
        gpus["the reward model"] = of("reward")
    return {role: number for role, number in gpus.items() if number}


def _listed(roles: Mapping[str, int]) -> str:
    return ", ".join(f"{number} for {role}" for role, number in roles.items())


def shares_gpus(flags: Mapping[str, Any]) -> bool:
    """Whether engines and policy are on the same GPUs."""
    return bool(flags["train.colocate_all"] and not flags["train.async_enable"])


def _cluster(flags: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]]) -> Finding:
    """Whether the cluster can ever place the run. Ray itself waits for ever, since another node may join."""
    name, logical, roles = "Ray cluster", flags["device"] == "cpu", gpus_by_role(flags)
    needed = sum(roles.values())
    gpus, cpus = (int(sum(node["Resources"].get(what, 0) for node in nodes)) for what in ("GPU", "CPU"))
    where = "its node has" if len(nodes) == 1 else f"its {len(nodes)} nodes have"
    if embedded(flags) and len(nodes) > 1:
        alone = "The built-in reward service listens on one machine, and the Ray cluster has several"
        fix = "start `math-reward serve` where all reach it, and give --reward.remote_url http://HOST:PORT"
        return Finding(name, "fault", f"{alone}: {fix}.")
    if os.environ.get(GROWS) or min(gpus, cpus) >= needed:
        return Finding(name, "ok", f"The run needs {needed} GPUs, and {where} {gpus}, with {cpus} CPUs.")
    kind = "logical GPUs" if logical else "GPUs"
    fix = f"ray start --head --num-gpus {needed}" if logical else "ray start on more nodes"
    if cpus < needed <= gpus:
        fix = f"ray start with --num-cpus {needed} or more"
    needs = f"needs {needed} {kind} ({_listed(roles)}) and as many CPUs; {where} {gpus} and {cpus}"
    said = f"The Ray cluster can never place this run, which {needs}: {fix}, or {LESS}"
    return Finding(name, "fault", f"{said}. If it adds nodes by itself, set {GROWS}=1.")


def place_of(folder: Path) -> Path:
    """The folder, or the nearest of those above it that is there already."""
    whole = folder.absolute()
    return next(place for place in (whole, *whole.parents) if place.exists())


def _disk(flags: Mapping[str, Any]) -> Iterator[Finding]:
    """Whether what the run writes can be written. Nothing is left there."""
    names = ["ckpt.output_dir", "logger.tensorboard_dir", *["ckpt.path"] * (flags["ckpt.save_steps"] > 0)]
    written = {name: flags[name] for name in names if flags[name]}
    if metrics := flags["logger.metrics_path"]:
        written["logger.metrics_path"] = os.path.dirname(metrics) or "."
    for name, folder in written.items():
        try:
            with tempfile.NamedTemporaryFile(dir=place_of(Path(folder))):
                pass
            why = "it is a folder" if name == "logger.metrics_path" and os.path.isdir(metrics) else ""
        except OSError as error:
            why = error.strerror or "without a reason"
        if why:
            fix = "give another, or change its permissions"
            yield Finding("disk", "fault", f"--{name} {flags[name]} cannot be written ({why}): {fix}.")
            return
    free = shutil.disk_usage(place_of(Path(flags["ckpt.output_dir"]))).free / GIB
    yield Finding("disk", "ok", f"{free:,.1f} GiB are free for {flags['ckpt.output_dir']}.")
