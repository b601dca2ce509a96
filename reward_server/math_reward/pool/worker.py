"""A worker process: grades what comes through its socket until the socket is closed.

The kernel enforces its limits, so they hold inside C code and after the server has died. Each item sets a timer of CPU
time, which counts for this process alone: other work on the machine does not use it up. Nothing here handles its
signal, SIGPROF, so that it ends the process.

Frames on the socket: four bytes with the length, big-endian, then a pickle. To the worker: a list of ``Item``s, as
plain tuples. From the worker: READY, then a ``Graded`` for each item, as a plain tuple, in order and at once.
"""

import pickle
import resource
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
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


READY = ()
"""The worker has loaded the grader."""


def frame(message: Any) -> bytes:
    """A message in the form that is sent over the socket."""
    content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(content)) + content


def work(channel: socket.socket, grader: GradeFunction, cpu_seconds: float) -> None:
    """Grades items, each in so much CPU time, until the socket is closed; the main function of the process."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches the whole process group, but the server decides when a worker ends.
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    limit_memory()
    try:
        with channel, channel.makefile("rb") as incoming:
            channel.sendall(frame(READY))
            is_full = _fullness()
            while header := incoming.read(LENGTH.size):
                for item in pickle.loads(incoming.read(*LENGTH.unpack(header))):
                    channel.sendall(frame(tuple(_grade(grader, Item._make(item), cpu_seconds))))
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


def _grade(grader: GradeFunction, item: Item, cpu_seconds: float) -> Graded:
    start = time.perf_counter()
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
    completion = with_prompt(item.completion, item.prompt) if item.prompt_may_be_absent else item.completion
    result = grader(completion, item.reference, item.prompt, item.options)
    signal.setitimer(signal.ITIMER_PROF, 0)
    return Graded.of(result, time.perf_counter() - start)


def _fullness() -> Callable[[], bool]:
    """Tells whether the process has ever been larger than now by FULL_BYTES."""
    unit = 1024 if sys.platform == "linux" else 1

    def peak() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

    limit = peak() + FULL_BYTES
    return lambda: peak() > limit
