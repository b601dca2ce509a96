"""The queue of items that wait for a request, and how they are put together in batches. It sends nothing and has no
clock: every time is an argument, in seconds of one clock."""

import asyncio
import math
from collections import deque
from collections.abc import Sequence

from math_reward.client.endpoints import Endpoint
from math_reward.client.errors import ClientError
from math_reward.client.protocols import Failure, Item, Result

Outcome = Result | ClientError

BATCH_CHARACTERS = 1_000_000
"""A batch ends before the item that makes it longer: a service takes 4 MiB, and a character has at most four bytes."""


class Waiting:
    """An item that waits for its outcome.

    Attributes:
        future: done once there is an outcome, or nobody waits for one any more.
        largest_batch: halved when its batch fails, so that a bad item ends up alone.
        endpoint: that was asked last.
        failure: of the last request.
    """

    def __init__(self, item: Item, now: float, future: "asyncio.Future[Outcome]") -> None:
        self.item = item
        self.future = future
        self.alarm: asyncio.TimerHandle | None = None
        self.asked_at = now
        self.first_sent_at: float | None = None
        self.attempts = 0
        self.failures = 0
        self.largest_batch: float = math.inf
        self.endpoint: Endpoint | None = None
        self.failure: Failure | None = None


class Queue:
    """Items in the order in which they are sent."""

    def __init__(self, batch_wait: float) -> None:
        """``batch_wait``: seconds that the first item waits for others, if its batch is not full."""
        self._batch_wait = batch_wait
        self._waiting: deque[Waiting] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, waiting: Waiting) -> None:
        """Queue an item behind all others."""
        self._waiting.append(waiting)

    def put_back(self, batch: Sequence[Waiting]) -> None:
        """Queue items that were sent before, in this order and before all others."""
        self._waiting.extendleft(reversed(batch))

    def clear(self) -> None:
        self._waiting.clear()

    def due_at(self, batch_size: int) -> float:
        """When the next batch is to be sent: at once if it is full, else when its first item has waited for others."""
        head = self._waiting[0]
        full = len(self._waiting) >= min(batch_size, head.largest_batch)
        return -math.inf if full else head.asked_at + self._batch_wait

    def take(self, batch_size: int) -> list[Waiting]:
        """The next batch, without items whose callers are gone; empty if all are."""
        limit: float = batch_size
        batch: list[Waiting] = []
        characters = 0
        while self._waiting:
            head = self._waiting[0]
            limit = min(limit, head.largest_batch)
            # `str`: what is no text is the service's to refuse, and a queue that fails here would leave all waiting
            characters += len(str(head.item.completion)) + len(str(head.item.prompt or ""))
            if len(batch) >= limit or (batch and characters > BATCH_CHARACTERS):
                break
            self._waiting.popleft()
            if not head.future.done():
                batch.append(head)
        return batch


def limit_to_half(batch: Sequence[Waiting]) -> None:
    """Each item of the batch goes with half as many from now on, so that one bad item ends up alone."""
    for waiting in batch:
        waiting.largest_batch = len(batch) // 2
