"""A queue in which the batches take turns, one entry each, so that none waits for another to finish.

The batches of a stream of rows share their turns: together they get what one batch gets.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable

from math_reward.pool.batch import Batch, Entry


class FairQueue:
    """Waiting entries: those of a batch in their order, and the batches in turn, one entry each."""

    def __init__(self) -> None:
        self._first: deque[Entry] = deque()
        """These come before all batches' turns."""
        self._turns: OrderedDict[object, deque[Entry]] = OrderedDict()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def put(self, entries: Iterable[Entry], *, first: bool = False) -> None:
        """Adds entries at the end or, with ``first``, before all others. Leaves out those that nobody waits for."""
        wanted = [entry for entry in entries if entry.batch.wanted]
        self._length += len(wanted)
        if first:
            self._first.extendleft(reversed(wanted))
            return
        for entry in wanted:
            self._turns.setdefault(entry.batch.turn, deque()).append(entry)

    def pop(self) -> Entry:
        """Removes and returns the next entry. Raises IndexError if there is none."""
        if not self._length:
            raise IndexError("nothing waits")
        self._length -= 1
        if self._first:
            return self._first.popleft()
        turn, entries = next(iter(self._turns.items()))
        entry = entries.popleft()
        if entries:
            self._turns.move_to_end(turn)
        else:
            del self._turns[turn]
        return entry

    def drop(self, batch: Batch) -> None:
        """Removes all entries of a batch."""
        waiting = self._turns.get(batch.turn, deque())
        others = deque(entry for entry in waiting if entry.batch is not batch)
        self._length -= len(waiting) - len(others)
        if others:
            self._turns[batch.turn] = others
        else:
            self._turns.pop(batch.turn, None)
        kept = [entry for entry in self._first if entry.batch is not batch]
        self._length -= len(self._first) - len(kept)
        self._first = deque(kept)

    def batches(self) -> set[Batch]:
        """The batches that have entries here."""
        return {entry.batch for entries in (self._first, *self._turns.values()) for entry in entries}
