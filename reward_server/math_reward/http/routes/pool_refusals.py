"""The answers of a route when the pool refuses its items."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fastapi import HTTPException

from math_reward.http.middleware.auth_and_limits import STOPPED
from math_reward.http.middleware.hang_up import HungUp
from math_reward.pool.lane import NoWorkers
from math_reward.pool.pool import PoolClosed, QueueFull

NO_WORKERS_RETRY_SECONDS = 2
"""When to try again if no worker could be started."""


@contextmanager
def pool_refusals(how_full: Callable[[], str]) -> Iterator[None]:
    """Turns a full queue into 429, and a pool that is closed or cannot start a worker into 503, with Retry-After. A
    client that has hung up counts as 499, which only the metrics and the access log show.

    ``how_full`` returns the start of the message for a 429; it is called only then.
    """
    try:
        yield
    except QueueFull as full:
        raise HTTPException(
            429, f"{how_full()}: try again in {full.retry_after} s.", headers={"Retry-After": str(full.retry_after)}
        ) from None
    except HungUp:
        raise HTTPException(499, "The client has hung up.") from None
    except NoWorkers as error:
        raise HTTPException(503, str(error), headers={"Retry-After": str(NO_WORKERS_RETRY_SECONDS)}) from None
    except PoolClosed:
        raise HTTPException(503, STOPPED, headers={"Retry-After": "1"}) from None
