"""A queue in which the batches take turns, one entry each, so that none waits for another to finish."""

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence

from math_reward.pool.batch import Batch, Entry


class FairQueue:
    """Waiting entries: those of a batch in their order, and the batches in turn, one entry each. Urgent batches come
    before the others, and whole. It takes no entries that nobody waits for.
    """

    def __init__(self) -> None:
        self._turns: OrderedDict[Batch, deque[Entry]] = OrderedDict()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def put(self, entries: Iterable[Entry]) -> None:
        """Adds entries at the end."""
        for entry in entries:
            if entry.batch.wanted:
                self._length += 1
                self._turns.setdefault(entry.batch, deque()).append(entry)
                if entry.batch.urgent:
                    self._turns.move_to_end(entry.batch, last=False)

    def put_back(self, entries: Sequence[Entry]) -> None:
        """Adds entries that were taken in this order as if they had not been: each keeps its turn."""
        for entry in reversed(entries):
            if entry.batch.wanted:
                self._length += 1
                self._turns.setdefault(entry.batch, deque()).appendleft(entry)
                self._turns.move_to_end(entry.batch, last=False)

    def peek(self) -> Entry | None:
        """The next entry; None if there is none."""
        return next(iter(self._turns.values()))[0] if self._turns else None

    def take(self) -> Entry:
        """Removes the next entry: its batch's turn is over."""
        batch, entries = next(iter(self._turns.items()))
        entry = entries.popleft()
        self._length -= 1
        if not entries:
            del self._turns[batch]
        elif not batch.urgent:
            self._turns.move_to_end(batch)
        return entry

    def drop(self, batch: Batch) -> None:
        """Removes all entries of a batch."""
        self._length -= len(self._turns.pop(batch, ()))

    def batches(self) -> list[Batch]:
        """The batches that have entries here."""
        return list(self._turns)
