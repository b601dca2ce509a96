"""TLS: a context that takes a renewed certificate, and the handshake of each connection.

uvicorn's own TLS is not used, because asyncio tells nobody of a connection before its handshake is complete: clients
that begin one and say nothing would have a minute each, and nobody would count them. Here they wait among the others,
see ``WaitingConnections``.
"""

import asyncio
import ssl
import sys
from pathlib import Path
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from math_reward.http.event_loop.connections import HEAD_SECONDS, WaitingConnections
from math_reward.settings import Settings

SHUTDOWN_SECONDS = 5.0
"""How long a connection that is being closed waits for the client's part of TLS's goodbye."""


class CertificateRefused(ValueError):
    """A certificate or its key cannot be used; the message is a sentence that says why."""


class Certificate:
    """The service's certificate and its key, which may be renewed.

    Args:
        certfile: a PEM file with the certificate, and those between it and its authority.
        keyfile: a PEM file with its key; None if ``certfile`` has the key too.

    Attributes:
        context: for the handshakes, TLS 1.2 or later.

    Raises:
        CertificateRefused: the files cannot be read, or do not belong together.
    """

    def __init__(self, certfile: Path, keyfile: Path | None) -> None:
        self._certfile = certfile
        self._keyfile = keyfile
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.set_alpn_protocols(["http/1.1"])
        self.read_again()

    def read_again(self) -> None:
        """Reads the files; the next handshakes have their content. Open connections stay as they are.

        Raises:
            CertificateRefused: the files cannot be used, and the certificate before stays.
        """
        # First into another context: a key that does not fit is found only when the certificate has been replaced.
        for context in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), self.context):
            self._load_into(context)

    def _load_into(self, context: ssl.SSLContext) -> None:
        for path in (self._certfile, self._keyfile or self._certfile):
            try:
                path.read_bytes()
            except OSError as error:
                raise CertificateRefused(f"{path} cannot be read: {error.strerror}.") from None
        key = self._keyfile or self._certfile
        try:
            # With an empty password an encrypted key is refused, instead of a question on the terminal.
            context.load_cert_chain(self._certfile, self._keyfile, password=lambda: "")
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                why = f"the key of {key} is not that of the certificate of {self._certfile}."
            else:
                why = f"{self._certfile} has to hold a certificate and {key} its key without a password, both as PEM."
            raise CertificateRefused(f"TLS cannot be used: {why}") from None
        except OSError as error:
            raise CertificateRefused(f"{self._certfile} or {key} cannot be read: {error.strerror}.") from None


def certificate_of(settings: Settings) -> Certificate | None:
    """The certificate that the settings name; None without TLS.

    Raises:
        CertificateRefused: its files cannot be used.
    """
    return None if settings.certfile is None else Certificate(settings.certfile, settings.keyfile)


def with_tls(
    protocol: type[HttpToolsProtocol], certificate: Certificate, waiting: WaitingConnections
) -> type[asyncio.Protocol]:
    """A protocol that shakes hands, and then is ``protocol``. Until then its connection is one of ``waiting``."""

    class Handshake(asyncio.Protocol):
        def __init__(self, **given: Any) -> None:
            self._given = given
            self._early = b""

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            loop = asyncio.get_running_loop()
            self._transport = cast(asyncio.Transport, transport)
            waiting.expects_head(self, loop.time())
            # It takes over the transport in the next round of the event loop, before anything is read.
            self._task = loop.create_task(self._shake_hands(loop))

        def data_received(self, data: bytes) -> None:
            self._early += data  # Some versions of Python hand over the first bytes before start_tls returns.

        def close(self) -> None:
            """Closes the connection at once: a handshake has no good end."""
            self._transport.abort()

        async def _shake_hands(self, loop: asyncio.AbstractEventLoop) -> None:
            limits: dict[str, Any] = {"ssl_handshake_timeout": HEAD_SECONDS}
            if sys.version_info >= (3, 11):
                limits["ssl_shutdown_timeout"] = SHUTDOWN_SECONDS
            try:
                secure = await loop.start_tls(self._transport, self, certificate.context, server_side=True, **limits)
            except (OSError, asyncio.TimeoutError):
                return  # The client has gone, speaks no TLS or does not trust the certificate.
            finally:
                waiting.leaves(self)
            if secure is None:
                return  # It was closed while the handshake ended.
            inner = protocol(**self._given)
            vars(inner)["below"] = self._transport
            secure.set_protocol(inner)
            inner.connection_made(secure)
            if self._early:
                inner.data_received(self._early)

    return Handshake
