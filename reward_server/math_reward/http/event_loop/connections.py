"""Limits connections without a request under way: how long they may stay open, and how many there may be.

Every connection is an open file, of which a process may have only so many. The workers need some too, so no number of
connections may take the last.
"""

import resource
from collections import OrderedDict
from typing import Protocol


class Closable(Protocol):
    """A connection that can be closed."""

    def close(self) -> None:
        """Closes it."""
        ...


HEAD_SECONDS = 10.0
"""How long a client may take to send the head of a request, from its first byte or the connection's start."""

IDLE_SECONDS = 90.0
"""How long a connection may be idle. uvicorn closes it earlier, unless it receives something that is no request."""

MAX_WAITING = 4096
"""How many connections may wait for a request. One more closes the connection that has waited longest: an idle one,
which has had an answer, if there is any; else one whose head is not complete."""

OWN_FILES = 40
"""How many files the process needs for itself, and for connections that it accepts only to close them."""

FILES_OF_A_WORKER = 4
"""A worker of each lane, with a socket and what tells of its end."""


def room_for_connections(workers: int) -> int:
    """How many connections may be open, from the limit on open files (``ulimit -n``); not positive if that is too low
    for so many workers.
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        files = 2**20
    return files - OWN_FILES - FILES_OF_A_WORKER * workers


class WaitingConnections:
    """The connections that wait for the head of a request. ``now`` is the event loop's time in seconds.

    Args:
        room: how many connections there may be altogether: a third of them may wait for a head or for TLS, and as many
            may have a request under way.

    Attributes:
        most_open: one more connection than this is closed at once, where those that wait are not enough to close.
    """

    def __init__(self, room: int = 2**20) -> None:
        self.most_open = 2 * room // 3
        self._most_waiting = min(MAX_WAITING, room // 3)
        # Both are in the order in which the connections began to wait.
        self._heads: OrderedDict[Closable, float] = OrderedDict()
        self._idle: OrderedDict[Closable, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._heads) + len(self._idle)

    def expects_head(self, connection: Closable, now: float) -> None:
        """The connection is new, or has begun to send a request."""
        self._idle.pop(connection, None)
        self._heads.setdefault(connection, now)
        self._keep_few()

    def is_idle(self, connection: Closable, now: float) -> None:
        """The connection has had its answer."""
        self._idle[connection] = now
        self._keep_few()

    def leaves(self, connection: Closable) -> None:
        """The connection has a request under way, or is closed."""
        self._heads.pop(connection, None)
        self._idle.pop(connection, None)

    def close_late(self, now: float) -> None:
        """Closes the connections that have waited too long."""
        for kind, limit in ((self._heads, HEAD_SECONDS), (self._idle, IDLE_SECONDS)):
            while kind:
                connection, since = next(iter(kind.items()))
                if now - since <= limit:
                    break
                del kind[connection]
                connection.close()

    def _keep_few(self) -> None:
        while len(self) > self._most_waiting:
            connection, _ = (self._idle or self._heads).popitem(last=False)
            connection.close()
