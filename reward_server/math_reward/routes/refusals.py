"""What a route answers where the pool takes no items."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fastapi import HTTPException

from math_reward.guard import DRAINING
from math_reward.pool import PoolClosed, QueueFull


@contextmanager
def pool_refusals(how_full: Callable[[], str]) -> Iterator[None]:
    """Turns a full queue into 429 and a closed pool into 503, each with Retry-After.

    ``how_full`` begins the sentence of the 429; it is called when it is needed.
    """
    try:
        yield
    except QueueFull as full:
        raise HTTPException(
            429, f"{how_full()}: try again in {full.retry_after} s.", headers={"Retry-After": str(full.retry_after)}
        ) from None
    except PoolClosed:
        raise HTTPException(503, DRAINING, headers={"Retry-After": "1"}) from None
