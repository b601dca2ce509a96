"""Finds the name that somebody meant who mistyped one."""

import difflib
from collections.abc import Iterable

SHOWN_CHARACTERS = 40
"""How much of a name a sentence repeats."""


def no_such(what: str, name: str, known: Iterable[str]) -> str:
    """A sentence, without its full stop, that there is no ``name``. It names the nearest known name, or else all.

    Args:
        what: what the name is of: a field, a flag, ...
        name: the name as it was given.
        known: the names that exist, at least one.
    """
    names = list(known)
    said = f"There is no {what} {name[:SHOWN_CHARACTERS]!r}"
    near = difflib.get_close_matches(name[:SHOWN_CHARACTERS], names, n=1)
    if near:
        return f"{said}; did you mean {near[0]!r}?"
    *others, last = map(repr, names)
    return f"{said}; there {'are' if others else 'is'} {', '.join(others)}{' and ' if others else ''}{last}"


def sentence(said: str) -> str:
    """A saying of ``no_such`` with a full stop, unless it ends with a question."""
    return said if said.endswith("?") else f"{said}."
