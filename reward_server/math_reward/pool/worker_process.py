"""The server's side of a worker process: starts it, sends it items, receives grades, kills it, learns how it ended."""

import asyncio
import contextlib
import functools
import multiprocessing
import os
import pickle
import signal
import socket
from collections.abc import Callable
from concurrent.futures import Executor
from multiprocessing.process import BaseProcess
from typing import Any, cast

from math_reward.pool.item import Graded, GradeFunction, Item
from math_reward.pool.without_main import without_main
from math_reward.pool.worker import LENGTH, READY, frame, work

GRACE_SECONDS = 0.25
"""How long a worker that has closed its socket may take to end by itself."""

GATHER_SECONDS = 0.001
"""How long the grades of a worker that has much to do are left in its socket: each look at one costs as much as a
grade."""

START_SECONDS = 120.0
"""How long a worker may take to start; the first one of a process imports SymPy."""

UNKNOWN_ENDING = "nobody knows how"
"""How a worker ended whose fork server has died: only that process, its parent, learns the exit code."""

_FORK_SERVER_DIED = 255
"""The exit code that multiprocessing returns for such a process."""


class CannotStart(Exception):
    """A worker process could not be started; the message says why."""


class WorkerProcess(asyncio.Protocol):
    """One worker process and the socket to it; ``start`` makes both. Lives in one event loop.

    Attributes:
        closed: a future that is done when the process is about to end and sends nothing more.
    """

    def __init__(
        self, cpu_seconds: float, executor: Executor, receive: "Callable[[WorkerProcess, list[Graded]], bool]"
    ) -> None:
        self._cpu_seconds = cpu_seconds
        self._executor = executor
        self._receive = receive
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._process: BaseProcess | None = None
        self._transport: asyncio.Transport | None = None
        self.closed: asyncio.Future[None] = self._loop.create_future()

    @property
    def pid(self) -> int:
        """The process id; 0 before it has one."""
        return (self._process.pid if self._process else None) or 0

    async def start(self, grader: GradeFunction) -> None:
        """Starts the process; returns when it can grade.

        Raises:
            CannotStart: it ended, or did not become ready.
            OSError, RuntimeError: the system gave no descriptor, process or thread.
        """
        ours, theirs = socket.socketpair()
        try:
            context = multiprocessing.get_context("forkserver")
            # A new worker is a fork of this warm process, and ready within milliseconds.
            context.set_forkserver_preload(["math_reward.pool.preload"])
            self._process = context.Process(
                target=work, args=(theirs, grader, self._cpu_seconds), name="math-reward-worker", daemon=True
            )
            await self._in_executor(functools.partial(_start, self._process, theirs))
            ours.setblocking(False)
            await self._loop.create_unix_connection(lambda: self, sock=ours)
        except BaseException:
            ours.close()  # If the process starts all the same, it ends at once.
            raise
        await asyncio.wait([self._ready, self.closed], timeout=START_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if self._ready.done():
            return
        if not self.closed.done():
            self.kill()
            raise CannotStart(f"a worker did not start within {START_SECONDS:g} s")
        raise CannotStart(f"a worker could not start ({await self.ending()})")

    def send(self, items: list[Item]) -> None:
        """Gives the worker more items, which it grades after those that it has."""
        assert self._transport is not None
        self._transport.write(frame([tuple(item) for item in items]))

    def close(self) -> None:
        """Lets the process end by itself."""
        if self._transport:
            self._transport.close()

    def kill(self) -> None:
        """Kills the process; ``closed`` follows."""
        if self.pid and not self.closed.done():
            # Process.kill() does nothing once the fork server has died.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    async def ending(self) -> str:
        """Waits for the end of a process that has closed its socket: "SIGPROF", "exit code 1"."""
        try:
            code = await self._in_executor(self._reap)
        except (OSError, RuntimeError):  # The system gives no descriptor or thread; the items must not wait for it.
            code = _FORK_SERVER_DIED
        if code == _FORK_SERVER_DIED:
            return UNKNOWN_ENDING
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not a subclass of asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        messages: list[tuple[Any, ...]] = []
        begin = 0
        while len(self._buffer) >= begin + LENGTH.size:
            (length,) = LENGTH.unpack_from(self._buffer, begin)
            end = begin + LENGTH.size + length
            if len(self._buffer) < end:
                break
            messages.append(pickle.loads(self._buffer[begin + LENGTH.size : end]))
            begin = end
        del self._buffer[:begin]
        if messages and messages[0] == READY:
            self._ready.set_result(None)
        elif messages:
            busy = self._receive(self, list(map(Graded._make, messages)))
            if busy and self._transport is not None and not self._transport.is_closing():
                self._transport.pause_reading()
                self._loop.call_later(GATHER_SECONDS, self._read_on)

    def _read_on(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.closed.done():  # It is cancelled if the event loop ends first.
            self.closed.set_result(None)

    def _reap(self) -> int:
        if not self.pid:
            return 0
        assert self._process is not None
        self._process.join(GRACE_SECONDS)  # It has closed its socket, so it should end by itself.
        self._process.kill()
        self._process.join()
        return self._process.exitcode or 0

    async def _in_executor(self, call: Callable[[], Any]) -> Any:
        # Only one thread may use multiprocessing's table of children: two that reap at once lose an exit code.
        return await self._loop.run_in_executor(self._executor, call)


def _start(process: BaseProcess, theirs: socket.socket) -> None:
    with theirs, without_main():
        process.start()
