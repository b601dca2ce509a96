"""uvicorn's HTTP protocol, with limits on the head of a request and less work for the garbage collector.

uvicorn limits neither a head's size nor its time. A closed transport of asyncio refers to itself, so only the
collector can free it: without that cycle the service's peak memory after 10,000 connections was 0.85 times as high
(107 MiB and 126 MiB, 0.82 to 0.96 in 4 pairs of runs; measured at 0f4aeb7).
"""

import json
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from math_reward.http.event_loop.connections import WaitingConnections
from math_reward.http.ndjson import CONNECTION

MAX_HEAD_BYTES = 32_768
"""How long the request line and the headers may be, together. httptools has no limit, and the token is checked only
after they are complete."""


def protocol_of(waiting: WaitingConnections) -> type[HttpToolsProtocol]:
    """The protocol of a server that limits its idle connections with ``waiting``."""

    class Protocol(HttpToolsProtocol):
        _head_bytes: int | None = 0
        """How many bytes of the present head have come; None in a body."""
        _head_ended = False
        """Whether a head has ended in the bytes that came last."""
        _refused = False
        _lost = False
        below: Any = None
        """The TCP transport, where there is TLS between it and ``transport``."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > waiting.most_open:
                transport.abort()
                return
            waiting.expects_head(self, self.loop.time())

        def connection_lost(self, exc: Exception | None) -> None:
            """Breaks the reference cycle of the transport, since OpenRLHF's client opens a connection for each
            request.
            """
            self._lost = True
            waiting.leaves(self)
            (vars(self)["scope"] or {}).pop(CONNECTION, None)
            transport = self.transport
            super().connection_lost(exc)
            for one in (transport, self.below):
                if hasattr(one, "__dict__"):
                    # Later, because the transport still needs it when this returns.
                    self.loop.call_soon(vars(one).pop, "_read_ready_cb", None)
            self.below = None

        @property
        def unsent(self) -> int:
            """Bytes that were written and that the kernel has not taken, since the client does not read."""
            return 0 if self._lost else (self.below or self.transport).get_write_buffer_size()

        def close(self) -> None:
            """Closes the connection when what was written has been sent."""
            self.transport.close()

        def abort(self) -> None:
            """Closes the connection at once."""
            self.transport.abort()

        def data_received(self, data: bytes) -> None:
            self._head_ended = self._head_bytes is None
            if not self._head_ended:
                waiting.expects_head(self, self.loop.time())
            super().data_received(data)
            # httptools holds back a header until it is complete, so only this sees its bytes.
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
            vars(self)["scope"][CONNECTION] = self

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
            content = json.dumps(
                {"detail": f"The head of the request has more than {MAX_HEAD_BYTES:,} bytes: send less."}
            )
            self.transport.write(
                f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n{content}".encode()
            )
            waiting.leaves(self)
            self.transport.close()

    return Protocol
