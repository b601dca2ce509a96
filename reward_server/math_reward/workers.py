"""Grading in processes that can be killed.

Grading may take for ever or crash, and no thread can be stopped in the middle of a big power. So every item is
graded in a worker process, and each worker has a supervising thread that hands it one item at a time:

* The deadline is an alarm which the worker sets on itself when it begins the item. Nothing in the worker handles the
  alarm: the kernel ends the process, also inside C code and also when the server has died. Time spent in the queue
  does not count.
* A worker that is still silent some time after that is killed by its supervisor.
* A worker that died is replaced at once, from a fork server that has the grader loaded already. An item whose worker
  crashed is tried once more, then it is an ``error``.
* Each worker has a pipe of its own and no lock is shared, so the end of one cannot stall another. A worker ends when
  its pipe closes, which happens in every way that the server can end.
"""

import asyncio
import itertools
import logging
import multiprocessing
import queue
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import TracebackType

from math_reward.grader import Grade, Verdict, grade

logger = logging.getLogger(__name__)

Grader = Callable[[str, str, "str | None"], Grade]
"""``(completion, reference, prompt) -> Grade``, importable by name in another process."""

GRACE_SECONDS = 3.0
"""How long after the deadline the supervisor kills a worker that its own alarm did not end."""

START_SECONDS = 120.0
"""How long a worker may take to start; the first one of a process imports SymPy."""

MEMORY_BYTES = 4 * 2**30
"""The address space of a worker: a power that is too big raises MemoryError there and wakes no OOM killer."""

TRIES = 2

# multiprocessing keeps one table of children for all threads and reaps them in passing; two threads that do so at
# the same time lose an exit code.
_process_table = threading.Lock()


@dataclass(frozen=True)
class Item:
    """What one call of the grader gets; see ``math_reward.grader.grade``."""

    completion: str
    reference: str
    prompt: str | None = None


@dataclass(frozen=True)
class Graded:
    """A grade and what it took."""

    grade: Grade
    seconds: float
    """Time in the worker, the queue not counted."""


class _DeadlinePassed(Exception):
    """The worker did not answer in time; it is dead now."""


class _WorkerDied(Exception):
    """The worker ended in the middle of an item, or could not start; the message says how."""


class _Worker:
    """One worker process, started when it is needed, and the pipe to it. Only ``kill`` may come from any thread."""

    def __init__(self, grader: Grader, deadline: float) -> None:
        self._grader = grader
        self._deadline = deadline
        self._context = multiprocessing.get_context("forkserver")
        # A new worker is then the fork of a warm process, and ready within milliseconds.
        self._context.set_forkserver_preload(["math_reward.preload"])
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def ensure_started(self) -> Connection:
        """The pipe to a living worker. Raises _WorkerDied where none can be started."""
        if self._process and self._connection:
            with _process_table:
                if self._process.is_alive():
                    return self._connection
            self.kill()
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=_work, args=(theirs, self._grader, self._deadline), name="math-reward-worker", daemon=True
        )
        try:
            with _process_table:
                process.start()
                self._process, self._connection = process, ours
        except (EOFError, OSError) as error:
            raise _WorkerDied(f"no process could be started ({error!r})") from None
        finally:
            theirs.close()
        try:
            if not ours.poll(START_SECONDS):
                raise _WorkerDied(f"a worker did not start within {START_SECONDS:g} s")
            ours.recv()
        except (EOFError, OSError):
            raise _WorkerDied(f"a worker could not start ({self._how_it_ended()})") from None
        return ours

    def grade(self, item: Item) -> Graded:
        """Raises _DeadlinePassed or _WorkerDied; the next call starts another worker then."""
        connection = self.ensure_started()
        try:
            connection.send(item)
            if connection.poll(self._deadline + GRACE_SECONDS):
                return connection.recv()
        except (EOFError, OSError):
            ending = self._how_it_ended()
            if ending == _ENDED_BY_ALARM:
                raise _DeadlinePassed from None
            raise _WorkerDied(f"its worker died ({ending})") from None
        self.kill()
        raise _DeadlinePassed

    def kill(self) -> None:
        """Kills the process, if there is one, and waits for its end."""
        with _process_table:
            if self._process:
                self._process.kill()
                self._process.join()

    def _how_it_ended(self) -> str:
        assert self._process is not None
        with _process_table:
            self._process.kill()  # It has closed its pipe and is about to end, or stays for no good reason.
            self._process.join()
            code = self._process.exitcode or 0
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"


