"""GPU or CPU: what ``--device auto`` means, on this machine and in the Ray cluster of a job."""

import functools
import importlib.metadata
import os
from typing import Any


def choose_device(wanted: str) -> str:
    """``cpu`` or ``gpu``: the value of ``--device``; for ``auto``, whether this machine or the Ray cluster has a
    GPU."""
    if wanted != "auto":
        return wanted
    if torch_finds_gpu() or any(node["Resources"].get("GPU") for node in nodes_of_ray_address()):
        return "gpu"
    return "cpu"


def torch_finds_gpu() -> bool:
    """Whether torch finds a GPU on this machine.

    A CPU build is recognised by its version, without an import: OpenMP reads its number of threads when torch is
    imported, and the CPU platform has not set it yet.
    """
    if importlib.metadata.version("torch").endswith("+cpu"):
        return False
    import torch

    return torch.cuda.is_available()


def nodes_of_ray_address() -> list[dict[str, Any]]:
    """The living nodes of the cluster of RAY_ADDRESS, which Ray sets for its jobs; none without that variable."""
    address = os.environ.get("RAY_ADDRESS")
    return _living_nodes(address) if address else []


@functools.cache  # a driver looks up to three times, and joining a cluster takes seconds
def _living_nodes(address: str) -> list[dict[str, Any]]:
    """Those of the cluster that ``ray.init`` joins, which is the one at this address."""
    import ray

    joined = not ray.is_initialized()
    if joined:
        ray.init(log_to_driver=False, logging_level="ERROR")
    try:
        return [node for node in ray.nodes() if node["Alive"]]
    finally:
        if joined:
            ray.shutdown()
