"""uvicorn's HTTP protocol, but a connection that is closed leaves nothing for the garbage collector."""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class Protocol(HttpToolsProtocol):
    """OpenRLHF's client opens a connection for every request, and asyncio's transports refer to themselves: hundreds
    of thousands of objects wait for a collection, which then takes a quarter of a second. So the circle is opened.
    """

    def connection_lost(self, exc: Exception | None) -> None:
        transport = self.transport
        super().connection_lost(exc)
        if hasattr(transport, "__dict__"):
            # After the transport has ended its own work, which it does when this returns.
            self.loop.call_soon(vars(transport).pop, "_read_ready_cb", None)
