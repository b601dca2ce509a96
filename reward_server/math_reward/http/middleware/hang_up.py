"""Cancels the work for a client that has hung up."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import Request

_T = TypeVar("_T")


class HungUp(Exception):
    """The client has closed its connection, so nobody would read the answer."""


async def unless_hung_up(request: Request, work: Coroutine[Any, Any, _T]) -> _T:
    """Awaits ``work``. Cancels it and raises HungUp if the client closes the connection meanwhile.

    Call it only when the whole body has been read.
    """
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_hung_up(request))
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


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
