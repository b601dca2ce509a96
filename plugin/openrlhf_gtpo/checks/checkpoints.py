"""The checkpoint that a resumed run goes on from, in DeepSpeed's folders: whether its files are whole."""

import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from openrlhf_gtpo.checks import Finding

PREFIX = "global_step"
"""Before the step in a checkpoint's name; ``best_`` may stand before it."""


def check(flags: Mapping[str, Any]) -> Iterator[Finding]:
    """Which checkpoint is damaged, and which whole one there is."""
    folder = Path(flags["ckpt.path"], "_actor")
    pointer = folder / "latest"
    if not flags["ckpt.load_enable"] or not pointer.exists():
        return
    try:
        latest = pointer.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        latest = ""
    why = _damage(folder / latest) if latest else f"{pointer} is empty"
    if why is None:
        yield Finding("checkpoint", "ok", f"{folder / latest} is whole.")
        return
    whole = [one.name for one in folder.glob(f"*{PREFIX}*") if one.name != latest and _damage(one) is None]
    newest = max(whole, key=_step, default=None)
    fix = (
        f"write {newest} into {pointer}, and the run goes on from there" if newest else "leave --ckpt.load_enable out"
    )
    yield Finding("checkpoint", "fault", f"The newest checkpoint is damaged ({why}): {fix}.")


def latest_step(folder: str) -> int | None:
    """The step of the checkpoint that a resumed run would continue from; None if there is none."""
    try:
        return _step(Path(folder, "_actor", "latest").read_text(encoding="utf-8").strip())
    except (OSError, ValueError):
        return None


def _step(name: str) -> int:
    return int(name.rpartition(PREFIX)[2])


def _damage(checkpoint: Path) -> str | None:
    """The first file that is not whole, or what is missing. torch writes zip files, which end with a directory."""
    files = sorted(checkpoint.glob("*.pt"))
    if not files:
        return f"{checkpoint} has no weights"
    return next((f"{file} was not written to its end" for file in files if not zipfile.is_zipfile(file)), None)
