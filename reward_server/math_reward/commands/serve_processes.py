"""Several processes that answer HTTP: this one starts them, starts them again, and ends them.

They accept connections from one listening socket, so an idle one takes the next, and each has its part of the grading
processes. They count for Prometheus in files of one folder, so any of them answers for all, the ended ones included.

uvicorn's own supervisor does not do this: its processes all have the same settings, it ends all when one cannot start,
and answers SIGHUP by new processes. Here each has its own number of grading processes, waits longer
after each failed start, and reads tokens and certificates again while it serves.
"""

import contextlib
import logging
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from prometheus_client.multiprocess import mark_process_dead

from math_reward.commands.owner import at_end_of
from math_reward.http.metrics import METRICS_FOLDER
from math_reward.pool.pool import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS
from math_reward.pool.worker_process import ending_of
from math_reward.settings import Settings, SettingsError

logger = logging.getLogger(__name__)


class _Process:
    """One place among the processes, and the process that has it now."""

    def __init__(self, settings: Settings, listener: socket.socket) -> None:
        self.settings = settings
        self._listener = listener
        self.pause = 0.0
        self.start()

    def start(self) -> None:
        self.is_outdated = False
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.has_been_ready = False
        self.start_again_at: float | None = None
        # Not a daemon, which could start no grading processes.
        self.process: SpawnProcess = context.Process(
            target=_serve, args=(self.settings, self._listener, theirs), name="math-reward-http"
        )
        # Ctrl-C reaches all processes of a terminal, and a second signal would end them at once: they ignore it, also
        # before they can leave the terminal's session, and get a SIGTERM from here. SIGHUP would end them too, until
        # they have a handler for it.
        before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGHUP)}
        try:
            self.process.start()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        theirs.close()

    def read_again(self) -> None:
        """Lets it read its certificate and its tokens again, once it can."""
        self.is_outdated = not self.has_been_ready
        if self.has_been_ready and self.process.pid and self.process.is_alive():
            os.kill(self.process.pid, signal.SIGHUP)


class Processes:
    """Serves with `settings.http_processes` processes.

    Args:
        settings: the service's.
        listener: the socket that all serve on.
        ready: called once, when all of them listen.
    """

    def __init__(self, settings: Settings, listener: socket.socket, ready: Callable[[], None]) -> None:
        self._settings = settings
        self._listener = listener
        self._ready = ready
        self._stopping = False
        self._processes: list[_Process] = []

    def serve_until_told(self, stdin: int | None = None) -> bool:
        """Serves; returns whether every process could start.

        Args:
            stdin: a file descriptor; the service stops when it closes, as it does with its owner's end.
        """
        wake, woken = socket.socketpair()
        woken.setblocking(False)
        signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stop())
        if self._settings.reads_files:  # Else SIGHUP ends this command and so all, as it ends any command.
            signal.signal(signal.SIGHUP, lambda *_: self._read_again())
        if stdin is not None:
            # A signal, since the main thread waits and handles it.
            at_end_of(stdin, lambda: os.kill(os.getpid(), signal.SIGTERM))
        with tempfile.TemporaryDirectory(prefix="math-reward-metrics-") as folder:
            os.environ[METRICS_FOLDER] = folder
            for share in shares(self._settings):
                self._processes.append(_Process(share, self._listener))
            return self._watch(wake)

    def _watch(self, wake: socket.socket) -> bool:
        """Attends to the processes until all have ended; returns whether every one could start."""
        could_start, said = True, False
        alive = list(self._processes)
        while alive:
            now = time.monotonic()
            for one in [one for one in alive if one.start_again_at is not None]:
                if self._stopping:
                    alive.remove(one)
                elif one.start_again_at <= now:  # type: ignore[operator]
                    one.start()
            running = [one for one in alive if one.start_again_at is None]
            due = [one.start_again_at for one in alive if one.start_again_at is not None]
            pipes = [one.pipe for one in running if not one.has_been_ready]
            sentinels = [one.process.sentinel for one in running]
            wait([wake, *pipes, *sentinels], max(0.0, min(due) - now) if due else None)
            _drain(wake)
            for one in running:
                if not one.has_been_ready and one.pipe.poll():
                    one.has_been_ready = _received(one.pipe)
                    one.pause = 0.0 if one.has_been_ready else one.pause
                    if one.has_been_ready and one.is_outdated:
                        one.read_again()
                if one.process.exitcode is None:
                    continue
                self._forget(one)
                if self._stopping:
                    alive.remove(one)
                elif not said and not one.has_been_ready:
                    could_start = False
                    alive.remove(one)
                    self._stop()
                else:
                    one.pause = min(max(FIRST_PAUSE_SECONDS, 2 * one.pause), LONGEST_PAUSE_SECONDS)
                    one.start_again_at = time.monotonic() + one.pause
                    ending = ending_of(one.process.exitcode)
                    logger.error("A process that answers HTTP ended (%s); another takes its place.", ending)
            if not said and all(one.has_been_ready for one in self._processes):
                said = True
                self._ready()
        return could_start

    def _stop(self) -> None:
        """Asks all to drain and, when called again, to end at once."""
        self._stopping = True
        for one in self._processes:
            if one.process.is_alive():
                one.process.terminate()

    def _read_again(self) -> None:
        """Handles SIGHUP: all read their files again, and those that are started later begin with the new tokens."""
        with contextlib.suppress(SettingsError):  # Each process says why, and goes on with the tokens it has.
            token = self._settings.with_tokens_now().token
            for one in self._processes:
                one.settings = one.settings.model_copy(update={"token": token})
        for one in self._processes:
            one.read_again()

    def _forget(self, one: _Process) -> None:
        """Its queue and its workers are gone; what it has counted stays."""
        one.process.join()
        one.pipe.close()
        mark_process_dead(one.process.pid)


def shares(settings: Settings) -> list[Settings]:
    """The settings of each process: all grading processes, dealt out as evenly as can be."""
    each, more = divmod(settings.workers, settings.http_processes)
    return [settings.model_copy(update={"workers": each + (place < more)}) for place in range(settings.http_processes)]


def _serve(settings: Settings, listener: socket.socket, pipe: Connection) -> None:
    """The life of one process. It ends when its parent does, since the pipe closes then."""
    os.setsid()
    from math_reward.commands.server import Server

    def ready() -> None:
        pipe.send_bytes(b"ready")

    if not Server(settings, listener, ready).serve_until_told(pipe.fileno()):
        sys.exit(1)


def _received(pipe: Connection) -> bool:
    try:
        return pipe.recv_bytes() == b"ready"
    except EOFError:  # It ends; its sentinel says how.
        return False


def _drain(wake: socket.socket) -> None:
    wake.setblocking(False)
    try:
        while wake.recv(4096):
            pass
    except BlockingIOError:
        return