_ENDED_BY_ALARM = signal.SIGALRM.name


def _work(connection: Connection, grader: Grader, deadline: float) -> None:
    """The worker process: grades what comes through the pipe until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; the server decides.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    if sys.platform == "linux":  # macOS knows the limit and refuses to set it.
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        if hard == resource.RLIM_INFINITY or hard > MEMORY_BYTES:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, hard))
    try:
        connection.send("ready")
        while True:
            item: Item = connection.recv()
            start = time.perf_counter()
            signal.setitimer(signal.ITIMER_REAL, deadline)
            result = grader(item.completion, item.reference, item.prompt)
            signal.setitimer(signal.ITIMER_REAL, 0)
            connection.send(Graded(result, time.perf_counter() - start))
    except (EOFError, OSError):
        return  # The server has gone or has closed the pool.


class WorkerPool:
    """Worker processes that grade items, with a deadline for each.

    Args:
        workers: how many processes.
        deadline: seconds that one item may take.
        grader: what grades an item; importable by name in another process.

    A context manager: workers start on entry, in the background, and are dead after exit. Every item that was
    submitted gets a ``Graded``, in whatever way its worker ends; only those still waiting at exit are cancelled.
    """

    def __init__(self, workers: int, deadline: float, grader: Grader = grade) -> None:
        self._deadline = deadline
        self._queue: queue.PriorityQueue[tuple[int, int, tuple[Item, Future[Graded]] | None]] = queue.PriorityQueue()
        self._order = itertools.count()
        self._closing = False
        self._workers = [_Worker(grader, deadline) for _ in range(workers)]
        self._threads = [
            threading.Thread(target=self._supervise, args=(worker,), name="math-reward-supervisor", daemon=True)
            for worker in self._workers
        ]

    def __enter__(self) -> "WorkerPool":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing = True
        for _ in self._threads:
            self._queue.put((-1, next(self._order), None))
        for worker, thread in zip(self._workers, self._threads, strict=True):
            while thread.is_alive():
                worker.kill()  # Again and again: its supervisor may be about to start another.
                thread.join(timeout=0.05)
        while not self._queue.empty():
            _, _, job = self._queue.get_nowait()
            if job is not None:
                job[1].cancel()

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers that have started."""
        return [worker.pid for worker in self._workers if worker.pid is not None]

    def submit(self, item: Item, *, first: bool = False) -> "Future[Graded]":
        """Queues an item; with ``first`` before those that wait already."""
        future: Future[Graded] = Future()
        self._queue.put((0 if first else 1, next(self._order), (item, future)))
        return future

    async def grade(self, items: Iterable[Item], *, first: bool = False) -> list[Graded]:
        """Grades items, in order, without blocking the event loop."""
        futures = [asyncio.wrap_future(self.submit(item, first=first)) for item in items]
        return await asyncio.gather(*futures)

    def _supervise(self, worker: _Worker) -> None:
        """A supervising thread: keeps its worker alive and gives it one item after the other."""
        self._start_ahead(worker)
        while True:
            _, _, job = self._queue.get()
            if job is None or self._closing:
                break
            item, future = job
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(self._grade(worker, item))
            except Exception as error:  # A supervisor that ends would leave its items waiting for ever.
                future.set_exception(error)
            self._start_ahead(worker)
        worker.kill()
        if job is not None:
            job[1].cancel()

    def _start_ahead(self, worker: _Worker) -> None:
        try:
            worker.ensure_started()
        except _WorkerDied as error:
            if not self._closing:
                logger.error("%s", error)

    def _grade(self, worker: _Worker, item: Item) -> Graded:
        start = time.perf_counter()
        verdict, detail = Verdict.ERROR, ""
        for _ in range(TRIES):
            if self._closing:
                break
            try:
                return worker.grade(item)
            except _DeadlinePassed:
                verdict, detail = Verdict.TIMEOUT, f"Grading did not end within {self._deadline:g} s."
                logger.warning("A worker was killed: %s", detail)
                break
            except _WorkerDied as error:
                detail = f"Grading failed {TRIES} times: {error}."
                logger.warning("A worker was lost: %s", error)
        return Graded(Grade(verdict, None, item.reference, detail), time.perf_counter() - start)
