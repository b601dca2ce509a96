"""GPU or CPU: what ``--device auto`` means, on this machine and in the Ray cluster of a job."""

import functools
import importlib.metadata
import os
import socket
from typing import Any


def choose_device(wanted: str) -> str:
    """``cpu`` or ``gpu``: the value of ``--device``; for ``auto``, whether this machine or the Ray cluster has a
    GPU."""
    if wanted != "auto":
        return wanted
    if torch_finds_gpu() or any(
        node["Resources"].get("GPU") for node in nodes_of(os.environ.get("RAY_ADDRESS")) or ()
    ):
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


def noted_address() -> str | None:
    """The cluster that ``ray start`` noted on this machine, which ``ray.init`` joins where RAY_ADDRESS is not set."""
    from ray._private.utils import read_ray_address

    return read_ray_address() or None


def _answers(address: str) -> bool:
    """Whether something listens at ``HOST:PORT`` or ``ray://HOST:PORT``; true of other forms. ``ray.init`` would wait
    for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal() or "/" in host:
        return True
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError:
        return False
    return True


def nodes_of(address: str | None) -> list[dict[str, Any]] | None:
    """The living nodes of the Ray cluster at this address; none without an address, and None where nothing answers,
    or Ray finds no address in it."""
    if not address:
        return []
    try:
        return _living_nodes(address) if _answers(address) else None
    except (AssertionError, ConnectionError, ValueError):
        return None


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
