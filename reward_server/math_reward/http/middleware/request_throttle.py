"""Lets requests through a few at a time."""

import asyncio
from collections import deque

PER_TURN = 4
"""Requests let through between two rounds of the event loop; each takes half a millisecond, and the rest goes on."""


class RequestThrottle:
    """Where requests wait for their turn, first come, first served.

    A thousand requests that arrive together would otherwise be parsed in one round of the event loop, or a chunk of
    grades be answered, and a health check behind them would wait for all.
    """

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def turn(self) -> None:
        """Returns when it is the caller's turn."""
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
