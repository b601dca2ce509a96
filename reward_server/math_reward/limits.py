"""How many processes grade, and how long one item may take: all that ``math-reward grade`` needs of the settings.

Without pydantic, so that the command runs where only the library is installed. ``settings.py`` checks these two values
by the same functions.
"""

import contextlib
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

DEADLINE = 2.0
"""CPU seconds, where nobody says how many."""

MAX_DEADLINE = 600
MAX_WORKERS = 1024


class LimitRefused(ValueError):
    """A value is no number of workers or no deadline; the message is a sentence."""


class GradingLimits(NamedTuple):
    """The limits of a pool of workers."""

    workers: int
    deadline: float
    """CPU seconds that grading one item may take."""


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


def checked_workers(value: Any) -> int:
    """A number of workers from a flag or a variable.

    Raises:
        ValueError: it is none; the message is half a sentence.
    """
    try:
        workers = int(str(value))
    except ValueError:
        raise ValueError("input should be a whole number") from None
    if workers < 1:
        raise ValueError("input should be greater than or equal to 1")
    if workers > MAX_WORKERS:
        raise ValueError(f"input should be less than or equal to {MAX_WORKERS}")
    return workers


def checked_deadline(value: Any) -> float:
    """A deadline in CPU seconds from a flag or a variable.

    Raises:
        ValueError: it is none; the message is half a sentence.
    """
    try:
        deadline = float(str(value))
    except ValueError:
        raise ValueError("input should be a number of seconds") from None
    if not deadline > 0:  # NaN is not
        raise ValueError("input should be greater than 0")
    if deadline > MAX_DEADLINE:
        raise ValueError(f"input should be less than or equal to {MAX_DEADLINE}")
    return deadline


def grading_limits(
    workers: int | None = None, deadline: float | None = None, environment: Mapping[str, str] = os.environ
) -> GradingLimits:
    """The limits from the flags that are not None, then MATH_REWARD_* variables, then the defaults.

    Raises:
        LimitRefused: a value is out of bounds.
    """
    given = (
        ("workers", workers, usable_cores(), checked_workers),
        ("deadline", deadline, DEADLINE, checked_deadline),
    )
    checked: dict[str, Any] = {}
    for name, flag, default, check in given:
        variable = f"MATH_REWARD_{name.upper()}"
        try:
            checked[name] = check(environment.get(variable, default) if flag is None else flag)
        except ValueError as error:
            raise LimitRefused(f"{name} ({variable}): {error}.") from None
    return GradingLimits(**checked)
