r"""All references and answers that are known, and mutants of them: one thing in a text changed.

The known ones are those of the tests (golden verdicts, own rows, unpaid answers) and, where they lie beside the
checkout, the labelled rows and the benchmarks of ``shared/data``.
"""

# Tables of notations are lists of texts.
# ruff: noqa: E501

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from math_reward.grader.extraction.statement import final_answer

TESTS = Path(__file__).resolve().parents[2] / "reward_server" / "grader"
SHARED = Path(__file__).resolve().parents[3].parent / "shared" / "data"
MAX_CHARACTERS = 200


class Known(NamedTuple):
    references: list[str]
    answers: list[str]
    """Answers, right and wrong ones, and the references too."""
    classes: dict[str, int]
    """Texts that rows labelled as right connect have the same number."""


def known(shared: Path = SHARED) -> Known:
    references: set[str] = set()
    answers: set[str] = set()
    same: list[tuple[str, str]] = []
    for reference, completion, label in _rows(shared):
        if len(reference) > MAX_CHARACTERS:
            continue
        references.add(reference)
        said = final_answer(completion)
        if said is None or len(said.text) > MAX_CHARACTERS:
            continue
        answers.add(said.text)
        if label:
            same.append((reference, said.text))
    return Known(sorted(references), sorted(answers | references), _classes(same))


def _rows(shared: Path) -> Iterator[tuple[str, str, bool]]:
    """A reference, a completion and whether the reference is its answer."""
    for path in [*sorted(TESTS.glob("*.jsonl")), *sorted(shared.glob("*.jsonl"))]:
        for row in _lines(path):
            if "references" in row:
                pairs = row.get("right", [])
                answers = [*row["references"], *row["answers"]]
                yield from ((reference, rf"\boxed{{{reference}}}", True) for reference in row["references"])
                yield from ((pair[0], rf"\boxed{{{pair[1]}}}", True) for pair in pairs)
                yield from ((row["references"][0], rf"\boxed{{{answer}}}", False) for answer in answers)
                continue
            reference = next((row[key] for key in ("gold", "reference", "answer") if key in row), None)
            if reference is None:
                continue
            reference = str(reference).rpartition("####")[2].strip()
            answer = row["answer"] if "reference" in row and "completion" not in row else reference
            completion = row.get("completion") or rf"\boxed{{{answer}}}"
            label = row.get("label", row.get("expected", row.get("verdict", "correct") == "correct"))
            yield reference, str(completion), bool(label) and not row.get("missed")


def _lines(path: Path) -> list[dict[str, Any]]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def _classes(same: list[tuple[str, str]]) -> dict[str, int]:
    parent: dict[str, str] = {}

    def root(text: str) -> str:
        while parent.setdefault(text, text) != text:
            text = parent[text]
        return text

    for one, other in same:
        parent[root(one)] = root(other)
    numbers = {text: index for index, text in enumerate(parent)}
    return {text: numbers[root(text)] for text in parent}


# ── mutants ──

_TOKEN = re.compile(r"\\[a-zA-Z]+|\\.|\d+(?:\.\d+)?|[a-zA-Z]+|\s+|.", re.DOTALL)
_WORDS = ["not", "about", "or", "half", "minus", "or 7", "for x>0", "squared", "thousand", "never", "%", "i", "wrong"]
_RELATIONS = {
    "=": r"\ne ", "<": ">", ">": "<", r"\le": r"\ge", r"\ge": r"\le", r"\leq": "<", r"\geq": ">", r"\in": r"\notin",
    r"\cup": r"\cap", r"\cap": r"\cup", r"\pm": r"\mp", r"\mp": r"\pm", "+": "-", "-": "+", r"\times": "+",
    r"\cdot": "/", "/": r"\cdot ", r"\sin": r"\cos", r"\cos": r"\sin", r"\ln": r"\log_2 ", r"\infty": "9",
    r"\pi": "3", r"\lor": r"\land", r"\land": r"\lor", ",": ".", ".": ",", ":": ",", "!": "",
    r"\mathbb": r"\text", "^": "_", "_": "^", "%": "", r"\%": "",
}  # fmt: skip
_BRACKETS = {"(": "[", "[": "(", ")": "]", "]": ")", r"\{": "(", r"\}": ")", "|": "("}
_UNITS = {
    "cm": "m", "km": "m", "m": "cm", "kg": "g", "g": "kg", "s": "h", "h": "min", "hours": "minutes", "minutes": "seconds", "meters": "feet", "feet": "inches", "inches": "feet", "dollars": "cents", "cents": "dollars", "days": "weeks",
    "years": "months", "mathbb": "mathbf", "units": "square", "AM": "PM", "PM": "AM", "percent": "permille",
}  # fmt: skip

