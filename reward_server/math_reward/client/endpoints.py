"""One service that a client may ask: which protocol it speaks, whether it may be asked now, and how long it is left
alone after failures. It opens no connection and has no clock: every time is an argument, in seconds of one clock."""

import logging
import math
import random
from urllib.parse import urlsplit, urlunsplit

from math_reward.client.protocols import Failure, GradeProtocol, OpenRLHFProtocol, Protocol

logger = logging.getLogger(__name__)

FIRST_BACKOFF = 0.25
"""Seconds; doubled with every failure in a row."""

LOG_INTERVAL = 60.0
"""Seconds between two warnings that the same service is down."""


class Backoff:
    """Pauses after failures: exponential, with jitter so that clients do not retry all at once."""

    def __init__(self, longest: float) -> None:
        """``longest``: most seconds of one pause."""
        self._longest = longest
        self._random = random.Random()  # its own, so that jitter does not disturb a run's seeded generators

    def seconds(self, failures: int) -> float:
        """Seconds to wait after this many failures in a row, at least 1."""
        return min(self._longest, FIRST_BACKOFF * 2.0 ** min(failures - 1, 30)) * self._random.uniform(0.5, 1.0)


class Endpoint:
    """One service: its protocol and its health.

    Attributes:
        url: where requests go.
        label: the URL for messages, without its query, which may hold a secret.
        protocol: how questions and answers are written.
        single: whether it gets one item a request, as a reward model that is written for OpenRLHF's own client.
        in_flight: open requests; whoever sends them counts.
        held_until: when it may be asked again after a failure.
        shares_prompts: whether the service takes each prompt once a request, as its last answer said.
    """

    def __init__(self, url: str, backoff: Backoff, *, grades: bool = True) -> None:
        """``grades``: whether it speaks the reward service's own protocol, else OpenRLHF's."""
        self.url = url
        self.label = urlunsplit(urlsplit(url)._replace(query=""))
        self.protocol: Protocol = GradeProtocol if grades else OpenRLHFProtocol
        self.single = not grades
        self.shares_prompts = False
        self.in_flight = 0
        self.held_until = -math.inf
        self._backoff = backoff
        self._failures_in_a_row = 0
        self._news_at = -math.inf  # outcomes of requests sent before this time say nothing new of its health
        self._down_since: float | None = None  # set when a warning said that it is down
        self._reported_at = -math.inf

    def is_free(self, now: float) -> bool:
        """Whether it may get a request now. After a failure it gets one at a time until one succeeds."""
        return self.held_until <= now and not (self._failures_in_a_row and self.in_flight)

    def succeeded(self, sent_at: float, now: float) -> None:
        """A request that was sent at ``sent_at`` has brought results."""
        self._news_at = max(self._news_at, sent_at)
        self._failures_in_a_row = 0
        if self._down_since is not None:
            logger.warning("The reward service %s is back after %.1f s.", self.label, now - self._down_since)
            self._down_since = None

    def failed(self, failure: Failure, sent_at: float, now: float) -> None:
        """A request that was sent at ``sent_at`` has brought none: the service is left alone for a while.

        The pause is longer with every failure in a row. Requests that were open at the same time count as one failure.
        """
        if sent_at >= self._news_at:
            self._news_at = now
            self._failures_in_a_row += 1
            self.held_until = now + self._backoff.seconds(self._failures_in_a_row)
            if self._failures_in_a_row == 1 and now - self._reported_at >= LOG_INTERVAL:
                self._reported_at = self._down_since = now
                logger.warning("The reward service %s is down: it %s. It will be tried again.", self.label, failure)
        self.held_until = max(self.held_until, now + failure.retry_after)
