"""The checkpoint that a run goes on from, in DeepSpeed's folders: whether it is there, whole and of the same run."""

import os
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from math_reward.nearest import beside
from openrlhf_gtpo import resume
from openrlhf_gtpo.checks import Finding, data


def check(flags: Mapping[str, Any]) -> Iterator[Finding]:
    """Where there is no checkpoint; which is damaged, and which whole one there is; what it has otherwise."""
    for name in ("ckpt.path", "ckpt.output_dir"):
        if os.path.isfile(flags[name]):
            yield Finding("checkpoint", "fault", f"--{name} {flags[name]} is a file: name a folder.")
            return
    path, universal = Path(flags["ckpt.path"]), flags["ds.use_universal_ckpt"]
    folder, pointer = path / "_actor", path / "_actor" / f"latest{resume.UNIVERSAL * universal}"
    checkpoint = resume.newest(flags["ckpt.path"], pointer.name)
    if not flags["ckpt.load_enable"]:
        if checkpoint is not None and flags["ckpt.save_steps"] > 0:
            end = "another --ckpt.path keeps those there, and --ckpt.load_enable goes on from it"
            yield Finding("checkpoint", "warning", f"This run will write over the checkpoints of {path}: {end}.")
        return
    if not folder.exists():
        yield _nowhere(path)
        return
    why = _damage(checkpoint) if checkpoint else f"{pointer} is {'empty' if pointer.exists() else 'not there'}"
    if checkpoint and why is None:
        yield Finding("checkpoint", "ok", f"{checkpoint} is whole.")
        for state, sentence in resume.differences(checkpoint, flags, data.digests(flags)):
            yield Finding("resume", state, sentence)
        return
    if universal:
        fix = "convert one by DeepSpeed's ds_to_universal.py, or leave --ds.use_universal_ckpt out"
        yield Finding("checkpoint", "fault", f"There is no universal checkpoint to go on from ({why}): {fix}.")
        return
    others = (one for one in folder.glob(f"*{resume.PREFIX}*[0-9]") if one != checkpoint)
    whole = [one.name for one in others if _damage(one) is None]
    newest = max(whole, key=resume.step_of, default=None)
    fix = (
        f"write {newest} into {pointer}, and the run goes on from there" if newest else "leave --ckpt.load_enable out"
    )
    yield Finding("checkpoint", "fault", f"The newest checkpoint is damaged ({why}): {fix}.")


def _nowhere(path: Path) -> Finding:
    """A folder without checkpoints. With none at all in it OpenRLHF begins at step 1, as a script that always resumes
    wants it the first time; who names one with a model in it means that model, or the checkpoints around it."""
    flag, there = f"--ckpt.path {path}", sorted(one.name for one in path.iterdir()) if path.is_dir() else None
    model = any(name == "config.json" or name.endswith((".safetensors", ".bin")) for name in there or ())
    around = [one.parent for one in (path, path.parent) if one.name == "_actor"]
    around += [path.parent] * (model or resume.PREFIX in path.name)
    if root := next((one for one in around if resume.newest(str(one))), None):
        return Finding("checkpoint", "fault", f"{flag} is inside the checkpoints of {root}: name {root}.")
    if model:
        fix = f"to train it further, give --actor.model_name_or_path {path} and no --ckpt.load_enable"
        return Finding("checkpoint", "fault", f"{flag} has a model, and no checkpoint to go on from: {fix}.")
    held = f"has {', '.join(there[:5]) or 'nothing'} but no checkpoint" if there is not None else ""
    holds = held or f"is not there{beside(path)}"
    fix = "name the folder with _actor in it if it was to go on"
    return Finding("checkpoint", "warning", f"{flag} {holds}, so that the run begins at step 1: {fix}.")


def _damage(checkpoint: Path) -> str | None:
    """The first file that is not whole, or what is missing. torch writes zip files, which end with a directory."""
    files = sorted(checkpoint.glob("*.pt"))
    if not files:
        return f"{checkpoint} has no weights"
    return next((f"{file} was not written to its end" for file in files if not zipfile.is_zipfile(file)), None)
