"""The items of one request on their way through the pool."""

import asyncio
from collections import Counter
from collections.abc import Callable

from math_reward.pool.item import Graded, Item


class Batch:
    """Items of the same request, and one future for all of them.

    Args:
        size: how many items.
        each: called with the index and the grade of each item at once, in whatever order they come.
        urgent: whether they come before all others that wait.

    Attributes:
        slow: whether its last item was slow. Then the next has a worker for itself, so that nothing of others waits
            behind it.
    """

    def __init__(self, size: int, each: Callable[[int, Graded], None] | None = None, urgent: bool = False) -> None:
        self.each = each
        self.urgent = urgent
        self.slow = False
        self.results: list[Graded | None] = [None] * size
        self.left = size
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def wanted(self) -> bool:
        """False once it is answered or refused, or nobody waits for it any more."""
        return not self.done.done()

    def refuse(self, why: Exception) -> None:
        """Raises ``why`` in whoever waits for the batch."""
        if self.wanted:
            self.done.set_exception(why)


class Entry:
    """One item of a batch."""

    __slots__ = ("batch", "index", "item", "lost")

    def __init__(self, item: Item, batch: Batch, index: int) -> None:
        self.item = item
        self.batch = batch
        self.index = index
        self.lost: Counter[str] = Counter()
        """How many workers it has lost, by the way in which they ended."""

    def finish(self, graded: Graded) -> None:
        """Hands over the grade. The batch's last one wakes whoever waits for it."""
        batch = self.batch
        batch.results[self.index] = graded
        batch.left -= 1
        if batch.each is not None and batch.wanted:
            batch.each(self.index, graded)
        if not batch.left and batch.wanted:
            batch.done.set_result(None)
