"""The port on which the ranks of DeepSpeed meet.

OpenRLHF asks the kernel for a free port when an actor is created, and listens on it only when every actor is up. In
between, the kernel may give it to an outgoing connection of any process: the run then ends with EADDRINUSE."""

import contextlib
import random
import socket
from pathlib import Path

__all__ = ["LowPort"]

FIRST = 20_000
"""Above those that `ray start` has by default: 6379, 8265, 10001 for clients, and 10002 to 19999 for its workers."""
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
"""The ports of outgoing connections, as Linux says."""
ATTEMPTS = 100


class LowPort:
    """Mixin of OpenRLHF's training actors."""

    @staticmethod
    def _get_free_port() -> int:
        """As OpenRLHF's, but a port that no outgoing connection gets, where there is one."""
        try:
            end = int(EPHEMERAL.read_text().split()[0])
        except (OSError, ValueError, IndexError):
            end = 32_768
        for port in random.Random().choices(range(FIRST, end), k=ATTEMPTS) if end > FIRST else ():
            with socket.socket() as candidate, contextlib.suppress(OSError):
                candidate.bind(("", port))
                return port
        with socket.socket() as any_free:
            any_free.bind(("", 0))
            return int(any_free.getsockname()[1])
