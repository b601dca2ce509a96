"""Cancels the work for a client that has hung up."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.types import Receive

_T = TypeVar("_T")


class HungUp(Exception):
    """The client has closed its connection, so nobody would read the answer."""


async def unless_hung_up(request: Request, work: Coroutine[Any, Any, _T]) -> _T:
    """Awaits ``work``. Cancels it and raises HungUp if the client closes the connection meanwhile.

    Call it only when the whole body has been read.
    """
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(until_hung_up(request.receive))
    watching.add_done_callback(lambda _: working.cancel())
    try:
        return await working
    except asyncio.CancelledError:
        if watching.done() and not watching.cancelled():
            raise HungUp from None
        working.cancel()
        raise
    finally:
        watching.cancel()


async def until_hung_up(receive: Receive) -> None:
    """Returns when the client has hung up. What still comes of the body is dropped."""
    while (await receive())["type"] != "http.disconnect":
        pass
