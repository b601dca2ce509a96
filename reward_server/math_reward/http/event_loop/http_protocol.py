"""uvicorn's HTTP protocol, but the head of a request has limits, and a connection that is closed leaves nothing for
the garbage collector.
"""

import json
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from math_reward.http.event_loop.connections import WaitingConnections

MAX_HEAD_BYTES = 32_768
"""Request line and headers together. httptools has no limit, and no token is asked for before they are complete."""


def protocol_of(waiting: WaitingConnections) -> type[HttpToolsProtocol]:
    """The protocol for a server that watches its connections with ``waiting``."""

    class Protocol(HttpToolsProtocol):
        _head_bytes: int | None = 0
        """Of the head that is under way, as far as they are counted; None in a body."""
        _head_ended = False
        """Whether a head has ended in what came last."""
        _refused = False

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            waiting.expects_head(self, self.loop.time())

        def connection_lost(self, exc: Exception | None) -> None:
            """OpenRLHF's client opens a connection for every request, and asyncio's transports refer to themselves:
            hundreds of thousands of objects wait for a collection, which then takes a quarter of a second. So the
            circle is opened.
            """
            waiting.leaves(self)
            transport = self.transport
            super().connection_lost(exc)
            if hasattr(transport, "__dict__"):
                # After the transport has ended its own work, which it does when this returns.
                self.loop.call_soon(vars(transport).pop, "_read_ready_cb", None)

        def close(self) -> None:
            """Closes the connection without an answer."""
            self.transport.close()

        def data_received(self, data: bytes) -> None:
            self._head_ended = self._head_bytes is None
            if not self._head_ended:
                waiting.expects_head(self, self.loop.time())
            super().data_received(data)
            # What httptools holds back of a header that has no end yet is seen here alone.
            if not self._head_ended and self._head_bytes is not None:
                self._head_bytes += len(data)
                if self._head_bytes > MAX_HEAD_BYTES:
                    self._refuse_head()

        def on_message_begin(self) -> None:
            self._head_bytes = 0
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > MAX_HEAD_BYTES:
                self._refuse_head()
            if self._refused:
                return
            self._head_ended = True
            self._head_bytes = None
            waiting.leaves(self)
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            if not self._refused:
                super().on_body(body)

        def on_message_complete(self) -> None:
            if not self._refused:
                super().on_message_complete()
            self._head_bytes = 0

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self.timeout_keep_alive_task is not None:
                waiting.is_idle(self, self.loop.time())

        def _refuse_head(self) -> None:
            if self._refused:
                return
            self._refused = True
            status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            content = json.dumps({"detail": f"The head of the request has more than {MAX_HEAD_BYTES:,} bytes."})
            self.transport.write(
                f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n{content}".encode()
            )
            waiting.leaves(self)
            self.transport.close()

    return Protocol
