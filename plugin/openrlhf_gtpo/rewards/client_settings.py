"""The settings of the reward client: which URLs it asks, and its limits."""

import math
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from openrlhf_gtpo.rewards.certificates import trusted

__all__ = ["RewardClientSettings", "check_url"]


@dataclass(frozen=True)
class RewardClientSettings:
    """The URLs of the reward servers, and the client's limits.

    Attributes:
        urls: one or more http(s) URLs; `openrlhf_gtpo.rewards.endpoint` says which protocol each uses.
        token: sent as ``Authorization: Bearer``.
        ca_file: a PEM file with the certificates that https servers may have theirs from, on every machine that asks;
            None for the system's.
        timeout: seconds per HTTP request.
        deadline: seconds of retries for one reward, from its first attempt; 0 means a single attempt. A completion
            that waits in the queue does not fail while other rewards still arrive.
        batch_size: most completions in one POST.
        batch_wait: seconds to wait for more completions before a batch that is not full is sent.
        max_in_flight: most HTTP requests at once, over all URLs.
        max_backoff: most seconds between two attempts, unless a server asks for more by Retry-After.

    Raises:
        ValueError: a value is out of bounds; one sentence.
    """

    urls: tuple[str, ...]
    token: str | None = field(default=None, repr=False)
    timeout: float = 30.0
    deadline: float = 300.0
    batch_size: int = 64
    batch_wait: float = 0.005
    max_in_flight: int = 8
    max_backoff: float = 10.0
    ca_file: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.urls, str) or not self.urls:
            raise ValueError("urls must be a tuple of at least one reward URL.")
        for url in self.urls:
            check_url(url)
        # The HTTP library would refuse anything else too, but its error quotes the token.
        if self.token is not None and not (
            self.token and self.token.isascii() and self.token.isprintable() and " " not in self.token
        ):
            raise ValueError("token must be printable ASCII without spaces or line breaks, and not empty.")
        if self.ca_file is not None:
            trusted(self.ca_file)
        for name in ("timeout", "max_backoff"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be a positive number of seconds, not {getattr(self, name)}.")
        for name in ("deadline", "batch_wait"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be 0 or a positive number of seconds, not {getattr(self, name)}.")
        for name in ("batch_size", "max_in_flight"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}.")


def check_url(url: str) -> None:
    """Raise ValueError unless this is an http(s) URL with a host and without credentials."""
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
    if not valid:
        raise ValueError(
            f"urls must hold http:// or https:// URLs such as http://127.0.0.1:8000/v1/grade, not {url!r}."
        )
    if "@" in parts.netloc:
        raise ValueError(f"urls must not hold credentials ({parts.hostname}): pass a token by its own setting.")
