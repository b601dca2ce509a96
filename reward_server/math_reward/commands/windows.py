"""Sends the rows of a file to pools of workers, a few windows of rows at once, and yields their grades in order."""

import queue
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future

from math_reward.commands.progress import Progress
from math_reward.commands.row_file import RowFile
from math_reward.commands.rows import Fault, Row
from math_reward.pool.item import Graded
from math_reward.pool.worker_pool import WorkerPool

WINDOW_ROWS = 512
"""Rows that go to the workers together."""

WINDOWS = 3
"""Windows in memory at once, besides the one that is being read: enough to keep every worker busy meanwhile."""

_Window = tuple[list[Row | Fault], list[list["Future[Graded]"]]]
"""Rows, and for each pool the futures of those that are a ``Row``."""


class _Stopped(Exception):
    """Nobody wants the rest."""


def graded_in_order(
    file: RowFile, *pools: WorkerPool, before_wait: Callable[[], None] = lambda: None
) -> Generator[tuple[Row | Fault, tuple[Graded, ...]], None, None]:
    """Each line of a file, as soon as it and all before it are graded, with the grade of each pool; a ``Fault`` has
    none. Close the iterator before the pools if it is not read to its end. It shows its progress.

    The file is read in a thread of its own, as far ahead as WINDOWS allows. Where standard input pauses, the rows that
    have come are graded without waiting for a whole window.

    Args:
        before_wait: called before the caller has to wait for a grade.

    Raises:
        FileRefused: what the file's iteration raises, after the lines before it.
        NoWorkers, PoolClosed: what the pools raise.
    """
    # One window is with the caller, and one waits to be put into the queue.
    read: queue.Queue[_Window | BaseException | None] = queue.Queue(WINDOWS - 2)
    stopped = threading.Event()
    lock = threading.Lock()  # Nothing is sent to a pool after it was closed.
    gathered: list[Row | Fault] = []

    def send() -> None:
        if not gathered:
            return
        window, gathered[:] = gathered.copy(), []
        items = [row.item for row in window if isinstance(row, Row)]
        with lock:
            if stopped.is_set():
                raise _Stopped
            futures = [pool.submit_each(items) for pool in pools]
        read.put((window, futures))

    def read_ahead() -> None:
        end: BaseException | None = None
        try:
            file.when_idle = send
            try:
                for row in file:
                    gathered.append(row)
                    if len(gathered) >= WINDOW_ROWS:
                        send()
            finally:
                send()
        except BaseException as error:
            end = error
        read.put(end)

    threading.Thread(target=read_ahead, name="math-reward-rows", daemon=True).start()
    try:
        with Progress(file) as progress:
            while True:
                if read.empty():
                    before_wait()
                window = read.get()
                if window is None:
                    return
                if isinstance(window, BaseException):
                    raise window
                rows, futures = window
                graded = zip(*futures, strict=True)
                for row in rows:
                    ones = () if isinstance(row, Fault) else next(graded)
                    if not all(one.done() for one in ones):
                        before_wait()
                    yield row, tuple(one.result() for one in ones)
                    progress.row()
    finally:
        with lock:
            stopped.set()
