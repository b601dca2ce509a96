"""Finds the names that somebody may have meant who mistyped one: a flag, a field, a command."""

import difflib
import re
from collections.abc import Iterable

NAMED = 3
LIKE = 0.7
"""A name is suggested from this similarity up; 1 is equality."""


def nearest(typed: str, known: Iterable[str]) -> list[str]:
    """The known names most like what was typed: at most three, the most similar first.

    Names are compared whole and by their last part, so ``--n_samples_per_prompt`` finds
    ``--rollout.n_samples_per_prompt``. Dots, dashes and underscores count as equal (``--train_batch_size``).
    """
    scores = {name: _likeness(typed, name) for name in known}
    best = max(scores.values(), default=(0.0, 0.0))[0]
    close = [name for name, (score, _) in scores.items() if score >= max(LIKE, best - 0.1)]
    return sorted(close, key=lambda name: scores[name], reverse=True)[:NAMED]


def did_you_mean(typed: str, known: Iterable[str], otherwise: str) -> str:
    """The end of an error message: ``: did you mean A or B?``, or ``: {otherwise}.`` where no name is similar."""
    close = nearest(typed, known)
    return f": did you mean {' or '.join(close)}?" if close else f": {otherwise}."


def _likeness(typed: str, name: str) -> tuple[float, float]:
    """Two similarities from 0 to 1: the highest of three (whole names; last parts; a last part that begins or ends
    with the word typed), and that of the whole names, which breaks ties."""
    part, other = _plain(typed.rpartition(".")[2]), _plain(name.rpartition(".")[2])
    whole = difflib.SequenceMatcher(None, _plain(typed), _plain(name)).ratio()
    contained = 0.92 if len(part) >= 3 and (other.startswith(part) or other.endswith(part)) else 0.0
    return max(whole, contained, difflib.SequenceMatcher(None, part, other).ratio()), whole


def _plain(name: str) -> str:
    return re.sub(r"[._-]+", "_", name.lower()).strip("_")
