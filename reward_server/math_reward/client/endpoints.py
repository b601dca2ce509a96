"""One service that a client may ask: which protocol it speaks, whether it may be asked now, and how long it is left
alone after failures. It opens no connection and has no clock: every time is an argument, in seconds of one clock."""

import logging
import math
import random
from urllib.parse import urlsplit, urlunsplit

from math_reward.client.errors import ClientError
from math_reward.client.protocols import GradeProtocol, OpenRLHFProtocol, Protocol
from math_reward.client.settings import Settings

logger = logging.getLogger(__name__)

FIRST_PAUSE = 0.25
"""Seconds; doubled with every failure in a row."""

LOG_INTERVAL = 60.0
"""Seconds between two warnings that the same service fails."""

_RANDOM = random.Random()  # its own, so that jitter does not disturb a run's seeded generators


def pause(failures: int, longest: float) -> float:
    """Seconds to wait after this many failures in a row, at least 1; not all come back at once."""
    return min(longest, FIRST_PAUSE * 2.0 ** min(failures - 1, 30)) * _RANDOM.uniform(0.5, 1.0)


class Endpoint:
    """One service: its protocol and its health.

    Attributes:
        url: where requests go.
        label: the URL for messages, without its query, which may hold a secret.
        protocol: how questions and answers are written.
        in_flight: open requests; whoever sends them counts.
        held_until: when it may be asked again after a failure.
        refuses: whether it last refused everything, by its token, path or certificate.
        shares_prompts: whether the service takes each prompt once a request, as its last answer said.
    """

    def __init__(self, url: str, settings: Settings) -> None:
        self.url = url
        self.label = urlunsplit(urlsplit(url)._replace(query=""))
        self.protocol: Protocol = GradeProtocol if settings.grades(url) else OpenRLHFProtocol
        self.shares_prompts = False
        self.in_flight = 0
        self.held_until = -math.inf
        self.refuses = False
        self._longest_pause = settings.max_backoff
        self._longest_rest = min(60.0, settings.deadline or 60.0)  # whatever Retry-After says
        self._failures_in_a_row = 0
        self._logged_at = -math.inf

    def is_free(self, now: float) -> bool:
        """Whether it may get a request now. After a failure it gets one at a time until one succeeds."""
        return self.held_until <= now and not (self._failures_in_a_row and self.in_flight)

    def succeeded(self) -> None:
        """A request has brought results."""
        self._failures_in_a_row = 0
        self.refuses = False

    def failed(self, failure: ClientError, now: float) -> None:
        """A request has brought none: the service is left alone for a while, longer with every failure in a row."""
        if now >= self.held_until:  # else it was under way with one that failed, and says nothing new
            self._failures_in_a_row += 1
            self.held_until = now + pause(self._failures_in_a_row, self._longest_pause)
        self.held_until = max(self.held_until, now + min(failure.retry_after, self._longest_rest))
        self.refuses = failure.cause.refuses_all
        self.warn(failure, now)

    def warn(self, failure: ClientError, now: float) -> None:
        """Says in the log, once a minute, what the service did in place of grading."""
        if now - self._logged_at >= LOG_INTERVAL:
            self._logged_at = now
            logger.warning("The reward service %s %s. It will be tried again.", self.label, failure)
