"""How many items become batches, without reading more of them than are under way, and the bar that shows progress."""

import contextlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence, Sized
from itertools import islice
from typing import Any

from math_reward.client.protocols import Item
from math_reward.client.settings import Settings

AnyItem = Item | Mapping[str, Any]


def started(
    items: Iterable[AnyItem], settings: Settings, start: Callable[[list[Item]], Sequence[Any]], progress: bool
) -> Generator[Any, None, None]:
    """The futures that ``start`` gives for each batch, in order. When one is asked for, all before it are done.

    Where the generator is closed, what is under way is cancelled.

    Raises:
        TypeError: an item is neither an ``Item`` nor a mapping with its names.
    """
    unsent = map(Item.of, items)
    under_way: deque[tuple[int, Sequence[Any]]] = deque()
    try:
        with _progress_bar(items, progress) as bar:
            while True:
                while len(under_way) < settings.batches_ahead and (batch := list(islice(unsent, settings.batch_size))):
                    under_way.append((len(batch), start(batch)))
                if not under_way:
                    return
                yield from under_way[0][1]
                bar.update(under_way.popleft()[0])
    finally:
        for _, futures in under_way:
            for future in futures:
                future.cancel()


def _progress_bar(items: Iterable[AnyItem], shown: bool) -> Any:
    """A context manager with ``update(n)``; a bar on standard error if it is shown."""
    if not shown:
        return contextlib.nullcontext(_NoBar())
    from tqdm.auto import tqdm

    return tqdm(total=len(items) if isinstance(items, Sized) else None, unit="item", desc="graded")


class _NoBar:
    def update(self, n: int) -> None:
        """Show nothing."""
