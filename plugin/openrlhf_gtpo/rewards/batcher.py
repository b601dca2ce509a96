"""The queue of completions that wait for a POST, and how they are put together in batches. It sends nothing and has no
clock: every time is an argument, in seconds of one clock."""

import asyncio
import math
from collections import deque
from collections.abc import Sequence

from openrlhf_gtpo.rewards.endpoint import Endpoint
from openrlhf_gtpo.rewards.protocols import Reward, RewardRequest

__all__ = ["Batcher", "Item", "limit_to_half"]


class Item:
    """One completion that waits for its reward."""

    def __init__(self, request: RewardRequest, now: float, future: "asyncio.Future[Reward]") -> None:
        self.request = request
        self.future = future
        self.alarm: asyncio.TimerHandle | None = None
        self.asked_at = now
        self.first_sent_at: float | None = None
        self.attempts = 0
        self.failures = 0
        self.largest_batch: float = math.inf  # halved when its batch fails, so that a bad item ends up alone
        self.endpoint: Endpoint | None = None  # the last one asked
        self.problem = ""


class Batcher:
    """Items in the order in which they are sent."""

    def __init__(self, batch_size: int, batch_wait: float) -> None:
        """
        Args:
            batch_size: most items of a batch.
            batch_wait: seconds that the first item waits for others, if the batch is not full.
        """
        self._batch_size = batch_size
        self._batch_wait = batch_wait
        self._items: deque[Item] = deque()

    def __len__(self) -> int:
        return len(self._items)

    def add(self, item: Item) -> None:
        """Queue an item behind all others."""
        self._items.append(item)

    def put_back(self, items: Sequence[Item]) -> None:
        """Queue items that were sent before, in this order and before all others."""
        self._items.extendleft(reversed(items))

    def clear(self) -> None:
        self._items.clear()

    def due_at(self, *, single: bool = False) -> float:
        """When the next batch is to be sent: at once if it is full, else when its first item has waited for others.

        Args:
            single: whether a batch has one item.
        """
        head = self._items[0]
        full = len(self._items) >= min(1 if single else self._batch_size, head.largest_batch)
        return -math.inf if full else head.asked_at + self._batch_wait

    def take(self, *, single: bool = False) -> list[Item]:
        """The next batch, without items whose callers are gone; empty if all are.

        Args:
            single: whether it may have only one item.
        """
        limit: float = 1 if single else self._batch_size
        batch: list[Item] = []
        while self._items:
            item = self._items[0]
            limit = min(limit, item.largest_batch)
            if len(batch) >= limit:
                break
            self._items.popleft()
            if not item.future.done():
                batch.append(item)
        return batch


def limit_to_half(batch: Sequence[Item]) -> None:
    """Each item of the batch goes with half as many from now on, so that one bad item ends up alone."""
    for item in batch:
        item.largest_batch = len(batch) // 2
