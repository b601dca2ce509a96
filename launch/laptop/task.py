"""What a task that a small policy can learn on two cores is: expressions, questions, answers, and worked responses of
mixed quality. `last_digit.py` is the quickstart's, `gates.py` the study's, `trail.py` the guided study's,
`wordings.py` the entropy study's."""

from __future__ import annotations

import random
import sys
import zlib
from abc import ABC, abstractmethod
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

HELD_OUT_SHARE = 10  # one expression in so many is held out

NAMES = ("last_digit", "gates", "trail", "wordings")
SKILLS = ("weak", "strong")


def load(name: str, skill: str = "weak") -> Task:
    """The task of one of NAMES, or the TASK of a Python file, with the demonstrations of a policy of that skill.

    Raises:
        ValueError: there is no such task or file, the file has no TASK, or there are no demonstrations of that skill.
    """
    if name.endswith(".py"):
        module = _from_file(Path(name))
    elif name in NAMES:
        module = import_module(name)
    else:
        raise ValueError(f"there is no task {name}: name one of {', '.join(NAMES)}, or a .py file with a TASK")
    if skill == "weak":
        return module.TASK
    if not hasattr(module, "STRONG"):
        raise ValueError(f"the task {name} has demonstrations of a weak policy only, none of a {skill} one")
    return module.STRONG


def _from_file(path: Path) -> ModuleType:
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ValueError(f"there is no file {path}")
    module = module_from_spec(spec)
    sys.modules[path.stem] = module  # where inspect looks for the source
    spec.loader.exec_module(module)
    if not isinstance(getattr(module, "TASK", None), Task):
        raise ValueError(f"{path} has no TASK, an object of a subclass of task.Task")
    return module


class Task(ABC):
    """A family of expressions with one answer each; an expression is hashable, and `str` gives its text."""

    name: str
    words: tuple[str, ...]  # of questions and answers, one token each beside the single characters
    layers: int  # of the policy
    max_length: int  # tokens, prompt and response together
    max_new_tokens = 40  # of a response
    warm_start_steps: int
    warm_start_batch = 64  # demonstrations of one step
    max_distinct = 20_000  # expressions of one split; drawing distinct ones stays quick below it

    @abstractmethod
    def draw(self, rng: random.Random) -> Any:
        """An expression of either split."""

    @abstractmethod
    def question(self, expression: Any) -> str: ...

    @abstractmethod
    def answer(self, expression: Any) -> str: ...

    @abstractmethod
    def worked(self, expression: Any, slip: float = 0.0, rng: random.Random | None = None) -> str:
        """A worked response that ends in the boxed result; with probability `slip` a line takes a wrong turn."""

    @abstractmethod
    def demonstration(self, expression: Any, rng: random.Random) -> str:
        """A response of mixed quality for the warm start: what a careless worker would hand in."""

    def is_held_out(self, expression: Any) -> bool:
        """Whether an expression belongs to the held-out split: it alone decides, so no seed can leak one."""
        return zlib.crc32(str(expression).encode()) % HELD_OUT_SHARE == 0

    def sample(self, rng: random.Random, held_out: bool) -> Any:
        """An expression of one split."""
        while True:
            expression = self.draw(rng)
            if self.is_held_out(expression) == held_out:
                return expression

    def expressions(self, count: int, seed: int, held_out: bool) -> list[Any]:
        """`count` distinct expressions of one split. A longer list with the same seed begins with the shorter one.

        Raises:
            ValueError: more are asked for than can be drawn in reasonable time.
        """
        if not 1 <= count <= self.max_distinct:
            raise ValueError(f"the task can give 1 to {self.max_distinct} distinct expressions, not {count}")
        rng, distinct = random.Random(seed), dict[Any, None]()
        while len(distinct) < count:
            distinct[self.sample(rng, held_out)] = None
        return list(distinct)


def boxed(digit: int | str) -> str:
    return f"\\boxed{{{digit}}}"
