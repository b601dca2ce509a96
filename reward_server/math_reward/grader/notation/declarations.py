r"""Reads what a formula says about its parameters: ``4k + 1, k \in \mathbb{N}``, ``e^{k\pi i/3}, k = 0, 1, 2``, ``(t,
2t) \text{ for some real } t``. Their range is a part of the answer; their names are not.
"""

from __future__ import annotations

import itertools
import re
from fractions import Fraction
from typing import NamedTuple

from math_reward.grader.errors import NotMathematics
from math_reward.grader.notation.parse import parse_normalised
from math_reward.grader.notation.syntax import Collection, Node, Number, Relation, Symbol, substituted, symbols

MAX_VALUES = 64
MAX_DECLARATIONS = 4

_LETTER = r"(?:[a-zA-Z]|\\(?:alpha|beta|gamma|lambda|mu|theta|ell|tau|omega))(?:_\{?\d\}?)?"
_LETTERS = rf"{_LETTER}(?: ?, ?{_LETTER}){{0,3}}"
_SET = (
    r"(?:\\math(?:bb|bf) ?\{? ?(?P<set>[ZNRQC]) ?\}?|(?P<plain>[ZNRQC])(?![a-zA-Z]))"
    r"(?P<part>(?: ?\^ ?\{? ?[+*] ?\}?| ?_ ?\{? ?(?:\+|0|> ?0|\\ge ?[01]|>= ?[01]) ?\}?){0,2})"
)
_INTEGER = r"-?\d{1,3}"
_KIND = (
    r"(?P<kind>real|integer|natural|positive integer|non-?negative integer|complex|constant)s?"
    r"(?: numbers?| constants?)?"
)
_RANGES = (
    rf"(?P<names>{_LETTERS}) ?\\in ?{_SET}",
    rf"(?P<names>{_LETTER}) ?(?:=|\\in ?\\\{{) ?(?P<list>{_INTEGER}(?: ?, ?(?:{_INTEGER}|\\ldots|\.\.\.)){{1,40}})"
    r"(?: ?\\\})?",
    rf"(?P<low>{_INTEGER}) ?(?:\\le|<=) ?(?P<names>[i-np]) ?(?:\\le|<=) ?(?P<high>{_INTEGER})",
    r"(?P<names>[i-np]) ?(?:\\ge|>=) ?(?P<least>[01])",
    rf"(?P<names>{_LETTERS}) (?:(?:is|are) )?(?:an? |any |arbitrary |some )?{_KIND}",
    rf"(?:an? |any |all |every |some |arbitrary ){{0,2}}{_KIND} (?P<names>{_LETTERS})",
)  # fmt: skip
# Of "a x, a \\in R" the x is a factor, and no parameter.
_BEFORE = rf"(?: ?[,;:(] ?| (?=[a-zA-Z\\0-9-])(?!{_LETTER} ?,)|(?<=\)) ?| ?(?=\\text))"
_WORDS = (
    r"(?:\\text ?\{ ?)?(?:,? ?(?:for|where|with) )?(?:(?:all|any|some|every|each|arbitrary) ){0,2}(?:constants? )?"
    r"(?:\} ?)?"
)
_AT_END = tuple(
    re.compile(rf"{_BEFORE}(?:\\forall ?)?{_WORDS}(?:\\text ?\{{ ?)?(?:{form}) ?\}}? ?\)? ?$") for form in _RANGES
)
_INSIDE = (
    re.compile(rf" ?\( ?{_RANGES[0]} ?\)"),
    re.compile(rf" ?, ?{_RANGES[0]}(?= ?(?:,|;|\\text ?\{{ ?,? ?or|or ))"),
)
_ANYWHERE = tuple(re.compile(rf"(?<![a-zA-Z\\]){form}(?![a-zA-Z])") for form in (_RANGES[0], *_RANGES[4:]))
_NO_KIND = re.compile(rf"\bfor (?:some|any|all|every|each|arbitrary) (?P<names>{_LETTERS})(?![a-zA-Z])")
_TEXT_BRACES = re.compile(r"(?:\\text\w* ?\{|\}| )+")
# A text without one of these declares nothing.
_HINT = re.compile(
    r"\\in(?![a-z])|integer|real|natural|constant|complex|\bfor |[i-np] ?= ?-?\d{1,3} ?,|\\[lg]e(?![a-z])|<=|>="
)
_KINDS = {"real": "reals", "integer": "integers", "natural": "naturals", "complex": "complexes", "constant": "reals",
          "positive integer": "from 1", "non-negative integer": "from 0", "nonnegative integer": "from 0"}  # fmt: skip
_SETS = {"Z": "integers", "N": "naturals", "R": "reals", "Q": "rationals", "C": "complexes"}
_FROM_ZERO_OR_ONE = frozenset(["naturals", "from 0", "from 1"])
WHOLE_NUMBERS = _FROM_ZERO_OR_ONE | {"integers"}

Domain = str | tuple[int, ...]
"""The name of a set, ``from 0``, ``from 1``, or the values themselves."""


class Reading(NamedTuple):
    """A tree, and the range of each parameter by its name. A parameter with a few values is written out as a list."""

    tree: Node
    domains: dict[str, Domain]


def read(normal: str) -> Reading:
    """The tree of a normalised text, and the ranges of its parameters. Raises like ``parse_normalised``."""
    if _HINT.search(normal):
        reading = _declared(normal)
        if reading is not None:
            return reading
    return Reading(parse_normalised(normal), {})


