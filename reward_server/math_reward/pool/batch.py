"""The items of one request on their way through the pool."""

import asyncio
from collections import Counter
from collections.abc import Callable

from math_reward.pool.item import Graded, Item

SLOW_SECONDS = 0.005
"""An item that takes more CPU time is slow: what waits behind it in the same worker would notice."""

AT_ONCE = 8
"""How many items a worker may hold of a request that nobody has seen anything of yet."""

MOST_AT_ONCE = 64


class Turn:
    """What takes turns with others: a request, or a stream of rows with all its batches.

    Attributes:
        at_once: how many of its items a worker may hold. After a slow one it is 1, and that item is alone in its
            worker, so that nothing of others waits behind the next; it doubles with each item that is not slow.
    """

    def __init__(self) -> None:
        self.at_once = AT_ONCE

    def took(self, seconds: float) -> None:
        """One of its items took so much CPU time; infinity if it lost its worker."""
        self.at_once = 1 if seconds > SLOW_SECONDS else min(2 * self.at_once, MOST_AT_ONCE)

    @property
    def alone(self) -> bool:
        """Whether its next item has a worker for itself."""
        return self.at_once == 1


class Batch:
    """Items of the same request, and one future for all of them.

    Args:
        size: how many items.
        turn: batches with the same one take turns as one batch; None for turns of its own.
        each: called with the index and the grade of each item at once, in whatever order they come.
    """

    def __init__(self, size: int, turn: Turn | None = None, each: Callable[[int, Graded], None] | None = None) -> None:
        self.turn = turn or Turn()
        self.each = each
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
