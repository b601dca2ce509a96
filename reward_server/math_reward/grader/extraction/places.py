"""Tables of the places where an answer may stand, in the order that counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Place(Generic[T]):
    """Where an answer may stand in a text."""

    about: str
    read: Callable[[T], str | None]
    """None: it stands not there; empty: the text says that it has no answer, or its answer cannot be read."""
    example: str
    """A text whose answer stands there."""


def first(places: Iterable[Place[T]], text: T) -> str | None:
    """The answer in the first place that has one; None if none has, or one says that there is none."""
    found = (place.read(text) for place in places)
    return next((answer for answer in found if answer is not None), None) or None
