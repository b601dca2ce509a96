"""Grades math completions against reference answers: a grader (a library) and an HTTP service around it.

    from math_reward import Grader, grade

``grade(completion, reference)`` gives a ``Grade``; a ``Grader`` does so in a process that is killed when an answer
takes too long.

Rooms, lowest first: ``grader`` (pure), ``client`` (asks a service), ``pool`` (worker processes), ``page``, ``http``
(the service's process), ``adapters`` (for other trainers) and ``commands``. ``app.py`` puts the service together and
``cli.py`` is ``math-reward``; docs/architecture.md has the map.
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from math_reward.grader import Grade, Mode, Options, grade
    from math_reward.pool.grader import Grader

__all__ = ["Grade", "Grader", "Mode", "Options", "grade"]

# From a file of the package, which is there too where a Ray job ships the folder without an installation.
with open(os.path.join(os.path.dirname(__file__), "VERSION"), encoding="ascii") as _file:
    __version__ = _file.read().strip()


def __getattr__(name: str) -> Any:
    """The names of ``__all__``, when they are first asked for: the client alone needs no grader."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(
        importlib.import_module("math_reward.pool.grader" if name == "Grader" else "math_reward.grader"), name
    )