_RANGES = [
    r", k\in\mathbb{Z}", r", n\in\mathbb{N}", r" \pmod 7", ", x>0", r" \text{ for all } n", r", n\ge 2",
    r", k\in\mathbb{R}", r" \cup \{1\}", r" \text{ for } x \ne 1", ", 0",
]  # fmt: skip

Mutation = Callable[[list[str], random.Random], list[str] | None]


def _place(tokens: list[str], source: random.Random, fits: Callable[[str], bool]) -> int | None:
    places = [index for index, token in enumerate(tokens) if fits(token)]
    return source.choice(places) if places else None


def _replaced(fits: Callable[[str], bool], change: Callable[[str, random.Random], str]) -> Mutation:
    def mutate(tokens: list[str], source: random.Random) -> list[str] | None:
        place = _place(tokens, source, fits)
        if place is None:
            return None
        return [*tokens[:place], change(tokens[place], source), *tokens[place + 1 :]]

    return mutate


def _digit(token: str, source: random.Random) -> str:
    places = [index for index, character in enumerate(token) if character.isdigit()]
    place = source.choice(places)
    new = source.choice([digit for digit in "0123456789" if digit != token[place]])
    return token[:place] + new + token[place + 1 :]


def _swapped(tokens: list[str], source: random.Random) -> list[str] | None:
    if len(tokens) < 2:
        return None
    one, other = sorted(source.sample(range(len(tokens)), 2))
    return [*tokens[:one], tokens[other], *tokens[one + 1 : other], tokens[one], *tokens[other + 1 :]]


def _without_a_part(tokens: list[str], source: random.Random) -> list[str] | None:
    commas = [index for index, token in enumerate(tokens) if token in (",", ";", r"\\", "&", r"\cup", "and", "or")]
    if not commas:
        return None
    place = source.choice(commas)
    return tokens[:place] if source.random() < 0.5 else tokens[place + 1 :]


def _renamed(tokens: list[str], source: random.Random) -> list[str] | None:
    letters = sorted({token for token in tokens if len(token) == 1 and token.isalpha()})
    if not letters:
        return None
    old, new = source.choice(letters), source.choice("abcknmrstxyzABCK")
    return [new if token == old else token for token in tokens] if old != new else None


def _moved_exponent(tokens: list[str], source: random.Random) -> list[str] | None:
    place = _place(tokens, source, lambda token: token == "^")
    if place is None or place + 1 >= len(tokens):
        return None
    end = place + 2
    if tokens[place + 1] == "{":
        end = next((i + 1 for i in range(place, len(tokens)) if tokens[i] == "}"), len(tokens))
    rest = tokens[:place] + tokens[end:]
    to = source.randrange(len(rest) + 1)
    return [*rest[:to], *tokens[place:end], *rest[to:]]


def _inserted(pieces: list[str]) -> Mutation:
    def mutate(tokens: list[str], source: random.Random) -> list[str] | None:
        place = source.randrange(len(tokens) + 1)
        return [*tokens[:place], source.choice(pieces), *tokens[place:]]

    return mutate


def _any(token: str) -> bool:
    return not token.isspace()


MUTATIONS: dict[str, Mutation] = {
    "token deleted": _replaced(_any, lambda token, source: ""),
    "token doubled": _replaced(_any, lambda token, source: token + " " + token),
    "tokens swapped": _swapped,
    "token of another place": lambda tokens, source: _replaced(_any, lambda token, s: s.choice(tokens))(tokens, source),
    "sign put": _inserted(["-", "+", "/2", r"\pm ", "!", "'", r"\sqrt", "^2", "_1", "2", "0", ".", "1/"]),
    "digit": _replaced(lambda token: any(map(str.isdigit, token)), _digit),
    "sign or relation": _replaced(lambda token: token in _RELATIONS, lambda token, source: _RELATIONS[token]),
    "bracket": _replaced(lambda token: token in _BRACKETS, lambda token, source: _BRACKETS[token]),
    "unit": _replaced(lambda token: token in _UNITS, lambda token, source: _UNITS[token]),
    "word put": lambda tokens, source: _inserted([rf"\text{{ {word} }}" for word in _WORDS] + _WORDS)(tokens, source),
    "letter renamed": _renamed,
    "exponent moved": _moved_exponent,
    "part dropped": _without_a_part,
    "range": lambda tokens, source: [*tokens, source.choice(_RANGES)],
}  # fmt: skip


def mutants(texts: list[str], seed: int) -> Iterator[tuple[str, str, str]]:
    """The name of a mutation, a text and its mutant, without end."""
    source = random.Random(seed)
    tokens = {text: _TOKEN.findall(text) for text in texts if text}
    while True:
        for text, parts in tokens.items():
            name = source.choice(list(MUTATIONS))
            changed = MUTATIONS[name](parts, source)
            if changed is not None and (mutant := "".join(changed)) != text:
                yield name, text, mutant
