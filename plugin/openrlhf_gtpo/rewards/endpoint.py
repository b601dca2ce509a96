"""One URL of a reward service: which protocol it speaks, whether it may be asked now, and how long it is left alone
after failures. It opens no connection and has no clock: every time is an argument, in seconds of one clock.

The path of the URL chooses the protocol: ``/v1/grade`` (also for a URL without a path) is the project's own, any other
path is OpenRLHF's. `openrlhf_gtpo.rewards.protocols` defines both.
"""

import logging
import math
import random
from urllib.parse import urlsplit, urlunsplit

from openrlhf_gtpo.rewards.protocols import GRADE_PATH, Failure, GradeProtocol, OpenRLHFProtocol, speaks_grade

__all__ = ["Backoff", "Endpoint"]

logger = logging.getLogger(__name__)

FIRST_BACKOFF = 0.25  # seconds; doubled with every failure in a row
LOG_INTERVAL = 60.0  # seconds between two warnings that the same URL is down


class Backoff:
    """Pauses after failures: exponential, with jitter so that clients do not retry at the same moment."""

    def __init__(self, longest: float) -> None:
        """``longest``: most seconds of one pause."""
        self._longest = longest
        self._random = random.Random()  # its own, so that jitter does not disturb the run's seeded generators

    def seconds(self, failures: int) -> float:
        """Seconds to wait after this many failures in a row, at least 1."""
        return min(self._longest, FIRST_BACKOFF * 2.0 ** min(failures - 1, 30)) * self._random.uniform(0.5, 1.0)


class Endpoint:
    """One URL: its protocol and its health.

    Attributes:
        url: where requests go.
        label: the URL for messages, without its query, which may hold a secret.
        protocol: how questions and answers are written.
        in_flight: open requests; whoever sends them counts.
        single_only: whether a POST with several items was refused, so that each item goes alone from now on.
        shares_prompts: whether a request has each prompt once; None until an answer says whether it may.
    """

    def __init__(self, url: str, backoff: Backoff) -> None:
        parts = urlsplit(url)
        grades = speaks_grade(url)
        path = parts.path.rstrip("/") or GRADE_PATH if grades else parts.path
        self.protocol: type[GradeProtocol] | type[OpenRLHFProtocol] = GradeProtocol if grades else OpenRLHFProtocol
        self.url = urlunsplit(parts._replace(path=path, fragment=""))
        self.label = urlunsplit(parts._replace(path=path, query="", fragment=""))
        self.single_only = False
        self.shares_prompts: bool | None = None
        self.in_flight = 0
        self.held_until = -math.inf
        self._backoff = backoff
        self._failures_in_a_row = 0
        self._news_at = -math.inf  # outcomes of requests sent before this time do not count for the URL's health
        self._down_since: float | None = None  # set when a warning said that it is down
        self._reported_at = -math.inf

    def is_free(self, now: float) -> bool:
        """Whether it may get a request now. After a failure it gets one at a time until one succeeds."""
        return self.held_until <= now and not (self._failures_in_a_row and self.in_flight)

    def succeeded(self, sent_at: float, now: float) -> None:
        """A request that was sent at ``sent_at`` has brought rewards."""
        self._news_at = max(self._news_at, sent_at)
        self._failures_in_a_row = 0
        if self._down_since is not None:
            logger.warning("The reward server %s is back after %.1f s.", self.label, now - self._down_since)
            self._down_since = None

    def failed(self, failure: Failure, sent_at: float, now: float) -> None:
        """A request that was sent at ``sent_at`` has brought none: the URL is left alone for a while.

        The pause is longer with every failure in a row. Requests that were open at the same time count as one failure.
        """
        if sent_at >= self._news_at:
            self._news_at = now
            self._failures_in_a_row += 1
            self.held_until = now + self._backoff.seconds(self._failures_in_a_row)
            if self._failures_in_a_row == 1 and now - self._reported_at >= LOG_INTERVAL:
                self._reported_at = self._down_since = now
                logger.warning("The reward server %s is down: it %s. It will be tried again.", self.label, failure)
        self.held_until = max(self.held_until, now + failure.retry_after)

    def takes_single_items_only(self, failure: Failure, items: int) -> bool:
        """Whether this failure of a batch shows a server for single queries, as OpenRLHF's own client sends them.

        It is remembered, and logged once.
        """
        if not (failure.divisible and failure.answered and self.protocol is OpenRLHFProtocol and items > 1):
            return False
        if not self.single_only:
            self.single_only = True
            logger.warning(
                "The reward server %s %s when sent %d queries at once; from now on it gets one at a time.",
                self.label,
                failure,
                items,
            )
        return True
