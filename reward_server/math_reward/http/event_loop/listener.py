"""The listening socket, which one process or several serve on."""

import socket

BACKLOG = 4096
"""Connections that may wait to be accepted; the kernel may lower it."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket.

    Raises:
        OSError: the address cannot be listened on; ``socket.gaierror`` where it is no address.
    """
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    listener = socket.create_server(address[:2], family=family, backlog=BACKLOG)
    # asyncio switches Nagle's algorithm off only for sockets whose ``proto`` is TCP. A socket that is made from a file
    # descriptor finds that out, and so do the connections that it accepts. With Nagle's algorithm the body of an
    # answer waits 40 ms until the client has acknowledged the head.
    return socket.socket(fileno=listener.detach())


def url_of(listener: socket.socket, *, tls: bool) -> str:
    host, port = listener.getsockname()[:2]
    return f"{'https' if tls else 'http'}://" + (f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
