"""uvicorn's connection, but an answer counts until it is sent and may not wait for ever, and what is no HTTP is
refused as everything else is."""

import asyncio
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from math_reward.app import Service


class Connection(H11Protocol):
    """One connection to the service.

    ``send`` waits while anything is left of what was sent before; a client that takes none of it for as long as its
    request might have taken to arrive loses the connection.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._give_up: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=1, low=0)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._give_up = self.loop.call_later(self._service.guard.send_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuses what is no HTTP; ``msg`` is h11's word for it."""
        request_id, answer = self._service.guard.unreadable(self.client)
        headers = [*answer.raw_headers, (b"x-request-id", request_id)]
        try:
            for event in (
                h11.Response(status_code=answer.status_code, headers=headers),
                h11.Data(data=bytes(answer.body)),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:
            pass  # The answer to an earlier part of it has begun already.
        self.transport.close()

    @property
    def _service(self) -> Service:
        return cast(Service, self.config.app)

    def _stop_clock(self) -> None:
        if self._give_up is not None:
            self._give_up.cancel()
            self._give_up = None
