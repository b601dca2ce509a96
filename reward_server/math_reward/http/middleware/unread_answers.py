"""Hands an answer on as its client reads it, so that nobody's unread answers fill the memory for long.

uvicorn takes an answer of any size and keeps what the kernel has no room for: without this, a client that posts much
and reads nothing would have it kept until it closes the connection.
"""

from typing import Protocol

import anyio
from starlette.types import Message, Scope, Send

from math_reward.http.middleware.pending_bytes import PendingBytes
from math_reward.http.ndjson import CONNECTION, OUTCOME, is_stream

LOOK_SECONDS = 0.01
"""How often to look what is left of an answer."""


class Connection(Protocol):
    """What is needed of a connection."""

    @property
    def unsent(self) -> int:
        """Bytes that were written and that the kernel has not taken, since the client does not read."""
        ...

    def abort(self) -> None:
        """Closes it at once."""


def as_it_is_read(scope: Scope, send: Send, pending: PendingBytes | None, seconds: float) -> Send:
    """``send``, but it returns when the client has read so much that the kernel has the rest.

    The connection is closed if that takes too long; a stream has a limit of its own for that.

    Args:
        pending: what is unread counts there; None if it does not.
        seconds: how long the client may take.
    """
    connection: Connection | None = scope.get(CONNECTION)
    if connection is None:  # Another server than that of `math-reward serve`, with limits of its own.
        return send
    limit = None if is_stream(scope) else seconds

    async def send_and_wait(message: Message) -> None:
        await send(message)
        size = len(message.get("body", b""))
        if not size or not connection.unsent:
            return
        if pending is not None:
            pending.count += size
        try:
            with anyio.move_on_after(limit) as reading:
                while connection.unsent:
                    await anyio.sleep(LOOK_SECONDS)
            if reading.cancelled_caught:
                scope[OUTCOME] = 408
                connection.abort()
        finally:
            if pending is not None:
                pending.count -= size

    return send_and_wait
