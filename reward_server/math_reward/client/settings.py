"""The client's settings: which services it asks, how it proves who it is, and its limits."""

import math
import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

GRADE_PATH = "/v1/grade"

TOKEN_VARIABLE = "MATH_REWARD_TOKEN"
TOKEN_FILE_VARIABLE = "MATH_REWARD_TOKEN_FILE"
"""The name of a file with the token. For Ray jobs, whose dashboard shows their environment."""

LEAST = {"timeout": 0.001, "max_backoff": 0.001, "deadline": 0, "batch_wait": 0, "batch_size": 1, "max_in_flight": 1}
"""The smallest value of each number."""


@dataclass(frozen=True)
class Settings:
    """
    Attributes:
        urls: of one or more services, such as ``http://127.0.0.1:8000``; each request goes to one that answers.
        token: sent as ``Authorization: Bearer``; by default that of ``MATH_REWARD_TOKEN`` or of the file
            ``MATH_REWARD_TOKEN_FILE``.
        verify: what a service's certificate is checked against: a file of CA certificates, an ``ssl.SSLContext``, or
            the system's certificates (None).
        timeout: seconds for one request.
        deadline: seconds of retries for one item, from its first request; 0 means a single attempt. An item that waits
            for its first request does not fail while others get results.
        batch_size: most items in one request.
        batch_wait: seconds that a single item waits for others to share its request.
        max_in_flight: most requests at once, over all services.
        max_backoff: most seconds between two attempts; up to 60, and the deadline, if Retry-After asks for more.
        reward_models: whether a URL with a path of its own, which does not end in ``/v1/grade``, is a remote reward
            model, asked by OpenRLHF's protocol, one item a request; else it is a reward service behind that path.

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
    reward_models: bool = False

    def __post_init__(self) -> None:
        if not self.urls or isinstance(self.urls, str):
            raise ValueError("urls must be a tuple of at least one URL of a service, such as http://127.0.0.1:8000.")
        object.__setattr__(self, "urls", tuple(map(self._with_path, self.urls)))
        token = self.token if self.token is not None else token_of_environment()
        # The HTTP library would refuse anything else too, but its error quotes the token.
        if token is not None and not (token and token.isascii() and token.isprintable() and " " not in token):
            raise ValueError(
                f"The client's token, or that of {TOKEN_VARIABLE} or the file of {TOKEN_FILE_VARIABLE}, must be one "
                "word of printable ASCII."
            )
        object.__setattr__(self, "token", token)
        for name, least in LEAST.items():
            if not least <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be a number of at least {least}, not {getattr(self, name)}.")

    def grades(self, url: str) -> bool:
        """Whether a URL is asked by the reward service's own protocol, else by OpenRLHF's."""
        return speaks_grade(url) or not self.reward_models

    def _with_path(self, url: str) -> str:
        """The URL that is posted to: without a path it gets that of the service."""
        check_url(url)
        parts = urlsplit(url)
        return urlunsplit(parts._replace(path=parts.path.rstrip("/") or GRADE_PATH)) if self.grades(url) else url


def check_url(url: str) -> None:
    """Raises ValueError unless this is an http or https URL with a host and without credentials."""
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except (ValueError, AttributeError):
        valid = False
    if not valid:
        raise ValueError(f"A reward service's URL is like http://127.0.0.1:8000, not {url!r}.")
    if "@" in parts.netloc:
        raise ValueError(f"The URL of {parts.hostname} must not hold credentials: pass the token by its own setting.")


def speaks_grade(url: str) -> bool:
    """Whether a URL is one of the reward service's own protocol: its path ends in ``/v1/grade``, or it has none."""
    path = urlsplit(url).path.rstrip("/")
    return not path or path.endswith(GRADE_PATH)


def trusted(verify: str | Path | ssl.SSLContext | None) -> ssl.SSLContext:
    """What certificates are checked against: the system's are those of ``SSL_CERT_FILE``, where that is set.

    Raises ValueError, with a sentence, if there is no certificate that can be read.
    """
    if isinstance(verify, ssl.SSLContext):
        return verify
    try:
        return ssl.create_default_context(cafile=verify)
    except OSError as error:  # an ssl.SSLError too
        reason = "it has none in PEM form" if isinstance(error, ssl.SSLError) else error.strerror
        raise ValueError(f"{verify}, the file of certificates, cannot be read: {reason}.") from None


def token_of_environment() -> str | None:
    """The token of ``MATH_REWARD_TOKEN``, or the first of the file ``MATH_REWARD_TOKEN_FILE``; None if neither is set.

    Raises ValueError, with a sentence, if both are set, or the file cannot be read or is empty.
    """
    token, path = os.environ.get(TOKEN_VARIABLE), os.environ.get(TOKEN_FILE_VARIABLE)
    if not path:
        return token or None
    if token:
        raise ValueError(f"Set {TOKEN_VARIABLE} or {TOKEN_FILE_VARIABLE}, not both.")
    try:
        words = Path(path).read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}, the file of {TOKEN_FILE_VARIABLE}, cannot be read: {error}.") from None
    if not words:
        raise ValueError(f"{path}, the file of {TOKEN_FILE_VARIABLE}, is empty: write the service's token into it.")
    return words[0]
