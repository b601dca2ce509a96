"""The checkpoint that a run goes on from, in DeepSpeed's folders: whether it is there, whole and of the same run."""

import os
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from openrlhf_gtpo import resume
from openrlhf_gtpo.checks import Finding, data


def check(flags: Mapping[str, Any]) -> Iterator[Finding]:
    """Where there is no checkpoint; which is damaged, and which whole one there is; what it has otherwise."""
    for name in ("ckpt.path", "ckpt.output_dir"):
        if os.path.isfile(flags[name]):
            yield Finding("checkpoint", "fault", f"--{name} {flags[name]} is a file: name a folder.")
            return
    path = Path(flags["ckpt.path"])
    folder, checkpoint = path / "_actor", resume.newest(flags["ckpt.path"])
    pointer = folder / "latest"
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
    latest = checkpoint and checkpoint.name
    whole = [one.name for one in folder.glob(f"*{resume.PREFIX}*") if one.name != latest and _damage(one) is None]
    newest = max(whole, key=resume.step_of, default=None)
    fix = (
        f"write {newest} into {pointer}, and the run goes on from there" if newest else "leave --ckpt.load_enable out"
    )
    yield Finding("checkpoint", "fault", f"The newest checkpoint is damaged ({why}): {fix}.")


def _nowhere(path: Path) -> Finding:
    """A folder without checkpoints, with which OpenRLHF begins at step 1; or inside those of another."""
    root = next((one.parent for one in (path, path.parent) if one.name == "_actor"), None)
    if root and resume.newest(str(root)):
        return Finding("checkpoint", "fault", f"--ckpt.path {path} is inside the checkpoints of {root}: name {root}.")
    there = sorted(one.name for one in path.iterdir())[:5] if path.is_dir() else None
    holds = "is not there" if there is None else f"has {', '.join(there) or 'nothing'} but no checkpoint"
    fix = "name the folder with _actor in it if it was to go on"
    return Finding("checkpoint", "warning", f"--ckpt.path {path} {holds}, so that the run begins at step 1: {fix}.")


def _damage(checkpoint: Path) -> str | None:
    """The first file that is not whole, or what is missing. torch writes zip files, which end with a directory."""
    files = sorted(checkpoint.glob("*.pt"))
    if not files:
        return f"{checkpoint} has no weights"
    return next((f"{file} was not written to its end" for file in files if not zipfile.is_zipfile(file)), None)
