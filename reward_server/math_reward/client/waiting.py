"""Items that wait for their outcomes: how they become batches, and how a long iterable is read only a little ahead."""

import asyncio
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from time import monotonic
from typing import Any

from math_reward.client.endpoints import Endpoint
from math_reward.client.errors import ClientError, Unavailable
from math_reward.client.protocols import Item, Outcome
from math_reward.client.settings import Settings

AnyItem = Item | Mapping[str, Any]

BATCH_CHARACTERS = 1_000_000
"""A batch ends before the item that makes it longer: a service takes 4 MiB, and a character has at most four bytes."""

NEVER_SENT = Unavailable("has not answered anybody for the whole deadline, and this item was never sent")


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
    asked_at: float = field(default_factory=monotonic)
    failure: ClientError = NEVER_SENT


@dataclass(eq=False)
class Batch:
    """Items that are asked for together until each has its outcome.

    Attributes:
        endpoint: that is asked, or was asked last.
        give_up_at: when nobody waits for them any more.
        due: when they may be asked for again.
        attempts: requests sent.
        refused: what each service said that will not take them. It is replaced and never changed, as halves share it.
    """

    waiting: list[Waiting]
    endpoint: Endpoint
    give_up_at: float
    due: float = 0.0
    attempts: int = 0
    refused: Mapping[Endpoint, ClientError] = field(default_factory=dict)


def next_items(queue: "deque[Waiting]", size: int) -> list[Waiting]:
    """Takes those of the next batch, at most ``size``, from a queue that is not empty."""
    taken = [queue.popleft()]
    characters = _length(taken[0].item)
    while queue and len(taken) < size:
        characters += _length(queue[0].item)
        if characters > BATCH_CHARACTERS:
            break
        taken.append(queue.popleft())
    return taken


def _length(item: Item) -> int:
    # `str`: what is no text is the service's to refuse, and a queue that fails here would leave all waiting
    return len(str(item.completion)) + len(str(item.prompt or ""))


def started(
    items: Iterable[AnyItem], settings: Settings, start: Callable[[list[Item]], Any]
) -> Generator[Any, None, None]:
    """The future that ``start`` gives for each batch, in order. When one is asked for, that before it is done.

    No more items are read than are under way. Where the generator is closed, what is under way is cancelled.

    Raises:
        TypeError: an item is neither an ``Item`` nor a mapping with its names.
    """
    unsent = map(Item.of, items)
    under_way: deque[Any] = deque()
    try:
        while True:
            # twice as many batches as connections keep every one busy
            while len(under_way) < 2 * settings.max_in_flight and (batch := list(islice(unsent, settings.batch_size))):
                under_way.append(start(batch))
            if not under_way:
                return
            yield under_way[0]
            under_way.popleft()
    finally:
        for future in under_way:
            future.cancel()
