"""Items that wait for their outcomes: how they become batches, and how a long iterable is read only a little ahead."""

import asyncio
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import islice
from typing import Any

from math_reward.client.endpoints import Endpoint
from math_reward.client.errors import ClientError
from math_reward.client.protocols import Item, Outcome
from math_reward.client.settings import Settings

AnyItem = Item | Mapping[str, Any]

BATCH_CHARACTERS = 1_000_000
"""A batch ends before the item that makes it longer: a service takes 4 MiB, and a character has at most four bytes."""


@dataclass(eq=False)
class Waiting:
    """An item that waits for its outcome.

    Attributes:
        future: done once there is an outcome, or nobody waits for one any more.
        asked_at: when the client was asked.
        failure: of the last request.
    """

    item: Item
    future: "asyncio.Future[Outcome]"
    asked_at: float
    failure: ClientError | None = None


@dataclass
class Batch:
    """Items that are asked for together until each has its outcome.

    Attributes:
        attempts: requests sent.
        failures: those of them that brought nothing, but may another time.
        pause: seconds until it is asked again.
        first_sent_at: of its first request.
        endpoint: that was asked last.
    """

    waiting: list[Waiting]
    attempts: int = 0
    failures: int = 0
    pause: float = 0.0
    first_sent_at: float | None = None
    endpoint: Endpoint | None = None


def next_batch(queue: "deque[Waiting]", size: int) -> Batch:
    """Takes the next batch of at most ``size`` items from a queue that is not empty."""
    batch = Batch([])
    characters = 0
    while queue and len(batch.waiting) < size:
        item = queue[0].item
        # `str`: what is no text is the service's to refuse, and a queue that fails here would leave all waiting
        characters += len(str(item.completion)) + len(str(item.prompt or ""))
        if batch.waiting and characters > BATCH_CHARACTERS:
            break
        batch.waiting.append(queue.popleft())
    return batch


def started(
    items: Iterable[AnyItem], settings: Settings, start: Callable[[list[Item]], Sequence[Any]], progress: bool
) -> Generator[Any, None, None]:
    """The futures that ``start`` gives for each batch, in order. When one is asked for, all before it are done.

    No more items are read than are under way. Where the generator is closed, what is under way is cancelled.

    Raises:
        TypeError: an item is neither an ``Item`` nor a mapping with its names.
    """
    ahead = 2 * settings.max_in_flight  # enough to keep every connection busy
    unsent = map(Item.of, items)
    under_way: deque[tuple[int, Sequence[Any]]] = deque()
    bar = _progress_bar(items) if progress else None
    try:
        while True:
            while len(under_way) < ahead and (batch := list(islice(unsent, settings.batch_size))):
                under_way.append((len(batch), start(batch)))
            if not under_way:
                return
            yield from under_way[0][1]
            size, _ = under_way.popleft()
            if bar is not None:
                bar.update(size)
    finally:
        for _, futures in under_way:
            for future in futures:
                future.cancel()
        if bar is not None:
            bar.close()


def _progress_bar(items: Iterable[AnyItem]) -> Any:
    from tqdm.auto import tqdm

    return tqdm(total=len(items) if isinstance(items, Sized) else None, unit="item", desc="graded")
