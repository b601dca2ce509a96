"""A lane of the pool: a queue of items, and the workers that share it."""

import asyncio
import math
from collections import Counter, deque
from collections.abc import Sequence

from math_reward.pool.batch import Entry
from math_reward.pool.fair_queue import FairQueue
from math_reward.pool.item import Graded
from math_reward.pool.worker_process import WorkerProcess

AT_ONCE = 8
"""How many items of one batch a worker may hold: what waits behind them waits for no more."""

SLOW_SECONDS = 0.005
"""An item that takes longer is slow: what waits behind it in the same worker would notice."""


class NoWorkers(Exception):
    """No worker can be started at the moment; the message is a sentence that says why."""


class Lane:
    """A queue and the workers that take from it.

    Args:
        name: "fast" or "slow".
        cpu_seconds: that each item may use in its workers.
        chunk_items: the most items that a worker gets at once.
        low_water: a worker gets more items when it has no more than this left.
    """

    def __init__(self, name: str, cpu_seconds: float, chunk_items: int, low_water: int) -> None:
        self.name = name
        self.cpu_seconds = cpu_seconds
        self.empty_since = math.inf
        """By the event loop's clock; infinity while it has a worker, and before anybody starts one."""
        self.queue = FairQueue()
        self.in_flight: dict[WorkerProcess, deque[Entry]] = {}
        """For each worker the entries that it has and has not graded yet, in order."""
        self._chunk_items = chunk_items
        self._low_water = low_water
        self._dispatching = False
        self._down: str | None = None
        """Why the lane refuses items; None while it takes them."""

    def join(self, worker: WorkerProcess) -> None:
        """The worker gets items from now on."""
        self._down = None
        self.empty_since = math.inf
        self.in_flight[worker] = deque()
        self.dispatch()

    def leave(self, worker: WorkerProcess) -> deque[Entry]:
        """Removes a worker that has ended, and returns the entries that it did not finish."""
        entries = self.in_flight.pop(worker, None) or deque()
        if not self.in_flight:
            self.empty_since = asyncio.get_running_loop().time()
        return entries

    def graded(self, worker: WorkerProcess, grades: list[Graded]) -> bool:
        """Hands over the grades of a worker, and gives it more items if there are any. True where it does not wait for
        these."""
        entries = self.in_flight[worker]
        for graded in grades:
            entry = entries.popleft()
            entry.batch.slow = graded.seconds > SLOW_SECONDS
            entry.finish(graded)
        if len(entries) > self._low_water:
            return True
        self.dispatch()
        return False

    def put(self, entries: Sequence[Entry], *, back: bool = False) -> None:
        """Queues entries or, with ``back``, queues again those that a worker did not begin with: these keep their
        turns.
        """
        put = self.queue.put_back if back else self.queue.put
        put(entries)
        if self._down is not None:
            self.give_up(self._down)
        self.dispatch()

    def give_up(self, why: str) -> None:
        """Refuses all waiting items, and those that come before a worker joins, with NoWorkers."""
        self._down = why
        for batch in self.queue.batches():
            batch.refuse(NoWorkers(why))
            self.queue.drop(batch)

    def dispatch(self) -> None:
        """Hands out waiting items after this round of the event loop, together with those that come meanwhile."""
        if not self._dispatching:
            self._dispatching = True
            asyncio.get_running_loop().call_soon(self._dispatch)

    def _dispatch(self) -> None:
        """Hands out waiting items to the workers that have room, the emptiest first."""
        self._dispatching = False
        full: set[WorkerProcess] = set()
        while self.queue and len(full) < len(self.in_flight):
            worker, entries = min(
                (pair for pair in self.in_flight.items() if pair[0] not in full), key=lambda pair: len(pair[1])
            )
            if len(entries) > self._low_water:
                break
            chunk = self._chunk(entries)
            if not chunk:
                full.add(worker)
                continue
            entries.extend(chunk)
            worker.send([entry.item for entry in chunk])

    def _chunk(self, held: deque[Entry]) -> list[Entry]:
        """The next items for a worker that holds some already; none if these forbid it."""
        first = self.queue.peek()
        if held and (first is None or first.batch.slow or held[-1].batch.slow):
            return []
        # Chunks are small when few items wait, so that every worker gets some.
        size = min(self._chunk_items, math.ceil(len(self.queue) / (2 * len(self.in_flight))))
        chunk: list[Entry] = []
        of_batch = Counter(entry.batch for entry in held)
        while len(chunk) < size:
            entry = self.queue.peek()
            if entry is None or of_batch[entry.batch] >= AT_ONCE or (chunk and entry.batch.slow):
                break
            chunk.append(self.queue.take())
            of_batch[entry.batch] += 1
            if entry.batch.slow:
                break
        return chunk
