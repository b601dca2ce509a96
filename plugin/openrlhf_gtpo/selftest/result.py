"""The result of a part of the self-test."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

State = Literal["passed", "failed", "not possible here"]


@dataclass(frozen=True)
class Result:
    """The result of a part.

    Attributes:
        state: passed, failed, or not possible here.
        sentence: for people.
        figures: numbers by name; the name has the unit.
        log: what the part's processes printed, or its end.
        seconds: the time that the part took.
    """

    state: State
    sentence: str
    figures: Mapping[str, float] = field(default_factory=dict)
    log: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Part:
    """A part of the self-test. If ``run`` raises, this part has failed and the others still run."""

    name: str
    run: Callable[[], Result]
    log: Path | None = None
    """The file that the part's processes print to, if they do."""


def passed(sentence: str, **figures: float) -> Result:
    return Result("passed", sentence, figures)


def failed(sentence: str, **figures: float) -> Result:
    return Result("failed", sentence, figures)


def impossible(sentence: str) -> Result:
    return Result("not possible here", sentence)
