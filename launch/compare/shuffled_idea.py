"""The control of an idea: the same function, given the entropies and the log-probabilities of other tokens.

Both are permuted together among the tokens of the same position, group and class. So every token has a pair that a
token had, and only which token has it is chance: what the idea gains without that, it does not gain by its signal.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
permuted = runpy.run_path(str(ROOT / "docs" / "examples" / "controls.py"))["permuted"]

FILE = '''"""The shuffled control of {name}: see launch/compare/shuffled_idea.py."""

import runpy

shuffled_idea = runpy.run_path({path!r})["control"]({place!r})
'''


def control(place: str) -> Callable[..., Any]:
    """The idea ``FILE.py:NAME`` on batches whose entropies and log-probabilities are shuffled."""
    path, _, name = place.rpartition(":")
    idea = runpy.run_path(path)[name]

    def shuffled_idea(entropy: Any, logprob: Any, mask: Any, correct: Any, reward: Any, group: Any) -> Any:
        entropy, logprob = permuted([entropy, logprob], mask, correct, group)
        return idea(entropy=entropy, logprob=logprob, mask=mask, correct=correct, reward=reward, group=group)

    return shuffled_idea


def write_control(place: str) -> str:
    """Write the control beside the idea's file; returns its ``FILE.py:NAME``."""
    path, _, name = place.rpartition(":")
    file = Path(path).resolve().with_name(f"shuffled_{Path(path).name}")
    own = str(Path(__file__).resolve())
    file.write_text(FILE.format(name=name, path=own, place=f"{Path(path).resolve()}:{name}"), encoding="utf-8")
    return f"{file}:shuffled_idea"
