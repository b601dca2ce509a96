"""Runs in the driver: waits for processes whose parents have ended.

When a run ends, Ray's workers and vLLM's engines outlive their parents by a moment. The process that adopts them has
to wait for them, or they stay in the process table as zombies. The first process of a container often does not wait,
so the driver adopts them."""

import contextlib
import ctypes
import os
import signal
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


def adopt_orphans() -> None:
    """Make this process the parent of descendants that lose their parent (on Linux; elsewhere nothing happens)."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap(seconds: float) -> None:
    """Wait until this process has no children. Call it last, since it drops their exit codes.

    Args:
        seconds: after this time the children that are left are killed.
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
            listed = Path("/proc/self/task").glob("*/children")
            children = [int(pid) for path in listed for pid in path.read_text().split()]
            if not children:  # this kernel does not list them
                return
            for child in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
        time.sleep(0.02)
