"""A worker process: grades what comes through its socket until the socket is closed.

The kernel keeps its limits, so that they hold inside C code and also when the server has died. Each item begins with
two timers, and nothing here handles their signals, so that they end the process:

* SIGPROF when the item has had its CPU time, counted for this process alone: a machine that is busy with other things
  uses up nobody's time.
* SIGALRM when so much time of the clock is over that something must be wrong.

Frames on the socket: four bytes with the length, big-endian, then a pickle. To the worker: ``list[Item]``. From the
worker: one ``Ready``, then a ``Graded`` for each item, in order, as soon as it is there, and a ``Caches`` after the
last item of a list.
"""

import pickle
import resource
import signal
import socket
import struct
import sys
import time
from dataclasses import dataclass
from typing import Any

from math_reward.grader import cache_info
from math_reward.grader.prompt import with_prompt
from math_reward.pool.item import Graded, Grader, Item

LENGTH = struct.Struct("!I")

MEMORY_BYTES = 4 * 2**30
"""The address space of a worker: a power that is too big raises MemoryError there and wakes no OOM killer."""


@dataclass(frozen=True)
class Limits:
    """How long one item may take."""

    cpu_seconds: float
    """CPU time of the worker."""
    clock_seconds: float
    """Time of the clock, many times as much: for what waits for ever without using the CPU."""


@dataclass(frozen=True)
class Ready:
    """The worker has loaded the grader."""


@dataclass(frozen=True)
class Caches:
    """What the grader's caches did for one list of items: by cache the lookups that found something or did not."""

    hits: dict[str, int]
    misses: dict[str, int]


def frame(message: Any) -> bytes:
    """A message as it goes over the socket."""
    content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(content)) + content


def work(channel: socket.socket, grader: Grader, limits: Limits) -> None:
    """The body of the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; the server decides.
    for number in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(number, signal.SIG_DFL)
    if sys.platform == "linux":  # macOS knows the limit and refuses to set it.
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        if hard == resource.RLIM_INFINITY or hard > MEMORY_BYTES:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, hard))
    try:
        with channel, channel.makefile("rb") as incoming:
            channel.sendall(frame(Ready()))
            before = cache_info()
            while header := incoming.read(LENGTH.size):
                for item in pickle.loads(incoming.read(*LENGTH.unpack(header))):
                    channel.sendall(frame(_grade(grader, item, limits)))
                after = cache_info()
                channel.sendall(frame(_difference(before, after)))
                before = after
    except (EOFError, OSError):
        return  # The server has gone or has closed the pool.


def _grade(grader: Grader, item: Item, limits: Limits) -> Graded:
    start = time.perf_counter()
    _set_timers(limits.cpu_seconds, limits.clock_seconds)
    completion = with_prompt(item.completion, item.prompt) if item.prompt_may_be_absent else item.completion
    result = grader(completion, item.reference, item.prompt, item.options)
    _set_timers(0, 0)
    return Graded(result, time.perf_counter() - start)


def _difference(before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]]) -> Caches:
    hits, misses = ({name: after[name][i] - before[name][i] for name in after} for i in (0, 1))
    return Caches(hits, misses)


def _set_timers(cpu_seconds: float, clock_seconds: float) -> None:
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
    signal.setitimer(signal.ITIMER_REAL, clock_seconds)
