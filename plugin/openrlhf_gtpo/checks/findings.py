"""The result of a check: a name, a state and one sentence."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warning", "fault", "skipped"]

NAMED = 5
"""Most line numbers in a sentence."""


@dataclass(frozen=True)
class Finding:
    """The result of a check. ``sentence`` says what was found, and for a fault or a warning what to do."""

    name: str
    state: State
    sentence: str


def ok(name: str, sentence: str) -> Finding:
    return Finding(name, "ok", sentence)


def warning(name: str, sentence: str) -> Finding:
    """Training may work, or work worse than it could."""
    return Finding(name, "warning", sentence)


def fault(name: str, sentence: str) -> Finding:
    """Training would fail, or learn from something wrong."""
    return Finding(name, "fault", sentence)


def skipped(name: str, sentence: str) -> Finding:
    """Not checked; never counts as passed."""
    return Finding(name, "skipped", sentence)


def places(lines: Sequence[int]) -> str:
    """``line 7``, ``lines 7 and 9`` or ``lines 1, 2, 3, 4, 5 and 12 more``.

    Args:
        lines: line numbers, at least one.
    """
    if len(lines) == 1:
        return f"line {lines[0]}"
    named = [str(line) for line in lines[:NAMED]]
    last = f"{len(lines) - NAMED:,} more" if len(lines) > NAMED else named.pop()
    return f"lines {', '.join(named)} and {last}"
