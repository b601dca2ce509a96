"""What a part of the self-test found."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Part", "Result", "State", "failed", "impossible", "passed"]

State = Literal["passed", "failed", "not possible here"]


@dataclass(frozen=True)
class Result:
    """``figures``: by name, with the unit in it; ``seconds``: what the part took."""

    state: State
    sentence: str
    figures: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True)
class Part:
    """``run`` gives the result; whatever it raises is a failure of the part, and the others go on."""

    name: str
    run: Callable[[], Result]


def passed(sentence: str, **figures: float) -> Result:
    return Result("passed", sentence, figures)


def failed(sentence: str, **figures: float) -> Result:
    return Result("failed", sentence, figures)


def impossible(sentence: str) -> Result:
    return Result("not possible here", sentence)
