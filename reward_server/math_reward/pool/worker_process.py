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

from math_reward.pool.item import GradeFunction, Item
from math_reward.pool.without_main import without_main
from math_reward.pool.worker import LENGTH, Limits, Ready, frame, work

GRACE_SECONDS = 0.25
"""How long after the worker's own alarm the server kills a worker that is still there."""

SECOND_LOOK_SECONDS = 0.05
"""A worker that seems late is checked again after this: its answer may be waiting to be read."""

START_SECONDS = 120.0
"""How long a worker may take to start; the first one of a process imports SymPy."""


UNKNOWN_ENDING = "unknown, since its fork server had died before it"
"""How a worker ended if its fork server has died: only this process, its parent, learns the exit code."""

_FORK_SERVER_DIED = 255
"""The exit code that multiprocessing returns for such a process."""


def ending_of(code: int) -> str:
    """How a process ended, in words, from the exit code that multiprocessing gives it."""
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


class CannotStart(Exception):
    """A worker process could not be started; the message says why."""


class WorkerProcess(asyncio.Protocol):
    """One worker process and the socket to it; ``start`` makes both. Lives in one event loop.

    Attributes:
        closed: a future that is done when the process is about to end and sends nothing more.
        ended: a future that is done once the process has ended, with the way: "SIGALRM", "exit code 1".
        late: True if the server killed the process because its own alarm had not ended it.
    """

    def __init__(self, limits: Limits, executor: Executor, receive: "Callable[[WorkerProcess, list[Any]], None]"):
        self._limits = limits
        self._executor = executor
        self._receive = receive
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._process: BaseProcess | None = None
        self._transport: asyncio.WriteTransport | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._busy_since: float | None = None
        self._waits_for_the_end: asyncio.Task[None] | None = None
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self.ended: asyncio.Future[str] = self._loop.create_future()
        self.late = False

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid or 0

    @property
    def seconds_on_item(self) -> float:
        """How long it has been grading its present item; 0 if it has none."""
        return 0.0 if self._busy_since is None else self._loop.time() - self._busy_since

    async def start(self, grader: GradeFunction) -> None:
        """Starts the process; returns when it can grade. Raises CannotStart."""
        ours, theirs = socket.socketpair()
        context = multiprocessing.get_context("forkserver")
        # A new worker is a fork of this warm process, and ready within milliseconds.
        context.set_forkserver_preload(["math_reward.pool.preload"])
        self._process = context.Process(
            target=work, args=(theirs, grader, self._limits), name="math-reward-worker", daemon=True
        )
        try:
            await self._in_executor(functools.partial(_start, self._process, theirs))
        except (EOFError, OSError) as error:
            ours.close()
            raise CannotStart(f"no process could be started ({error!r})") from None
        except asyncio.CancelledError:
            ours.close()  # If the process starts all the same, it ends at once.
            self.ended.set_result("not started")
            raise
        ours.setblocking(False)
        await self._loop.create_unix_connection(lambda: self, sock=ours)
        self._waits_for_the_end = self._loop.create_task(self._wait_for_the_end())
        either: list[asyncio.Future[Any]] = [self._ready, self.ended]
        await asyncio.wait(either, timeout=START_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if self.ended.done():
            raise CannotStart(f"a worker could not start ({self.ended.result()})")
        if not self._ready.done():
            self.kill()
            raise CannotStart(f"a worker did not start within {START_SECONDS:g} s")

    def send(self, items: list[Item]) -> None:
        """Gives the worker more items, which it grades after those that it has."""
        assert self._transport is not None
        self._transport.write(frame(items))
        if self._busy_since is None:
            self._busy_since = self._loop.time()
            self._watch = self._loop.call_later(self._limits.clock_seconds + GRACE_SECONDS, self._kill_if_late, False)

    def idle(self) -> None:
        """Stops the deadline; call it when every item that was sent is graded."""
        self._busy_since = None
        if self._watch:
            self._watch.cancel()

    def close(self) -> None:
        """Lets the process end by itself."""
        if self._transport:
            self._transport.close()

    def kill(self) -> None:
        """Kills the process; ``ended`` follows."""
        if self._process and self._process.pid and not self.closed.done():
            # Process.kill() does nothing once the fork server has died.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)

    async def abandon(self) -> None:
        """Kills the process; nothing waits for its end, and ``ended`` does not follow."""
        self.kill()
        self.close()
        if self._waits_for_the_end is not None:
            self._waits_for_the_end.cancel()
            await asyncio.gather(self._waits_for_the_end, return_exceptions=True)

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's transports are not a subclass of it.

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        messages: list[Any] = []
        begin = 0
        while len(self._buffer) >= begin + LENGTH.size:
            (length,) = LENGTH.unpack_from(self._buffer, begin)
            end = begin + LENGTH.size + length
            if len(self._buffer) < end:
                break
            messages.append(pickle.loads(self._buffer[begin + LENGTH.size : end]))
            begin = end
        del self._buffer[:begin]
        if not messages:
            return
        if self._busy_since is not None:
            self._busy_since = self._loop.time()  # It has begun the next item.
        if isinstance(messages[0], Ready):
            self._ready.set_result(None)
            return
        self._receive(self, messages)

    def connection_lost(self, error: Exception | None) -> None:
        if self._watch:
            self._watch.cancel()
        if not self.closed.done():  # It is cancelled if the event loop ends first.
            self.closed.set_result(None)

    # Its end

    def _kill_if_late(self, looked_before: bool) -> None:
        if self._busy_since is None:
            return
        left = self._busy_since + self._limits.clock_seconds + GRACE_SECONDS - self._loop.time()
        if left > 0:
            self._watch = self._loop.call_later(left, self._kill_if_late, False)
        elif not looked_before:
            self._watch = self._loop.call_later(SECOND_LOOK_SECONDS, self._kill_if_late, True)
        else:
            self.late = True
            self.kill()

    async def _wait_for_the_end(self) -> None:
        assert self._process is not None
        await self.closed
        code = await self._in_executor(self._reap)
        if code == _FORK_SERVER_DIED:
            self.ended.set_result(UNKNOWN_ENDING)
        else:
            self.ended.set_result(ending_of(code))

    def _reap(self) -> int:
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
