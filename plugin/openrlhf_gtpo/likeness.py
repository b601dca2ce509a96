"""Which of the names that there are somebody may have meant by one that does not exist."""

import difflib
import re
from collections.abc import Iterable

__all__ = ["did_you_mean", "nearest"]

NAMED = 3
LIKE = 0.7
"""From here up, on a scale to 1, a name counts as like another."""


def nearest(typed: str, known: Iterable[str]) -> list[str]:
    """Those of the known names that are most like what was typed, at most three, the likeliest first.

    Names are compared as a whole and by their last parts (``--n_samples_per_prompt`` for
    ``--rollout.n_samples_per_prompt``), dots, dashes and underscores being alike (``--train_batch_size``).
    """
    scores = {name: _likeness(typed, name) for name in known}
    best = max(scores.values(), default=(0.0, 0.0))[0]
    close = [name for name, (score, _) in scores.items() if score >= max(LIKE, best - 0.1)]
    return sorted(close, key=lambda name: scores[name], reverse=True)[:NAMED]


def did_you_mean(typed: str, known: Iterable[str], otherwise: str) -> str:
    """``: did you mean A or B?``, or ``: `` and ``otherwise`` and a full stop where nothing is like it."""
    close = nearest(typed, known)
    return f": did you mean {' or '.join(close)}?" if close else f": {otherwise}."


def _likeness(typed: str, name: str) -> tuple[float, float]:
    """From 0 to 1: of whole names, of last parts or of a word that a last part begins or ends with, whichever is
    highest; and of whole names alone."""
    part, other = _plain(typed.rpartition(".")[2]), _plain(name.rpartition(".")[2])
    whole = difflib.SequenceMatcher(None, _plain(typed), _plain(name)).ratio()
    contained = 0.92 if len(part) >= 3 and (other.startswith(part) or other.endswith(part)) else 0.0
    return max(whole, contained, difflib.SequenceMatcher(None, part, other).ratio()), whole


def _plain(name: str) -> str:
    return re.sub(r"[._-]+", "_", name.lower()).strip("_")
