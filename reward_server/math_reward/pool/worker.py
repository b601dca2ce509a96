"""A worker process: grades what comes through its socket until the socket is closed.

The kernel enforces its limits, so they hold inside C code and after the server has died. Each item sets two timers,
whose signals nothing here handles, so that they end the process:

* SIGPROF when the item has used its CPU time, which counts for this process alone: other work on the machine does not
  use it up.
* SIGALRM after so many seconds of the clock that something must be wrong.

Frames on the socket: four bytes with the length, big-endian, then a pickle. To the worker: ``list[Item]``. From the
worker: one ``Ready``, then a ``Graded`` for each item, in order and at once.
"""

import pickle
import resource
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from math_reward.grader.extraction.prompt import with_prompt
from math_reward.pool.item import Graded, GradeFunction, Item

LENGTH = struct.Struct("!I")

MEMORY_BYTES = 4 * 2**30
"""The address space of a worker: a power that is too large raises MemoryError there, before the OOM killer acts."""

FULL_BYTES = 512 * 2**20
"""A worker that has grown by more than this since it was ready ends, and another takes its place. Its memories are
bounded, those of SymPy and of the allocator less so, and every item should find as much room as the first one did."""

FULL = 81
"""The exit code of a worker that has grown by FULL_BYTES; it ends between two items."""


@dataclass(frozen=True)
class Limits:
    """How long one item may take."""

    cpu_seconds: float
    """CPU time of the worker."""
    clock_seconds: float
    """Seconds of the clock, many times as many, for an item that waits for ever without using the CPU."""


@dataclass(frozen=True)
class Ready:
    """The worker has loaded the grader."""


def frame(message: Any) -> bytes:
    """A message in the form that is sent over the socket."""
    content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(content)) + content


def work(channel: socket.socket, grader: GradeFunction, limits: Limits) -> None:
    """Grades items until the socket is closed; the main function of the process."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches the whole process group, but the server decides when a worker ends.
    for number in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(number, signal.SIG_DFL)
    limit_memory()
    try:
        with channel, channel.makefile("rb") as incoming:
            channel.sendall(frame(Ready()))
            is_full = _fullness()
            while header := incoming.read(LENGTH.size):
                for item in pickle.loads(incoming.read(*LENGTH.unpack(header))):
                    channel.sendall(frame(_grade(grader, item, limits)))
                    if is_full():
                        sys.exit(FULL)
    except (EOFError, OSError):
        return  # The server has ended or has closed the pool.


def limit_memory() -> None:
    """This process has MEMORY_BYTES of address space at most."""
    if sys.platform == "linux":  # macOS has this limit but refuses to set it.
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        if hard == resource.RLIM_INFINITY or hard > MEMORY_BYTES:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, hard))


def _grade(grader: GradeFunction, item: Item, limits: Limits) -> Graded:
    start = time.perf_counter()
    _set_timers(limits.cpu_seconds, limits.clock_seconds)
    completion = with_prompt(item.completion, item.prompt) if item.prompt_may_be_absent else item.completion
    result = grader(completion, item.reference, item.prompt, item.options)
    _set_timers(0, 0)
    return Graded(result, time.perf_counter() - start)


def _fullness() -> Callable[[], bool]:
    """Tells whether the process has ever been larger than now by FULL_BYTES."""
    unit = 1024 if sys.platform == "linux" else 1

    def peak() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

    limit = peak() + FULL_BYTES
    return lambda: peak() > limit


def _set_timers(cpu_seconds: float, clock_seconds: float) -> None:
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
    signal.setitimer(signal.ITIMER_REAL, clock_seconds)
