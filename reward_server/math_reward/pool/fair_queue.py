"""A queue in which the batches take turns, one entry each, so that none waits for another to finish."""

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence

from math_reward.pool.batch import Batch, Entry


class FairQueue:
    """Waiting entries: those of a batch in their order, and the batches in turn, one entry each."""

    def __init__(self) -> None:
        self._first: deque[Entry] = deque()
        """These come before all batches' turns."""
        self._turns: OrderedDict[Batch, deque[Entry]] = OrderedDict()
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
            self._turns.setdefault(entry.batch, deque()).append(entry)

    def put_back(self, entries: Sequence[Entry]) -> None:
        """Adds entries that were taken in this order as if they had not been: each keeps its turn and comes before no
        other's. Leaves out those that nobody waits for.
        """
        for entry in reversed(entries):
            if entry.batch.wanted:
                self._length += 1
                self._turns.setdefault(entry.batch, deque()).appendleft(entry)
                self._turns.move_to_end(entry.batch, last=False)

    def peek(self) -> Entry | None:
        """The next entry; None if there is none."""
        if self._first:
            return self._first[0]
        return next(iter(self._turns.values()))[0] if self._turns else None

    def take(self) -> Entry:
        """Removes the next entry: its batch's turn is over."""
        self._length -= 1
        if self._first:
            return self._first.popleft()
        batch, entries = next(iter(self._turns.items()))
        entry = entries.popleft()
        if entries:
            self._turns.move_to_end(batch)
        else:
            del self._turns[batch]
        return entry

    def drop(self, batch: Batch) -> None:
        """Removes all entries of a batch."""
        kept = deque(entry for entry in self._first if entry.batch is not batch)
        self._length -= len(self._turns.pop(batch, ())) + len(self._first) - len(kept)
        self._first = kept

    def batches(self) -> set[Batch]:
        """The batches that have entries here."""
        return {entry.batch for entry in self._first} | set(self._turns)
