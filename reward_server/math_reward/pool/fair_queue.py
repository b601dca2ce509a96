"""A queue in which the batches take turns, one entry each, so that none waits for another to finish.

The batches of a stream of rows share their turns: together they get what one batch gets.
"""

import itertools
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence

from math_reward.pool.batch import Batch, Entry, Turn

LOOKED_AT = 16
"""How many turns are looked at for an entry that shares a worker."""


class FairQueue:
    """Waiting entries: those of a batch in their order, and the batches in turn, one entry each."""

    def __init__(self) -> None:
        self._first: deque[Entry] = deque()
        """These come before all batches' turns."""
        self._turns: OrderedDict[Turn, deque[Entry]] = OrderedDict()
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

    def put_back(self, entries: Sequence[Entry]) -> None:
        """Adds entries that were popped in this order as if they had not been: each keeps its turn and comes before
        no other's. Leaves out those that nobody waits for.
        """
        for entry in reversed(entries):
            if entry.batch.wanted:
                self._length += 1
                self._turns.setdefault(entry.batch.turn, deque()).appendleft(entry)
                self._turns.move_to_end(entry.batch.turn, last=False)

    def peek(self, *, alone: bool = True) -> Entry | None:
        """The next entry, or without ``alone`` the next that shares a worker, of few turns; None if there is none.
        Those that are passed over keep their turns.
        """
        for entry in itertools.islice(
            itertools.chain(self._first, (one[0] for one in self._turns.values())), LOOKED_AT
        ):
            if alone or not entry.batch.turn.alone:
                return entry
        return None

    def take(self, entry: Entry) -> None:
        """Removes an entry that ``peek`` has returned: its turn is over."""
        self._length -= 1
        if entry in self._first:
            self._first.remove(entry)
            return
        turn = entry.batch.turn
        self._turns[turn].popleft()
        if self._turns[turn]:
            self._turns.move_to_end(turn)
        else:
            del self._turns[turn]

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
