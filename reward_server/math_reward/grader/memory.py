"""A memory of what was made of texts, bounded by the bytes that it holds and not only by how many entries."""

import sys
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

BYTES_A_CHARACTER = 500
"""What the trees of a text take for each of its characters, with room to spare."""

Made = TypeVar("Made")


class Memory(Generic[Made]):
    """What was made of texts, the latest of it. Threads may share it.

    Args:
        entries: how many there may be.
        size: how many bytes they may take together, by an estimate. What takes more than a sixteenth of that is not
            kept, so that no text drives out all others.
    """

    def __init__(self, entries: int, size: int) -> None:
        self._entries = entries
        self._size = size
        # When the new ones have half of the room, the old ones are forgotten, and the new ones are old.
        self._new: dict[Hashable, Made] = {}
        self._old: dict[Hashable, Made] = {}
        self._size_of_new = 0

    def get(self, key: Hashable, make: Callable[[], Made], *texts: str) -> Made:
        """What was made for the key, or is made now. ``texts``: all that the key and what is made hold."""
        found = self._new.get(key)
        if found is not None:
            return found
        found = self._old.get(key)
        if found is None:
            found = make()
        size = sum(sys.getsizeof(text) + BYTES_A_CHARACTER * len(text) for text in texts)
        if size <= self._size // 16:
            if self._size_of_new + size > self._size // 2 or len(self._new) >= self._entries // 2:
                self._old, self._new, self._size_of_new = self._new, {}, 0
            self._new[key] = found
            self._size_of_new += size
        return found

    def forget(self, key: Hashable) -> None:
        """Forgets what was made for the key, so that it is made again."""
        self._new.pop(key, None)
        self._old.pop(key, None)

    def clear(self) -> None:
        """Forgets everything."""
        self._new, self._old, self._size_of_new = {}, {}, 0
