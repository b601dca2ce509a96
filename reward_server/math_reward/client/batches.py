"""How many items become batches, without reading more of them than are under way, and the bar that shows progress."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sized
from itertools import islice
from typing import Any

from math_reward.client.protocols import Item

AnyItem = Item | Mapping[str, Any]


def batches(items: Iterable[AnyItem], size: int) -> Iterator[list[Item]]:
    """Batches of ``size`` items, in order; the last may be smaller.

    Raises:
        TypeError: an item is neither an ``Item`` nor a mapping with its names.
    """
    rest = map(Item.of, items)
    while batch := list(islice(rest, size)):
        yield batch


def progress_bar(items: Iterable[AnyItem], shown: bool) -> Any:
    """A context manager with ``update(n)``; a bar on standard error if it is shown."""
    if not shown:
        return contextlib.nullcontext(_NoBar())
    from tqdm.auto import tqdm

    return tqdm(total=len(items) if isinstance(items, Sized) else None, unit="item", desc="graded")


class _NoBar:
    def update(self, n: int) -> None:
        """Show nothing."""
