"""The client's settings: which services it asks, how it proves who it is, and its limits."""

import math
import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

GRADE_PATH = "/v1/grade"


@dataclass(frozen=True)
class Settings:
    """
    Attributes:
        urls: of one or more services, such as ``http://127.0.0.1:8000``; each request goes to one that answers.
        token: sent as ``Authorization: Bearer``; by default that of ``MATH_REWARD_TOKEN`` or of the file
            ``MATH_REWARD_TOKEN_FILE``.
        verify: what a service's certificate is checked against: a file or folder of CA certificates, an
            ``ssl.SSLContext``, or the system's certificates (None).
        timeout: seconds for one request.
        deadline: seconds of retries for one item, from its first request; 0 means a single attempt.
        batch_size: most items in one request.
        batch_wait: seconds that a single item waits for others to share its request.
        max_in_flight: most requests at once, over all services.
        max_backoff: most seconds between two attempts, unless a service asks for more by Retry-After.

    Raises:
        ValueError: a value cannot be used; one sentence.
    """

    urls: tuple[str, ...]
    token: str | None = field(default=None, repr=False)
    verify: str | Path | ssl.SSLContext | None = None
    timeout: float = 30.0
    deadline: float = 300.0
    batch_size: int = 64
    batch_wait: float = 0.005
    max_in_flight: int = 8
    max_backoff: float = 10.0

    def __post_init__(self) -> None:
        if not self.urls:
            raise ValueError("Give the URL of at least one reward service, such as http://127.0.0.1:8000.")
        object.__setattr__(self, "urls", tuple(_with_path(url) for url in self.urls))
        token = self.token if self.token is not None else _token_of_environment()
        # The HTTP library would refuse anything else too, but its error quotes the token.
        if token is not None and not (token and token.isascii() and token.isprintable() and " " not in token):
            raise ValueError(
                "The client's token, or the file of MATH_REWARD_TOKEN_FILE, must be one word of printable ASCII: the "
                "token alone, without the name that the service's own file may have for it."
            )
        object.__setattr__(self, "token", token)
        for name, least in {"timeout": 0.001, "max_backoff": 0.001, "deadline": 0, "batch_wait": 0}.items():
            if not least <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be a number of seconds of at least {least}, not {getattr(self, name)}.")
        for name in ("batch_size", "max_in_flight"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}.")

    @property
    def batches_ahead(self) -> int:
        """How many batches of a long iterable are under way at once: enough to keep every connection busy."""
        return 2 * self.max_in_flight

    def ssl_context(self) -> ssl.SSLContext:
        """What certificates are checked against.

        Raises:
            ValueError: ``verify`` has no certificate that can be read.
        """
        if isinstance(self.verify, ssl.SSLContext):
            return self.verify
        if self.verify is None:
            return ssl.create_default_context()
        try:
            if Path(self.verify).is_dir():
                return ssl.create_default_context(capath=str(self.verify))
            return ssl.create_default_context(cafile=str(self.verify))
        except OSError as error:  # an ssl.SSLError too
            reason = error.strerror or "it holds no PEM certificate"
            raise ValueError(f"verify, the CA certificates {self.verify}, cannot be read: {reason}.") from None


def _with_path(url: str) -> str:
    """The URL that is posted to: without a path it gets that of the service."""
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except (ValueError, AttributeError):
        valid = False
    if not valid:
        raise ValueError(f"A reward service's URL is like http://127.0.0.1:8000, not {url!r}.")
    if "@" in parts.netloc:
        raise ValueError(f"The URL of {parts.hostname} must not hold credentials: pass the token as token=.")
    return urlunsplit(parts._replace(path=parts.path.rstrip("/") or GRADE_PATH, fragment=""))


def _token_of_environment() -> str | None:
    token, path = os.environ.get("MATH_REWARD_TOKEN"), os.environ.get("MATH_REWARD_TOKEN_FILE")
    if token and path:
        raise ValueError("Set MATH_REWARD_TOKEN or MATH_REWARD_TOKEN_FILE, not both.")
    if not path:
        return token or None
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ValueError(f"{path}, the file of MATH_REWARD_TOKEN_FILE, cannot be read: {reason}.") from None
