"""Which judge is asked about answers in words, within which limits. Without pydantic, for ``math-reward grade``."""

import math
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit, urlunsplit

KEY_VARIABLE = "MATH_REWARD_JUDGE_KEY"
"""The environment variable with the endpoint's API key, which a command line would show."""

DEADLINE = 20.0
"""Less than a client waits for its answer."""
CONCURRENCY = 32
MAX_CONCURRENCY = 4096
MAX_DEADLINE = 3600

CHAT = "/chat/completions"


class JudgeRefused(ValueError):
    """A setting of the judge cannot be used; the message is a sentence."""


@dataclass(frozen=True)
class JudgeSettings:
    """
    Attributes:
        url: of an OpenAI-compatible endpoint, such as ``http://127.0.0.1:8001``; afterwards with the path of its chat
            completions.
        model: the name of the model there.
        key: sent as ``Authorization: Bearer``, if there is one.
        deadline: seconds that an item may take from its turn on, with both questions and all attempts.
        concurrency: items that may be asked about at once.

    Raises:
        JudgeRefused: a value cannot be used.
    """

    url: str
    model: str
    key: str | None = field(default=None, repr=False)
    deadline: float = DEADLINE
    concurrency: int = CONCURRENCY

    def __post_init__(self) -> None:
        object.__setattr__(self, "url", _with_path(self.url))
        if not self.model.strip():
            raise JudgeRefused("The judge's model has no name: set --judge-model to the endpoint's name of it.")
        if self.key is not None and not (self.key and self.key.isascii() and self.key.isprintable()):
            raise JudgeRefused(f"{KEY_VARIABLE} must be a key of printable ASCII.")
        if not 0 < self.deadline <= MAX_DEADLINE or math.isnan(self.deadline):
            raise JudgeRefused(f"The judge's deadline must be above 0 and at most {MAX_DEADLINE} seconds.")
        if not 1 <= self.concurrency <= MAX_CONCURRENCY:
            raise JudgeRefused(f"The judge's concurrency must be from 1 to {MAX_CONCURRENCY}.")


def judge_of(url: str | None, model: str | None, key: str | None, **limits: Any) -> JudgeSettings | None:
    """The judge that flags or variables name; None where they name none.

    Raises:
        JudgeRefused: there is a URL without a model, or a model without a URL, or a value cannot be used.
    """
    if not url and not model:
        return None
    if not url or not model:
        raise JudgeRefused("A judge needs both: --judge URL and --judge-model NAME.")
    return JudgeSettings(
        url, model, key or None, **{name: value for name, value in limits.items() if value is not None}
    )


def _with_path(url: str) -> str:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or parts.query or parts.fragment:
        raise JudgeRefused(f"A judge's URL is like http://127.0.0.1:8001, not {url!r}.")
    if "@" in parts.netloc:
        raise JudgeRefused(f"The judge's URL must not hold credentials: put the key into {KEY_VARIABLE}.")
    path = parts.path.rstrip("/").removesuffix(CHAT) or "/v1"
    return urlunsplit(parts._replace(path=path + CHAT))
