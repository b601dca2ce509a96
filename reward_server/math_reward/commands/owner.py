"""A service that ends with the process that started it, whose end closes a pipe."""

import os
import threading
from collections.abc import Callable


def at_end_of(pipe: int, call: Callable[[], object]) -> None:
    """Calls once, in a thread of its own, when a file descriptor has been read to its end."""

    def wait() -> None:
        # os.read: a thread that waits inside sys.stdin holds a lock that the interpreter needs to exit.
        while os.read(pipe, 4096):
            pass
        call()

    threading.Thread(target=wait, name="owner-watch", daemon=True).start()
