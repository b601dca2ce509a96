"""What somebody meant who mistyped a name."""

import difflib
from collections.abc import Iterable

SHOWN_CHARACTERS = 40
"""How much of a name a sentence repeats."""


def no_such(what: str, name: str, known: Iterable[str]) -> str:
    """A sentence without its full stop: that there is no ``name``, and the nearest that there is, or else all.

    Args:
        what: a field, a flag, ...
        name: as it was given.
        known: those that there are, at least one.
    """
    names = list(known)
    said = f"There is no {what} {name[:SHOWN_CHARACTERS]!r}"
    near = difflib.get_close_matches(name[:SHOWN_CHARACTERS], names, n=1)
    if near:
        return f"{said}; did you mean {near[0]!r}?"
    *others, last = map(repr, names)
    return f"{said}; there {'are' if others else 'is'} {', '.join(others)}{' and ' if others else ''}{last}"