def declared(normal: str) -> dict[str, Domain]:
    """Every name to which a text gives a range, wherever this stands; an empty one if it does not say which."""
    if not _HINT.search(normal):
        return {}
    text = _TEXT_BRACES.sub(" ", normal)
    names: dict[str, Domain] = {}
    for match in _NO_KIND.finditer(text):
        names |= dict.fromkeys((name.strip() for name in match["names"].split(",")), "")
    for pattern in _ANYWHERE:
        for match in pattern.finditer(text):
            names |= _domains_of(match)
    return names


def compatible(left: dict[str, Domain], right: dict[str, Domain]) -> bool:
    """Whether the ranges of both agree; a range that only one side gives does not count."""
    if not left or not right:
        return True
    known = [(left, right), (right, left)]
    return all(any(same_domain(domain, other) for other in b.values()) for a, b in known for domain in a.values())


def same_domain(left: Domain, right: Domain) -> bool:
    """Whether two ranges agree; the natural numbers may begin at 0 or at 1."""
    return left == right or ("naturals" in (left, right) and {left, right} <= _FROM_ZERO_OR_ONE)


def _declared(normal: str) -> Reading | None:
    text, domains = _split(_without_braces(normal))
    if not domains:
        return None
    try:
        tree = parse_normalised(text)
    except NotMathematics:
        return None
    if isinstance(tree, Symbol) or not all(_is_parameter(name, tree) for name in domains):
        return None
    listed = {name: domain for name, domain in domains.items() if isinstance(domain, tuple)}
    if len(listed) > 1 or (listed and len(domains) > 1):
        return None
    for name, values in listed.items():
        items = tuple(substituted(tree, {name: Number(Fraction(value))}) for value in values)
        return Reading(Collection("list", items), {})
    return Reading(tree, domains)


def _without_braces(normal: str) -> str:
    r"""``\{2^n : n \in \mathbb{N}\}`` as a formula and a range; a set that names its elements stays one."""
    if not (normal.startswith("\\{") and normal.endswith("\\}")) or normal.count("\\{") != 1:
        return normal
    inside = normal[2:-2].strip()
    for bar in ("|", ":"):
        element, separator, condition = inside.rpartition(bar)
        if separator and element.count("|") % 2 == 0 and len(element.strip()) > 2 and "\\in" not in element:
            return f"{element.strip()}, {condition.strip()}"
    return normal


def _split(text: str) -> tuple[str, dict[str, Domain]]:
    domains: dict[str, Domain] = {}
    for pattern in _INSIDE:
        for match in list(pattern.finditer(text))[:MAX_DECLARATIONS]:
            domains |= _domains_of(match)
        text = pattern.sub("", text)
    for _ in range(MAX_DECLARATIONS):
        matches = (pattern.search(text) for pattern in _AT_END)
        last = next((match for match in matches if match is not None and match.start() > 0), None)
        if last is None:
            break
        more = _domains_of(last)
        if not more:
            return text, {}
        domains |= more
        text = text[: last.start()].rstrip(" ,;:")
    return text, domains


def _domains_of(match: re.Match[str]) -> dict[str, Domain]:
    groups = match.groupdict()
    names = [name.strip().replace("{", "").replace("}", "") for name in groups["names"].split(",")]
    domain: Domain | None = None
    if groups.get("list"):
        domain = _values(groups["list"])
    elif groups.get("low"):
        values = tuple(range(int(groups["low"]), int(groups["high"]) + 1))
        domain = values if 0 < len(values) <= MAX_VALUES else None
    elif groups.get("least"):
        domain = f"from {groups['least']}"
    elif groups.get("kind"):
        domain = _KINDS[groups["kind"]]
    else:
        domain = _of_set(groups.get("set") or groups.get("plain") or "", groups.get("part") or "")
    return {} if domain is None else dict.fromkeys(names, domain)


def _of_set(letter: str, part: str) -> Domain:
    """``Z^+`` is the whole numbers from 1 on, ``Z_{\\ge 0}`` those from 0 on."""
    part = re.sub(r"[\s^_{}]", "", part)
    if letter in ("Z", "N") and part:
        return "from 0" if part in ("0", "\\ge0", ">=0") else "from 1"
    return _SETS[letter] + part


def _values(text: str) -> tuple[int, ...] | None:
    """``0, 1, 2`` and ``0, 1, \\ldots, 5``."""
    parts = [part.strip() for part in text.split(",")]
    if not any(part in ("\\ldots", "...") for part in parts):
        return tuple(map(int, parts))
    place = next(index for index, part in enumerate(parts) if part in ("\\ldots", "..."))
    before, after = parts[:place], parts[place + 1 :]
    if len(after) != 1 or len(before) < 1 or after[0] in ("\\ldots", "..."):
        return None
    numbers = list(map(int, before))
    step = numbers[1] - numbers[0] if len(numbers) > 1 else 1
    if step <= 0 or any(b - a != step for a, b in itertools.pairwise(numbers)):
        return None
    values = tuple(range(numbers[0], int(after[0]) + 1, step))
    return values if len(values) <= MAX_VALUES and values and values[-1] == int(after[0]) else None


def _is_parameter(name: str, tree: Node) -> bool:
    """Whether ``name`` is a parameter of the formula, and not the unknown of an inequality or an equation."""
    relations = tree.items if isinstance(tree, Collection) else (tree,)
    for relation in relations:
        if isinstance(relation, Relation):
            ordered = set(relation.operators) - {"=", "~"}
            if (ordered and name in symbols(relation)) or relation.operands[0] == Symbol(name):
                return False
    return name in symbols(tree)
