"""The pool: which worker grades which item, and what happens to the items of a worker that died.

Grading an item may take for ever or crash, and no thread can be stopped in the middle of a large power. So items are
graded in worker processes, in two lanes:

* The fast lane has one worker per core. A worker gets chunks of items, at most eight of one request, the next chunk
  before it has finished the last, and each item may use HEAD_START_SECONDS of CPU time. An item that needs more costs
  its worker, and moves to the slow lane; the items behind it keep their turns. A fork server, which has the grader
  loaded, starts a new worker at once. After a slow item the next of its request has a worker for itself. So one slow
  item holds up the others for a head start at most, and many of one request do so in its turns only.
* The slow lane has as many workers. Each grades one item at a time, which may use its whole deadline.

In both lanes the requests take turns, item by item, and the items of a request that nobody waits for are dropped.

The deadline is CPU time, which a busy machine does not use up, so only the item itself can cause a ``timeout``. Any
other end of a worker may have another cause. Its item is tried again in the slow lane, and becomes an ``error``, which
is no judgement, after as many tries as TRIES says. Grades arrive one by one, so none is lost with its worker. A worker
that cannot be started costs no item: the pool tries again after longer and longer pauses, and refuses what waits after
NO_WORKER_SECONDS.
"""

import asyncio
import logging
import math
import signal
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from math_reward.grader import Grade, Verdict, grade
from math_reward.pool.batch import Batch, Entry
from math_reward.pool.item import Graded, GradeFunction, Item
from math_reward.pool.lane import Lane
from math_reward.pool.worker import FULL
from math_reward.pool.worker_process import UNKNOWN_ENDING, CannotStart, WorkerProcess

logger = logging.getLogger(__name__)

HEAD_START_SECONDS = 0.05
"""CPU time that an item may use in the fast lane; a hundred ordinary items together use less."""

CHUNK_ITEMS = 64
"""The most items that a worker of the fast lane gets at once; of one request fewer."""

LOW_WATER_ITEMS = 16
"""A worker of the fast lane gets its next chunk when it has no more items than this left."""

RESTARTS = ("head_start", "deadline", "crash", "unknown", "recycled", "could_not_start")
"""Why a worker is replaced."""

TRIES = {"crash": 2, "killed": 10}
"""After how many lost workers an item becomes an ``error``, by the way in which they ended.

``crash``: the worker ended by itself, most likely because of the item. ``killed``: somebody killed it, or nobody knows
why it ended. It may have been the kernel, because of the item's memory; but somebody who kills workers one after the
other must not turn a right answer into an error.
"""

FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 0.5
"""The pause between two tries to start a worker, which doubles with every failure in a row, and its limit."""

NO_WORKER_SECONDS = 15.0
"""How long a lane may have no worker, while starts fail, before it refuses what waits."""

EMPTY_SECONDS = 5.0
"""How long a lane may have no worker before the pool says so: one that was lost has a successor much sooner."""

COMPLAINT_SECONDS = 60.0
"""How often the log says that no worker can be started."""


class QueueFull(Exception):
    """Too many items are waiting."""


class PoolClosed(Exception):
    """The pool was closed before the items were graded."""


