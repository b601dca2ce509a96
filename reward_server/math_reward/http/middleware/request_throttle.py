"""Lets a few requests through in each round of the event loop."""

import asyncio
from collections import deque

PER_TURN = 4
"""Requests let through in one round of the event loop. Each takes half a millisecond; then everything else goes on."""


class RequestThrottle:
    """A queue in which requests wait for their turn, first come, first served.

    Otherwise a thousand requests that arrive together would be parsed, or a chunk of grades answered, in one round of
    the event loop, and a health check would wait for all of them.
    """

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def turn(self) -> None:
        """Waits for the caller's turn."""
        loop = asyncio.get_running_loop()
        mine: asyncio.Future[None] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._let_through, loop)
        self._waiting.append(mine)
        await mine

    def _let_through(self, loop: asyncio.AbstractEventLoop) -> None:
        for _ in range(min(PER_TURN, len(self._waiting))):
            future = self._waiting.popleft()
            if not future.done():  # Its request was cancelled.
                future.set_result(None)
        if self._waiting:
            loop.call_soon(self._let_through, loop)
