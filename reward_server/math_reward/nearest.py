"""Finds the names that somebody may have meant who mistyped one: a flag, a field, a command, a file."""

import argparse
import difflib
import itertools
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

NAMED = 3
LIKE = 0.7
"""A name is suggested from this similarity up; 1 is equality."""
SHORT, LIKE_SHORT = 3, 0.66
"""Of so many letters two in their order are enough."""


def nearest(typed: str, known: Iterable[str]) -> list[str]:
    """The known names most like what was typed: at most three, the most similar first.

    Names are compared whole and by their last part, so ``--n_samples_per_prompt`` finds
    ``--rollout.n_samples_per_prompt``. Dots, dashes and underscores count as equal (``--train_batch_size``).
    """
    scores = {name: _likeness(typed, name) for name in known}
    best, least = max(scores.values(), default=(0.0, 0.0))[0], LIKE_SHORT if len(_plain(typed)) <= SHORT else LIKE
    close = [name for name, (score, _) in scores.items() if score >= max(least, best - 0.1)]
    return sorted(close, key=lambda name: scores[name], reverse=True)[:NAMED]


def did_you_mean(typed: str, known: Iterable[str], otherwise: str) -> str:
    """The end of an error message: ``: did you mean A or B?``, or ``: {otherwise}.`` where no name is similar."""
    close = nearest(typed, known)
    return f": did you mean {' or '.join(close)}?" if close else f": {otherwise}."


def beside(path: str | os.PathLike[str]) -> str:
    """Of a file or a folder that is not there: `` (did you mean A or B?)``, with what its folder has under similar
    names, or nothing."""
    folder, name = os.path.split(os.path.normpath(path))
    try:
        there = [] if os.path.exists(path) else sorted(os.listdir(folder or "."))
    except OSError:  # no folder, or nobody may look into it
        there = []
    stems = {one: os.path.splitext(one)[0].replace(".", "_") for one in there}
    close = nearest(os.path.splitext(name)[0].replace(".", "_"), stems.values())
    meant = [os.path.join(folder, one) for stem in close for one in stems if stems[one] == stem][:NAMED]
    return f" (did you mean {' or '.join(meant)}?)" if meant else ""


class Parser(argparse.ArgumentParser):
    """argparse's, which says what is nearest to a flag or a choice that does not exist, before it says what is
    missing."""

    also: Sequence[str] = ()
    """Flags that another parser has taken out of the command line."""
    renamed: ClassVar[Mapping[str, str]] = {}
    """Flags that there were once -> what to do now, as the end of a sentence."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:  # argparse has overloads
        """As argparse's; one sentence a line for each flag that does not exist."""
        words = sys.argv[1:] if args is None else list(args)
        known = [*self._option_string_actions, *self.also]
        is_like = str.startswith if self.allow_abbrev else str.__eq__
        typed = [word.partition("=")[0] for word in itertools.takewhile("--".__ne__, words) if word[:2] == "--"]
        wrong = [name for name in typed if " " not in name and not any(is_like(flag, name) for flag in known)]
        if not wrong:
            parsed, rest = self.parse_known_args(words, namespace)
            if not rest:
                return parsed
            wrong = [word.partition("=")[0] for word in rest if word.startswith("-")] or rest[:1]
        otherwise = f"{'--help-all' if '--help-all' in known else '--help'} lists them"
        said = {name: self.renamed.get(name) or did_you_mean(name, known, otherwise) for name in wrong}
        self.error("\n".join(f"There is no flag {name}{end}" for name, end in said.items()))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = [*map(str, action.choices)]
            near = did_you_mean(str(value), known, f"it is one of {', '.join(known)}").rstrip(".")
            raise argparse.ArgumentError(action, f"there is no {value!r}{near}")


def _likeness(typed: str, name: str) -> tuple[float, float]:
    """Two similarities from 0 to 1: the highest of three (whole names; last parts; a last part that begins or ends
    with the word typed), and that of the whole names, in whatever order their words are, which breaks ties."""
    part, other = _plain(typed.rpartition(".")[2]), _plain(name.rpartition(".")[2])
    pairs = ((_plain(typed), _plain(name)), (_sorted(typed), _sorted(name)))
    whole = max(difflib.SequenceMatcher(None, *pair).ratio() for pair in pairs)
    contained = 0.92 if len(part) >= 3 and (other.startswith(part) or other.endswith(part)) else 0.0
    return max(whole, contained, difflib.SequenceMatcher(None, part, other).ratio()), whole


def _sorted(name: str) -> str:
    return "_".join(sorted(_plain(name).split("_")))


def _plain(name: str) -> str:
    return re.sub(r"[._-]+", "_", name.lower()).strip("_")