class Pool:
    """Worker processes that grade items, with a deadline for each. Lives in one event loop.

    Args:
        workers: processes in each lane.
        deadline: CPU seconds that one item may take.
        grader: what grades an item; importable by name in another process.
        max_queued: items that may wait; None for any number.
        head_start: CPU seconds that an item may use in the fast lane.
        at_once: whether the workers start on entry; else with the first items.

    An async context manager: workers start in the background, and have ended after exit. Every item gets a
    ``Graded``, however its worker ends; items that are not graded at exit raise PoolClosed.

    Attributes:
        restarts: how many workers were replaced, by reason: one of RESTARTS.
    """

    def __init__(
        self,
        workers: int,
        deadline: float,
        grader: GradeFunction = grade,
        max_queued: int | None = None,
        head_start: float = HEAD_START_SECONDS,
        at_once: bool = True,
    ) -> None:
        self.restarts: Counter[str] = Counter()
        self._at_once = at_once
        self._deadline = deadline
        self._grader = grader
        self._max_queued = max_queued
        self._workers_per_lane = workers
        self._fast = Lane("fast", min(head_start, deadline), CHUNK_ITEMS, LOW_WATER_ITEMS)
        self._slow = Lane("slow", deadline, chunk_items=1, low_water=0)
        self._tasks: set[asyncio.Task[None]] = set()
        self._workers: set[WorkerProcess] = set()
        self._batches: set[Batch] = set()
        self._closed = False
        self._started = False
        self._why_empty = "none has been started yet"
        self._complained_at = -math.inf

    async def __aenter__(self) -> "Pool":
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="math-reward-processes")
        if self._at_once:
            self._start()
        return self

    def _start(self) -> None:
        self._started = True
        for lane in (self._fast, self._slow):
            lane.empty_since = asyncio.get_running_loop().time()
            for _ in range(self._workers_per_lane):
                self._spawn(self._keep_filled(lane))

    async def abandon(self) -> None:
        """Kills the workers, and refuses what waits and what comes. Nothing waits until they have ended."""
        await self._stop()
        self._executor.shutdown(wait=False)

    async def _stop(self) -> None:
        self._closed = True
        for batch in self._batches:
            batch.refuse(PoolClosed("The pool was closed before the items were graded."))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for worker in self._workers:
            worker.kill()
            worker.close()

    async def __aexit__(self, *_: object) -> None:
        await self._stop()
        await asyncio.gather(*[worker.ending() for worker in self._workers])
        await asyncio.get_running_loop().run_in_executor(None, self._executor.shutdown)

    @property
    def queued(self) -> int:
        """Items that wait for a worker."""
        return len(self._fast.queue) + len(self._slow.queue)

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers that are alive."""
        return [worker.pid for lane in (self._fast, self._slow) for worker in lane.in_flight]

    @property
    def workers(self) -> dict[str, int]:
        """How many workers are alive in each lane, by its name."""
        return {lane.name: len(lane.in_flight) for lane in (self._fast, self._slow)}

    def problem(self) -> str | None:
        """A sentence that says which lane has had no worker for EMPTY_SECONDS; None where none has."""
        for lane in (self._fast, self._slow):
            seconds = asyncio.get_running_loop().time() - lane.empty_since
            if seconds > EMPTY_SECONDS:
                return f"The {lane.name} lane has had no grading process for {seconds:.0f} s: {self._why_empty}."
        return None

    async def grade(
        self,
        items: Iterable[Item],
        *,
        urgent: bool = False,
        each: Callable[[int, Graded], None] | None = None,
    ) -> list[Graded]:
        """Grades items, in order. If it is cancelled, its waiting items are dropped.

        Args:
            items: what to grade.
            urgent: whether they come before all that wait, and are taken even where too many do.
            each: called with the index and the grade of each item at once, in whatever order they come.

        Raises:
            QueueFull: too many items are waiting; none of these was graded.
            NoWorkers: no worker could be started for NO_WORKER_SECONDS.
            PoolClosed: the pool was closed meanwhile.
        """
        items = list(items)
        if self._closed:
            raise PoolClosed("The pool is closed.")
        if self._max_queued is not None and self.queued and self.queued + len(items) > self._max_queued and not urgent:
            raise QueueFull
        if not items:
            return []
        if not self._started:
            self._start()
        batch = Batch(len(items), each, urgent)
        self._fast.put([Entry(item, batch, index) for index, item in enumerate(items)])
        self._batches.add(batch)
        try:
            await batch.done
        finally:
            self._batches.discard(batch)
            if batch.left:
                self._fast.queue.drop(batch)
                self._slow.queue.drop(batch)
        return [result for result in batch.results if result is not None]

    # Workers

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _keep_filled(self, lane: Lane) -> None:
        """Keeps one of a lane's workers alive: starts it, its successor when it ends, and so on, whatever happens."""
        pause = FIRST_PAUSE_SECONDS
        failing_since: float | None = None
        while True:
            worker = WorkerProcess(lane.cpu_seconds, self._executor, lane.graded)
            self._workers.add(worker)
            try:
                await worker.start(self._grader)
            except Exception as error:  # Without its keeper a place in the lane would be empty for good.
                self._workers.discard(worker)
                now = asyncio.get_running_loop().time()
                failing_since = failing_since or now
                self._cannot_start(lane, error, now - failing_since)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
                continue
            pause, failing_since = FIRST_PAUSE_SECONDS, None
            self._spawn(self._attend(lane, worker))
            lane.join(worker)
            await asyncio.wait([worker.closed])

    def _cannot_start(self, lane: Lane, error: Exception, seconds: float) -> None:
        """Counts and says that no worker could be started, and refuses what waits where that has lasted too long."""
        known = isinstance(error, CannotStart)
        self._why_empty = str(error) if known else f"no process could be started ({error!r})"
        self.restarts["could_not_start"] += 1
        now = asyncio.get_running_loop().time()
        if now - self._complained_at >= COMPLAINT_SECONDS:
            self._complained_at = now
            logger.error("%s", self._why_empty, exc_info=not isinstance(error, CannotStart | OSError | EOFError))
        if seconds > NO_WORKER_SECONDS and not lane.in_flight:
            lane.give_up(f"No grading process can be started: {self._why_empty}.")

    async def _attend(self, lane: Lane, worker: WorkerProcess) -> None:
        """Waits for a worker's end, and decides what happens to the items that it leaves."""
        await asyncio.wait([worker.closed])
        entries = lane.leave(worker)
        culprit = entries.popleft() if entries else None
        if culprit is not None:
            culprit.batch.slow = True
        lane.put(entries, back=True)
        ending = await worker.ending()
        self._workers.discard(worker)
        by_signal = {
            signal.SIGPROF.name: "head_start" if lane is self._fast else "deadline",
            f"exit code {FULL}": "recycled",
            UNKNOWN_ENDING: "unknown",
        }
        reason = by_signal.get(ending, "crash")
        self.restarts[reason] += 1
        if culprit is not None:
            self._after(lane, reason, ending, culprit)

    def _after(self, lane: Lane, reason: str, ending: str, entry: Entry) -> None:
        """Decides what happens to the item that a worker was grading when it ended."""
        if reason == "head_start":
            self._slow.put([entry])
        elif reason == "deadline":
            detail = f"Grading did not end within {self._deadline:g} s of CPU time."
            logger.warning("A worker was killed. %s", detail)
            entry.finish(_ungraded(Verdict.TIMEOUT, entry.item, detail, self._deadline))
        elif reason == "recycled":  # between two items
            lane.put([entry], back=True)
        else:
            how = "killed" if ending in (signal.SIGKILL.name, UNKNOWN_ENDING) else "crash"
            logger.warning("An item has to be graded again: its worker died (%s).", ending)
            entry.lost[how] += 1
            if entry.lost[how] < TRIES[how]:
                self._slow.put([entry])
            else:
                detail = f"Grading failed {entry.lost[how]} times: its worker died ({ending})."
                entry.finish(_ungraded(Verdict.ERROR, entry.item, detail, 0.0))


def _ungraded(verdict: Verdict, item: Item, detail: str, seconds: float) -> Graded:
    return Graded.of(Grade(verdict, None, item.first_reference, detail), seconds)
