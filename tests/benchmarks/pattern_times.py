r"""Which regular expressions of the package take more than linear time for some text?

    python tests/benchmarks/pattern_times.py [--texts 600] [--seed 1] [--only choices._LETTERS]

Every compiled pattern of ``math_reward`` is tried, whatever its name, with the methods that its module uses it with.
The texts are made of its own parts: what it begins with, then what a repetition in it repeats, or its literals in
pairs and triples, very often, then an end that does not fit. ``(?:\(?[A-J]\)?[ ,]*)+`` gets "(A) (A) (A) ... \0".

A text for which a pattern takes long is made two and four times as long. Linear time grows as much; what grows more
is looked at again before it is called a fault. `BOUNDED` are the patterns that may grow faster, since their callers
show them only so many characters: for these the longest such text takes less than `MOST_SECONDS`. What is measured is
CPU time of this thread, the least of several. Prints the faults, and exits with 1 if there are any.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import pkgutil
import random
import re
import signal
import sys
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NamedTuple

import math_reward
from math_reward.grader import said_twice
from math_reward.grader.asked_form import QUESTION_CHARACTERS
from math_reward.grader.extraction import statement, values_at_end
from math_reward.grader.extraction.around import BRACE_CHARACTERS
from math_reward.grader.extraction.boxes import MAX_GAP

CHARACTERS = 4_000
LINEAR = 0.4e-6
"""Seconds a character. A pattern that needs less for `CHARACTERS` is not measured further: a quadratic one needs more,
unless what it tries at each place is very short."""
MOST_SECONDS = 0.04
"""What a pattern may take for the longest text that its callers show it. `FORMULA` takes the most, 0.03 s for 3,000
characters; the others at most 0.013 s."""
LIMIT = 1.0
"""Seconds after which a call is stopped: an exponential pattern would not come back."""
SLOW = 0.2
"""Seconds after which nobody asks how much longer a text of `CHARACTERS` would take if it were longer."""

BOUNDED = {
    "asked_form._ORDER": (QUESTION_CHARACTERS, "the end of a prompt"),
    "extraction.around._DASH": (24, "what stands just before a box"),
    "extraction.around._OPERATION_BEFORE": (BRACE_CHARACTERS, "what stands before a box"),
    "extraction.boxes._SEPARATOR": (MAX_GAP, "what stands between two boxes"),
    "words.letters._AT_END": (60, "the end of a text"),
    "extraction.statement._TAG": (statement.END_CHARACTERS, "the end of a text"),
    "extraction.values_at_end.FORMULA": (statement.END_CHARACTERS, "the end of a text"),
    "said_twice._ALONE": (said_twice.MAX_CHARACTERS, "a short answer"),
    "said_twice._OPEN": (said_twice.MAX_CHARACTERS, "a short answer"),
    "settings.OF_OTHERS": (1_000, "a variable of who starts the service"),
    "extraction.values_at_end._LIST": (values_at_end.LIST_CHARACTERS, "the end of a text"),
}
"""Patterns that are not linear: how many characters their callers show them, and of what."""

_parser = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")


# The patterns


class Used(NamedTuple):
    """A pattern, and how it is used."""

    name: str
    pattern: re.Pattern[Any]
    ways: tuple[str, ...]
    """``search``, which stands for `finditer` and `sub` too, ``match``, ``fullmatch``."""

    def call(self, way: str) -> Callable[[str], object]:
        pattern = self.pattern
        method: Callable[[Any], object] = getattr(pattern, "finditer" if way == "search" else way)
        if way == "search":  # all places
            return lambda text: deque(method(text), maxlen=0)
        if isinstance(pattern.pattern, bytes):
            return lambda text: method(text.encode(errors="surrogatepass"))
        return method


_SEARCHING = {"search", "finditer", "findall", "sub", "subn", "split"}
_WAYS = {"search", "match", "fullmatch"}
_NOT_HERE = ("math_reward.adapters.",)
"""Modules that need other packages, and grade nothing themselves."""


def modules() -> list[ModuleType]:
    found = pkgutil.walk_packages(math_reward.__path__, "math_reward.")
    names = [info.name for info in found if not info.name.startswith(_NOT_HERE) and "__main__" not in info.name]
    return [importlib.import_module(name) for name in names]


def _patterns_in(value: object, called: str) -> Iterator[tuple[re.Pattern[Any], str]]:
    """All patterns in a value, in tables and their rows too, and what each is called where it is used."""
    if isinstance(value, re.Pattern):
        yield value, called
    elif isinstance(getattr(value, "__self__", None), re.Pattern):
        yield value.__self__, f"re.compile.{value.__name__}"  # type: ignore[attr-defined]
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for field in value._fields:
            yield from _patterns_in(getattr(value, field), f".{field}")
    elif isinstance(value, (dict, list, tuple, set, frozenset)):
        for one in [*value.keys(), *value.values()] if isinstance(value, dict) else value:
            yield from _patterns_in(one, "pattern")  # the name of the loop over it


def patterns() -> list[Used]:
    """Every pattern of the package, by where it is, and whether it is searched for or ``match``-ed."""
    found: list[Used] = []
    names: dict[re.Pattern[Any], str] = {}
    ways: dict[re.Pattern[Any], set[str]] = defaultdict(set)
    for module in modules():
        called: dict[str, set[str]] = defaultdict(set)
        short = module.__name__.removeprefix("math_reward.").removeprefix("grader.")
        tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
        imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
        imported = {alias.asname or alias.name for node in imports for alias in node.names}
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            for argument in call.args:
                if isinstance(argument, ast.Name):
                    called[argument.id].add("search")  # It is handed on, and may be searched for there.
            if not isinstance(call.func, ast.Attribute) or not isinstance(call.func.value, (ast.Name, ast.Attribute)):
                continue
            value, method = call.func.value, call.func.attr
            owner = value.id if isinstance(value, ast.Name) else f".{value.attr}"
            way = {"search" if method in _SEARCHING else method} & _WAYS
            called[owner] |= way
            if owner == "re" and way and isinstance(call.args[0], ast.Constant):
                found.append(Used(f"{short}, line {call.lineno}", re.compile(call.args[0].value), tuple(way)))
        for name, table in vars(module).items():
            for number, (pattern, word) in enumerate(_patterns_in(table, name)):
                if name not in imported:
                    names.setdefault(pattern, f"{short}.{name}" + ("" if table is pattern else f"[{number}]"))
                ways[pattern] |= called[word] | ({word.rpartition(".")[2]} & _WAYS)
    found += [Used(name, pattern, tuple(sorted(ways[pattern] or _WAYS))) for pattern, name in names.items()]
    return sorted(found, key=lambda used: used.name)


# Texts of a pattern's own parts

_EXAMPLES = {
    "CATEGORY_SPACE": " \n", "CATEGORY_DIGIT": "1", "CATEGORY_WORD": "aB1_", "CATEGORY_NOT_SPACE": "a1.",
    "CATEGORY_NOT_DIGIT": "a -", "CATEGORY_NOT_WORD": " .-",
}  # fmt: skip
_OTHERS = "a1 .B\n-$(x,é{\\"
"""Of these one is taken where a class says only what it does not have."""
_LONG = 4
"""A repetition of more is repeated."""


class Text(NamedTuple):
    """A text made to take long: ``before``, then ``unit`` many times, then ``after``."""

    before: str
    unit: str
    after: str

    def of(self, characters: int) -> str:
        return self.before + self.unit * max(1, characters // len(self.unit)) + self.after


class Maker:
    """Makes texts of the parts of a pattern.

    Args:
        pattern: the pattern.
        dice: what decides which parts.
    """

    def __init__(self, pattern: re.Pattern[Any], dice: random.Random) -> None:
        said = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode()
        self._dice = dice
        self._tree = _parser.parse(said, pattern.flags & ~re.UNICODE if said is not pattern.pattern else pattern.flags)
        self._literals: list[str] = []
        self._repeated: list[tuple[list[int], Any]] = []
        """Each long repetition: the nodes that lead to it, and what it repeats."""
        self._walk(self._tree, [])

    def texts(self, count: int) -> Iterator[Text]:
        dice = self._dice
        for _ in range(count):
            path, body = dice.choice(self._repeated) if self._repeated and dice.random() < 0.7 else ([], self._tree)
            before, after = self._around(path) if path else ("", self._written(self._tree))
            kind = dice.random()
            if kind < 0.4:
                unit = "".join(self._written(body) for _ in range(dice.choice((1, 1, 1, 2, 3))))
            elif kind < 0.8 and self._literals:
                unit = "".join(dice.choice(self._literals) for _ in range(dice.choice((1, 2, 2, 3))))
            elif kind < 0.9:
                unit = self._around(path)[0] + self._written(body)
            else:
                unit = self._written(self._tree)
            unit = unit if len(unit) < 80 else unit[: dice.randint(1, 80)]
            before = dice.choice((before, before, "", "1", "x "))
            after = dice.choice(("\0", "\0", "x", "", after, after[: len(after) // 2] + "\0"))
            if unit:
                yield Text(before, unit, after)

    def _walk(self, nodes: Any, path: list[int]) -> None:
        """Collects the literals and the long repetitions."""
        run = ""
        for node in nodes:
            name, argument = str(node[0]), node[1]
            if name == "LITERAL":
                run += chr(argument)
                continue
            self._literals += [run] * bool(run)
            run = ""
            if name == "IN":
                self._literals += [self._written([node]) for _ in range(min(8, len(argument) + 1))]
            if name in ("MAX_REPEAT", "MIN_REPEAT") and argument[1] >= _LONG:
                self._repeated.append(([*path, id(node)], argument[2]))
            for part in _parts(node):
                self._walk(part, [*path, id(node), id(part)])
        self._literals += [run] * bool(run)

    def _around(self, path: Sequence[int]) -> tuple[str, str]:
        """Texts that lead to a node and follow it, so that all of it fits the pattern."""
        mark = "\ue000"
        before, _, after = self._written(self._tree, set(path), path[-1] if path else 0, mark).partition(mark)
        return before, after.replace(mark, "")

    def _written(self, nodes: Any, path: set[int] | None = None, to: int = 0, mark: str = "") -> str:
        """A text that fits the nodes, if no assertion is against it; ``mark`` stands where the node ``to`` is."""
        dice, path = self._dice, path or set()
        said = ""
        for node in nodes:
            name, argument = str(node[0]), node[1]
            if id(node) == to:
                said += mark
            elif name == "LITERAL":
                said += chr(argument)
            elif name == "NOT_LITERAL":
                said += dice.choice([other for other in _OTHERS if ord(other) != argument])
            elif name == "ANY":
                said += dice.choice("a1 ")
            elif name == "IN":
                said += self._of_class(argument)
            elif name == "BRANCH":
                wanted = [part for part in argument[1] if id(part) in path]
                said += self._written(dice.choice(wanted or argument[1]), path, to, mark)
            elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
                least = max(argument[0], id(node) in path)
                times = min(dice.randint(least, least + 2), max(least, argument[1]))
                said += "".join(self._written(argument[2], path, to, mark) for _ in range(times))
            elif name == "ASSERT" and argument[0] < 0:
                said += "" if said.endswith(before := self._written(argument[1])) else before
            elif name not in ("ASSERT_NOT", "AT", "GROUPREF") and (name != "ASSERT" or dice.random() < 0.3):
                said += "".join(self._written(part, path, to, mark) for part in _parts(node)[:1])
        return said

    def _of_class(self, items: Sequence[Any]) -> str:
        """A character of a class."""
        if str(items[0][0]) == "NEGATE":
            known = {part for item in items[1:] for part in self._members(item)}
            return self._dice.choice([other for other in _OTHERS if other not in known] or ["~"])
        return self._dice.choice(self._members(self._dice.choice(items)))

    def _members(self, item: Any) -> str:
        name, argument = str(item[0]), item[1]
        if name == "RANGE":
            low, high = argument
            return chr(low) + chr(high) + chr(self._dice.randint(low, high))
        return chr(argument) if name == "LITERAL" else _EXAMPLES[str(argument)]


def _parts(node: Any) -> list[Any]:
    """The lists of nodes in a node."""
    name, argument = str(node[0]), node[1]
    if name == "BRANCH":
        return list(argument[1])
    if name == "GROUPREF_EXISTS":
        return [part for part in argument[1:] if part]
    if name == "ATOMIC_GROUP":
        return [argument]
    return [argument[-1]] if isinstance(argument, tuple) and hasattr(argument[-1], "getwidth") else []


# Times


class TooLong(BaseException):
    """A call was stopped."""


def _stop(number: int, frame: FrameType | None) -> None:
    raise TooLong


def seconds(call: Callable[[str], object], text: str, times: int = 1, limit: float = LIMIT) -> float:
    """The CPU time of a call, the least of several; infinite where it was stopped."""
    taken = []
    old = signal.signal(signal.SIGVTALRM, _stop)
    try:
        for _ in range(times):
            signal.setitimer(signal.ITIMER_VIRTUAL, limit)
            begin = time.thread_time()
            call(text)
            taken.append(time.thread_time() - begin)
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except TooLong:
        return float("inf")
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, old)
    return min(taken)


def grows(call: Callable[[str], object], text: Text) -> str | None:
    """By how much longer a call takes for a text twice and four times as long, if that is more than linear."""
    said = ""
    for _ in range(2):  # It is looked at again before it is accused.
        if (once := seconds(call, text.of(CHARACTERS), 2, SLOW)) == float("inf"):
            said = f"more than {SLOW} s for {CHARACTERS:,} characters"
            continue
        often = 3 if once < 0.01 else 1
        first, second, third = (seconds(call, text.of(times * CHARACTERS), often) for times in (1, 2, 4))
        if third < 7 * first or second < 2.6 * first:
            return None
        said = f"{1_000 * first:.1f} ms for {CHARACTERS:,} characters; for two and four times as many "
        said += f"{second / first:.1f} and {third / first:.1f} times as long"
    return said


class Fault(NamedTuple):
    """A text for which a pattern takes too long."""

    name: str
    way: str
    text: Text
    said: str


def fault_of(call: Callable[[str], object], text: Text, bound: int) -> str | None:
    """What is wrong with the time that a call takes for a text; None if nothing is."""
    if not bound:
        is_quick = seconds(call, text.of(CHARACTERS), limit=SLOW) < LINEAR * CHARACTERS
        return None if is_quick else grows(call, text)
    longest = text.of(bound)
    slow = seconds(call, longest) > MOST_SECONDS and seconds(call, longest, 5)
    return f"{1_000 * slow:.1f} ms for {bound:,} characters, its longest text" if slow > MOST_SECONDS else None


def faults(used: Used, count: int, seed: int) -> Iterator[Fault]:
    """The first fault of each way in which a pattern is used, if one of ``count`` texts shows it."""
    bound = BOUNDED.get(used.name, (0, ""))[0]
    for way in used.ways:
        call, maker = used.call(way), Maker(used.pattern, random.Random(f"{seed} {used.name} {way}"))
        for text in maker.texts(count):
            if (said := fault_of(call, text, bound)) is not None:
                yield Fault(used.name, way, text, said)
                break


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=600, help="for each pattern and each way to use it")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="patterns whose name has this")
    arguments = parser.parse_args()
    chosen = [used for used in patterns() if arguments.only in used.name]
    found = 0
    for used in chosen:
        for fault in faults(used, arguments.texts, arguments.seed):
            found += 1
            print(f"{fault.name}, {fault.way}: {fault.said}: {fault.text}", flush=True)
    print(f"{len(chosen)} patterns, {found} faults")
    return 1 if found or not chosen else 0


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
