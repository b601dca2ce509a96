"""Lives in the driver: ends of processes that nobody waits for.

Ray's workers, and vLLM's engine below one, outlive their parents by a moment when a run ends. Whoever adopts them has
to wait for them, or each stays in the process table as a zombie; the first process of a container often does not."""

import contextlib
import ctypes
import os
import signal
import time
from pathlib import Path

__all__ = ["adopt_orphans", "reap"]

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


def adopt_orphans() -> None:
    """From now on, descendants of this process that lose their parent become its children (Linux; elsewhere nothing
    changes)."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap(seconds: float) -> None:
    """Wait for children until there is none. For the very end: their exit codes are lost.

    Args:
        seconds: how long they may take to end by themselves; then they are killed.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            ended, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if ended:
            continue
        if time.monotonic() > deadline:
            children = _children()
            if not children:  # a kernel that does not list them
                return
            for child in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
        time.sleep(0.02)


def _children() -> list[int]:
    """Process ids of this process's children, as Linux lists them."""
    return [int(pid) for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()]
