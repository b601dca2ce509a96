"""Limits a stream of rows while it arrives: the time to the end of the next line, and what is held of it."""

import anyio
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

from math_reward.http.middleware.hang_up import until_hung_up
from math_reward.http.middleware.pending_bytes import PendingBytes

ROOM_SECONDS = 0.01
"""How often a stream looks whether there is room for more of it."""


class LineLimits:
    """A stream's body. The time in which nobody asks for it does not count: then its own lines are being graded.

    Args:
        receive: ASGI's.
        seconds: how long the client may take from the end of one line to the end of the next.
        pending: a line counts there from when it arrives until ``release``.
    """

    def __init__(self, receive: Receive, seconds: float, pending: PendingBytes) -> None:
        self.pending = pending
        self._receive = receive
        self._seconds = seconds
        self._left = seconds
        self._held = 0

    async def receive(self) -> Message:
        """The next message.

        Raises:
            HTTPException: a line is too slow, or the bodies of all requests are too large together for as long.
        """
        begin = anyio.current_time()
        try:
            with anyio.fail_after(self._left):
                # Its own lines are answered meanwhile, so a stream goes on even if it has filled the room alone.
                while self.pending.too_many:
                    await anyio.sleep(ROOM_SECONDS)
                message = await self._receive()
        except TimeoutError:
            if self.pending.too_many:
                raise self.pending.refusal() from None
            raise HTTPException(
                408, f"No line came to its end within {self._seconds:g} s: send lines faster."
            ) from None
        self._left -= anyio.current_time() - begin
        body = message.get("body", b"")
        self._held += len(body)
        self.pending.count += len(body)
        if b"\n" in body:
            self._left = self._seconds
        return message

    async def until_hung_up(self) -> None:
        """Returns when the client has hung up, or the answer is complete. What still comes of the body is dropped."""
        await until_hung_up(self._receive)

    def release(self, size: int) -> None:
        """So many bytes of the stream are answered."""
        self._held -= size
        self.pending.count -= size

    def release_all(self) -> None:
        """The stream has ended."""
        self.release(self._held)
