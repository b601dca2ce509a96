"""Says in one sentence why a run stopped and how to continue it: one of our own errors, a process that died, a full
disk."""

import errno
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from openrlhf_gtpo.errors import UserError


def one_sentence(error: BaseException, flags: Mapping[str, Any]) -> str | None:
    """The sentence for the error that stopped a run; None for an unexpected one, whose traceback should be shown.

    Args:
        error: as it reached the driver. Ray wraps the exception of a worker, and passes on that of an actor's
            constructor as text.
        flags: OpenRLHF's flat flags; empty if the run stopped before they were known.
    """
    for link in _chain(error):
        if isinstance(link, UserError) and getattr(link, "cause", None) is None:
            return f"{link} {way_on(flags)}" if last_checkpoint(flags) is not None else str(link)
    sentences = re.findall(r"^(?:\S*\s)?openrlhf_gtpo\.[\w.]+: (.+)$", str(error), flags=re.MULTILINE)
    if sentences:
        return sentences[-1]
    full = f"[Errno {errno.ENOSPC}]"
    if any(isinstance(link, OSError) and link.errno == errno.ENOSPC for link in _chain(error)) or full in str(error):
        return f"A disk is full, so training stopped: free space where the run writes. {way_on(flags)}"
    if "wandb.errors" in str(error) and "AuthenticationError" in str(error):
        return (
            "wandb has no key on the node where the trainer runs: set WANDB_API_KEY before `ray start`, or run `wandb "
            "login` on every node."
        )
    died = _died(error)
    return None if died is None else f"{died} {way_on(flags)}"


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        # Ray's RayTaskError holds the original exception as ``cause``, and is an instance of its class too.
        seen = getattr(seen, "cause", None) or seen.__cause__


def _died(error: BaseException) -> str | None:
    """A sentence about the process of the run that died; None if none did."""
    import ray.exceptions

    death = next((link for link in _chain(error) if isinstance(link, ray.exceptions.RayActorError)), None)
    text = str(error) if death is None else str(death)
    if death is None and "ActorDiedError" not in text:
        return None
    name, pid = (re.search(rf"^\s*{key}: (.+)$", text, re.MULTILINE) for key in ("class_name", "pid"))
    why = re.search(r"Worker exit type: (\w+)", text)
    who = f"The process of {name[1]}" if name else "A process of the run"
    return (
        f"{who}{f' (pid {pid[1]})' if pid else ''} died{f' ({why[1]})' if why else ''}, so training stopped. Its last "
        "output is above; Ray's logs of all processes are in the session's folder under /tmp/ray on its node."
    )


def way_on(flags: Mapping[str, Any]) -> str:
    """A sentence on how to continue a run that stopped."""
    step = last_checkpoint(flags)
    if step is not None:
        return (
            f"The same command with --ckpt.load_enable continues after step {step}, the last checkpoint in "
            f"{flags['ckpt.path']}."
        )
    return "There is no checkpoint to continue from: --ckpt.save_steps N writes one every N steps."


def last_checkpoint(flags: Mapping[str, Any]) -> int | None:
    """The step of the checkpoint that a resumed run would continue from; None if there is none."""
    if not flags.get("ckpt.path"):
        return None
    latest = Path(flags["ckpt.path"]) / "_actor" / "latest"  # DeepSpeed's pointer to the newest
    try:
        match = re.search(r"global_step(\d+)", latest.read_text(encoding="utf-8"))
    except OSError:
        return None
    return int(match[1]) if match else None
