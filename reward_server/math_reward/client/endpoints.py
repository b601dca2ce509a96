"""The services that a client may ask: which is free, which is left alone after a failure, and whose turn it is."""

import asyncio
import logging
import math
import random
from collections import deque
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit, urlunsplit

from math_reward.client.protocol import Failure

logger = logging.getLogger(__name__)

FIRST_BACKOFF = 0.25
"""Seconds; doubled with every failure in a row."""


def backoff(failures: int, longest: float) -> float:
    """Seconds to wait after this many failures in a row, with jitter, so that clients do not retry all at once."""
    return min(longest, FIRST_BACKOFF * 2.0 ** min(failures - 1, 30)) * random.uniform(0.5, 1.0)


class Endpoint:
    """One service.

    Attributes:
        url: where requests go.
        label: the URL for messages, without its query, which may hold a secret.
        shares_prompts: whether the service takes each prompt once a request, as far as its answers have said.
        in_flight: open requests.
        held_until: when it may be asked again after a failure.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.label = urlunsplit(urlsplit(url)._replace(query=""))
        self.shares_prompts = False
        self.in_flight = 0
        self.held_until = -math.inf
        self._failures_in_a_row = 0
        self._news_at = -math.inf  # outcomes of requests sent before this time say nothing new

    def is_free(self, now: float) -> bool:
        """Whether it may get a request now. After a failure it gets one at a time until one succeeds."""
        return self.held_until <= now and not (self._failures_in_a_row and self.in_flight)

    def succeeded(self, sent_at: float) -> None:
        if self._failures_in_a_row:
            logger.warning("The reward service %s is back.", self.label)
        self._news_at = max(self._news_at, sent_at)
        self._failures_in_a_row = 0

    def failed(self, failure: Failure, sent_at: float, now: float, longest: float) -> None:
        """Leave it alone for a while, at most ``longest`` seconds or as long as it asks for.

        Requests that were open at the same time count as one failure.
        """
        if sent_at >= self._news_at:
            self._news_at = now
            self._failures_in_a_row += 1
            self.held_until = now + backoff(self._failures_in_a_row, longest)
            if self._failures_in_a_row == 1:
                logger.warning("The reward service %s is down: it %s. It will be tried again.", self.label, failure)
        self.held_until = max(self.held_until, now + failure.retry_after)


class Turns:
    """Hands out endpoints, first come, first served: the free one with the fewest open requests, in turn."""

    def __init__(self, urls: Sequence[str], most: int, wait_for_held: bool) -> None:
        """
        Args:
            urls: of the endpoints.
            most: requests at once, over all endpoints.
            wait_for_held: whether an endpoint that is left alone after a failure is not handed out.
        """
        self._endpoints = [Endpoint(url) for url in urls]
        self._most = most
        self._wait_for_held = wait_for_held
        self._waiting: deque[asyncio.Future[Endpoint]] = deque()
        self._alarm: asyncio.TimerHandle | None = None

    async def take(self, give_up_at: Callable[[], float]) -> Endpoint | None:
        """An endpoint to ask now, which has to be given back; None once ``give_up_at()``, a time of the loop, is over.
        It is asked again whenever it is over, as it may have moved.
        """
        loop = asyncio.get_running_loop()
        if give_up_at() <= loop.time():
            return None
        turn: asyncio.Future[Endpoint] = loop.create_future()
        self._waiting.append(turn)
        self._hand_out()
        try:
            while not turn.done() and (left := give_up_at() - loop.time()) > 0:
                await asyncio.wait([turn], timeout=None if left == math.inf else left)
        except asyncio.CancelledError:
            if turn.done():
                self.give_back(turn.result())
            raise
        finally:
            if not turn.done():
                self._waiting.remove(turn)
        return turn.result() if turn.done() else None

    def give_back(self, endpoint: Endpoint) -> None:
        endpoint.in_flight -= 1
        self._hand_out()

    def _hand_out(self) -> None:
        loop = asyncio.get_running_loop()
        if self._alarm is not None:
            self._alarm.cancel()
        while self._waiting and sum(e.in_flight for e in self._endpoints) < self._most:
            free = [e for e in self._endpoints if e.is_free(loop.time()) or not self._wait_for_held]
            if not free:
                held = [e.held_until for e in self._endpoints if e.held_until > loop.time()]
                if held:  # else a single request is under way, and its end calls this method again
                    self._alarm = loop.call_at(min(held), self._hand_out)
                return
            endpoint = min(free, key=lambda e: e.in_flight)
            self._endpoints.remove(endpoint)
            self._endpoints.append(endpoint)  # of equally busy ones, that asked longest ago comes first
            endpoint.in_flight += 1
            self._waiting.popleft().set_result(endpoint)
