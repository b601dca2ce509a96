"""What a task that a small policy can learn on two cores is: expressions, questions, answers, and worked responses of
mixed quality. `last_digit.py` is the quickstart's."""

from __future__ import annotations

import random
import sys
import traceback
import zlib
from abc import ABC, abstractmethod
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

HELD_OUT_SHARE = 10  # one expression in so many is held out
HELD_OUT_PROMPTS = 400
SPLIT_SEEDS = {"train": 1, "heldout": 2}  # the same prompts whatever the seed of the policy: runs stay comparable
DRAWN_IN_VAIN = 200_000  # a split has no more expressions once so many were drawn and none was new

QUICKSTART = "last_digit"


def load(name: str) -> Task:
    """The quickstart's task, or the TASK of a Python file.

    Raises:
        ValueError: there is no such task or file, or the file has no TASK.
    """
    if name == QUICKSTART:
        return import_module(name).TASK
    if not name.endswith(".py"):
        raise ValueError(f"there is no task {name}: name {QUICKSTART}, or a .py file with a TASK")
    return _from_file(Path(name)).TASK


def _from_file(path: Path) -> ModuleType:
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ValueError(f"there is no file {path}")
    module = module_from_spec(spec)
    sys.modules[path.stem] = module  # where inspect looks for the source
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        where = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        line = f", line {where[-1]}" if where else ""
        raise ValueError(f"{path}{line}: {type(error).__name__}: {error}") from error
    if not isinstance(getattr(module, "TASK", None), Task):
        raise ValueError(
            f"{path} has no TASK, an object of a subclass of task.Task: end the file with TASK = YourClass()"
        )
    return module


class Task(ABC):
    """A family of expressions with one answer each; an expression is hashable, and `str` gives its text."""

    name: str
    words: tuple[str, ...]  # of questions and answers, one token each beside the single bytes
    layers: int  # of the policy
    max_length: int  # tokens, prompt and response together
    max_new_tokens = 40  # of a response, with the token that ends it
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
        """An expression of one split.

        Raises:
            ValueError: none of very many that were drawn belongs to it.
        """
        for _ in range(DRAWN_IN_VAIN):
            expression = self.draw(rng)
            if self.is_held_out(expression) == held_out:
                return expression
        raise ValueError(_too_few(0, 1, held_out))

    def expressions(self, count: int, seed: int, held_out: bool) -> list[Any]:
        """`count` distinct expressions of one split. A longer list with the same seed begins with the shorter one.

        Raises:
            ValueError: more are asked for than there are, or than can be drawn in reasonable time.
        """
        if not 1 <= count <= self.max_distinct:
            raise ValueError(f"the task can give 1 to {self.max_distinct} distinct expressions, not {count}")
        rng, distinct, in_vain = random.Random(seed), dict[Any, None](), 0
        while len(distinct) < count:
            before = len(distinct)
            distinct[self.sample(rng, held_out)] = None
            in_vain = in_vain + 1 if len(distinct) == before else 0
            if in_vain * (HELD_OUT_SHARE if held_out else 1) > DRAWN_IN_VAIN:
                raise ValueError(_too_few(len(distinct), count, held_out))
        return list(distinct)


def _too_few(found: int, wanted: int, held_out: bool) -> str:
    split = f"for the held-out split, which is one in {HELD_OUT_SHARE}" if held_out else "for training"
    return (
        f"draw gives only {found} different problems {split}, and {wanted} are needed: let it choose from more, such "
        "as longer texts or larger numbers"
    )


def boxed(digit: int | str) -> str:
    return f"\\boxed{{{digit}}}"
