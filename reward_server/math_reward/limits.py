"""How many processes grade, and how long one item may take.

Without pydantic, so that ``math-reward grade`` runs where only the library is installed.
"""

import contextlib
import math
import os
from pathlib import Path

DEADLINE = 2.0
"""CPU seconds that grading one item may take, where nobody says how many."""

MIN_DEADLINE = 0.001
MAX_DEADLINE = 600
MAX_WORKERS = 1024


def usable_cores(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """The cores that this process may use; where a container has a share of them (``docker run --cpus``), that."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return math.ceil(min(cores, _quota(cgroup)))


def _quota(cgroup: Path) -> float:
    """CPU seconds a second, by version 2 of cgroups or by version 1; infinity without a limit."""
    for files in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        with contextlib.suppress(OSError, ValueError):  # not there, or "max"
            quota, period = map(int, " ".join((cgroup / name).read_text() for name in files).split())
            return quota / period if quota > 0 else math.inf
    return math.inf
