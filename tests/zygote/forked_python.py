"""Runs a Python command line in a fork of the process that listens on a socket: python forked_python.py SOCKET ARGS...

``zygote.py`` is the other side. This side has to start in milliseconds, so it imports only a part of the standard
library and is run as a file. It passes signals on to the fork and ends with the fork's exit code. If nobody listens on
the socket, it becomes an ordinary Python.
"""

import json
import os
import signal
import socket
import struct
import sys


def main(path: str, arguments: list[str]) -> int:
    """Ask for the fork and wait for its end.

    Returns:
        The fork's exit code, or 128 + signal, as in a shell, if a signal ended it.
    """
    numbers = sorted(int(name) for name in os.listdir("/proc/self/fd"))
    numbers = [number for number in numbers if _is_open(number)]  # listdir's own descriptor is closed by now
    request = {"arguments": arguments, "environment": dict(os.environ), "folder": os.getcwd(), "numbers": numbers}
    body = json.dumps(request).encode()
    try:
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        server.connect(path)
    except OSError:
        os.execv(sys.executable, [sys.executable, *arguments])
    socket.send_fds(server, [struct.pack("!I", len(body))], numbers)
    server.sendall(body)
    answers = server.makefile()
    pid = int(answers.readline())
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, lambda number, _: os.kill(pid, number))
    status = answers.readline()
    return int(status) if status else 128 + signal.SIGKILL


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
