r"""Operations on trees that several rules need: signs, values, renaming, units; and what a letter means where its own
side leaves it open: i or j, ``\mathbf{R}``, SymPy's I.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from fractions import Fraction

from math_reward.grader.errors import TooComplex
from math_reward.grader.notation.syntax import (
    Applied,
    Bracketed,
    Call,
    Collection,
    Constant,
    Matrix,
    Negative,
    Node,
    Number,
    PlusMinus,
    Power,
    Product,
    Quantity,
    Relation,
    Sum,
    Symbol,
    rebuilt,
    substituted,
    symbols,
    walk,
)
from math_reward.grader.words.functions import known
from math_reward.grader.words.units import LETTERS
from math_reward.grader.words.vocabulary import CONSTANTS

MAX_ITEMS = 64
"""How many items, other than plain numbers, a list may have to be compared in any order."""
_NO_UNIT = re.compile(r"units?(?:\^\d)?")


def is_integer(value: Fraction | None) -> bool:
    return value is not None and value.denominator == 1


def has_sign(node: Node) -> bool:
    if isinstance(node, (Number, Symbol, Relation, Collection, Matrix)):
        return False
    return any(isinstance(part, PlusMinus) for part in walk(node))


def has_minus_plus(node: Node) -> bool:
    return any(isinstance(part, PlusMinus) and part.turned for part in walk(node))


def signed(node: Node, sign: int) -> Node:
    r"""``node`` with the same sign for every ``\pm``, and the opposite one for every ``\mp``."""

    def change(part: Node) -> Node | None:
        if not isinstance(part, PlusMinus):
            return None
        right = signed(part.right, sign)
        right = right if (sign > 0) != part.turned else Negative(right)
        return right if part.left is None else Sum((signed(part.left, sign), right))

    return rebuilt(node, change)


def values(node: Node) -> list[Node]:
    r"""The values of a list, with two for each ``a \pm b``; the entries of a tuple have independent signs, unless
    there is a ``\mp``.
    """
    if isinstance(node, Bracketed) and has_sign(node) and not has_minus_plus(node):
        choices = [values(item) if has_sign(item) else [item] for item in node.items]
        if math.prod(map(len, choices)) > MAX_ITEMS:
            raise TooComplex(f"its signs give more than {MAX_ITEMS} tuples")
        return [Bracketed(node.left, node.right, items) for items in itertools.product(*choices)]
    if not isinstance(node, Collection):
        return [signed(node, 1), signed(node, -1)] if has_sign(node) else [node]
    listed: list[Node] = []
    for item in node.items:
        if isinstance(item, Relation) and isinstance(item.operands[-1], PlusMinus) and item.operators == ("=",):
            listed += values(item.operands[-1])
        elif (isinstance(item, Collection) and item.kind != "set") or has_sign(item):
            listed += values(item)
        else:
            listed.append(item)
    return listed


def paired(items: Sequence[Node], others: Sequence[Node], same: Callable[[Node, Node], bool]) -> bool:
    """Whether each item has a partner of its own among the others, in any order."""
    rest = list(others)
    for item in items:
        partner = next((index for index, other in enumerate(rest) if same(item, other)), None)
        if partner is None:
            return False
        del rest[partner]
    return True


def renamed(node: Node, new: Sequence[Node], old: Sequence[Node]) -> Node:
    """``node`` with new letters in place of old ones, all at once; what has a new name already is another."""
    names: dict[str, Node] = {}
    pairs = [
        (a, b) for a, b in zip(new, old, strict=True) if isinstance(a, Symbol) and isinstance(b, Symbol) and a != b
    ]
    for letter, _ in pairs:
        names[letter.name] = Symbol(f"other {letter.name}")
    return substituted(node, names | {was.name: letter for letter, was in pairs}) if pairs else node


def parts(node: Node) -> tuple[Node, ...]:
    return node.terms if isinstance(node, Sum) else node.factors if isinstance(node, Product) else (node,)


def split(node: Node) -> tuple[Node, str]:
    if isinstance(node, Quantity):
        return node.value, "" if _NO_UNIT.fullmatch(node.unit) else node.unit
    return node, ""


def as_variables(*nodes: Node) -> tuple[Node, ...]:
    """The nodes with a variable for every call of an unknown function, the same variable for the same call."""
    names: list[Node] = []

    def change(part: Node) -> Node | None:
        if not isinstance(part, (Call, Applied)) or (
            isinstance(part, Call) and known(part.function).value is not None
        ):
            return None
        if part not in names:
            names.append(part)
        return Symbol(f"call {names.index(part)}")

    return tuple(rebuilt(node, change) for node in nodes)


_GLUED = re.compile(r"(?<=[\d})])m[gl](?![a-zA-Z])")
_LETTERS = tuple("fghFGH")
_APPLIED = re.compile(r"[fghFGH] ?\(")
_BOLD = re.compile(r"\\(?:mathbf|textbf|mathrm|text|bold|bm) ?\{? ?([RZNQC]) ?\}?(?![a-zA-Z])")
_SYMPY = re.compile(r"(?<![a-zA-Z\\])[EI](?![a-zA-Z(])")


def letters_agreed(reference: Node, answer: Node, reference_text: str, answer_text: str) -> tuple[Node, Node]:
    """Both trees, each letter with the meaning that the other side gives it."""
    if "\\" in reference_text:
        reference = _with_number_sets(reference, reference_text, answer)
    elif _SYMPY.search(reference_text):
        reference = _without_capitals(reference, answer)
    if "\\" in answer_text:
        answer = _with_number_sets(answer, answer_text, reference)
    answer = _with_i(answer, reference)
    if "\\triangle" in reference_text + answer_text:
        reference, answer = _without_triangle(reference, answer), _without_triangle(answer, reference)
    reference, answer = (
        _with_variables(reference, answer, is_glued=_GLUED.search(reference_text) is not None),
        _with_variables(answer, reference),
    )
    if _APPLIED.search(reference_text) or _APPLIED.search(answer_text):
        return _with_products(reference, answer)
    return reference, answer


def _with_variables(node: Node, other: Node, *, is_glued: bool = False) -> Node:
    """``node`` with variables for the letters of a unit, if the other side has these variables and no unit; or if
    ``is_glued``, and they could be either: mg after a number without a space.
    """
    if not any(isinstance(part, Quantity) for part in walk(node)) or any(isinstance(p, Quantity) for p in walk(other)):
        return node
    names = symbols(other)

    def change(part: Node) -> Node | None:
        if not isinstance(part, Quantity):
            return None
        unit, _, power = part.unit.partition("^")
        letters = LETTERS.get(unit, "")
        if not letters or not (set(letters) <= names or (is_glued and letters in ("mg", "ml"))):
            return None
        factors: list[Node] = [Symbol(letter) for letter in letters]
        if power:
            factors[-1] = Power(factors[-1], Number(Fraction(power)))
        value = part.value.factors if isinstance(part.value, Product) else (part.value,)
        return Product((*value, *factors))

    return rebuilt(node, change)


def _without_triangle(node: Node, other: Node) -> Node:
    """``node`` without the sign of a triangle if the other side names it without one: ABC."""
    sign = Symbol("\\triangle")
    if not isinstance(node, Product) or node.factors[0] != sign or sign in walk(other):
        return node
    return node.factors[1] if len(node.factors) == 2 else Product(node.factors[1:])


def _with_i(answer: Node, reference: Node) -> Node:
    """The answer with i for j, as engineers write ``3 + 4j``, if the reference has an i and no j."""
    names = symbols(answer)
    if "j" not in names or "j" in symbols(reference):
        return answer
    return substituted(answer, {"j": Constant("i")}) if Constant("i") in walk(reference) else answer


def _without_capitals(reference: Node, answer: Node) -> Node:
    """A reference as SymPy prints it: with i for I in a complex number, and with e for E below a power."""
    constants = {part.name for part in walk(answer) if isinstance(part, Constant)}
    letters = symbols(reference)
    if letters == {"I"} and "i" in constants and "I" not in symbols(answer):
        return substituted(reference, {"I": Constant("i")})
    powers = [part for part in walk(reference) if isinstance(part, Power) and part.base == Symbol("E")]
    if powers and "e" in constants and "E" not in symbols(answer):
        return substituted(reference, {"E": Constant("e")})
    return reference


def _with_number_sets(node: Node, text: str, other: Node) -> Node:
    r"""``node`` with the set of numbers for a bold letter, ``\mathbf{R}``, if the other side has this set."""
    bold = {match[1]: Constant(CONSTANTS[match[1]]) for match in _BOLD.finditer(text)}
    there = list(walk(other)) if bold else []
    meant = {letter: named for letter, named in bold.items() if named in there}
    return substituted(node, meant) if meant else node


def _with_products(reference: Node, answer: Node) -> tuple[Node, Node]:
    """Both with g times (h + d) for g(h + d), where g stands as a variable: without brackets, in the reference or, if
    this applies it to no single letter or number, in the answer. A name left of "=" is no variable.
    """
    mine, theirs = _Letters(reference), _Letters(answer)
    variables = {
        letter
        for letter in mine.applied | theirs.applied
        if letter not in mine.named | theirs.named
        and letter not in mine.called
        and (letter in mine.standing or (letter in mine.applied and letter in theirs.standing))
    }
    if not variables:
        return reference, answer
    return _multiplied(reference, variables), _multiplied(answer, variables)


class _Letters:
    """How f, g, h, F, G and H stand in a tree."""

    def __init__(self, node: Node) -> None:
        self.applied: set[str] = set()
        """With brackets after them: ``g(h + d)``."""
        self.called: set[str] = set()
        """Those that are applied to a single letter or number: ``g(x)``, ``g(2)``; or whose inverse is named."""
        self.standing: set[str] = set()
        """Without brackets."""
        self.named: set[str] = set()
        """Alone left of a relation, or with a derivative."""
        for part in walk(node):
            if isinstance(part, Relation):
                self.named |= _function_letter(part.operands[0])
            if isinstance(part, Symbol) and part.name in _LETTERS:
                self.standing.add(part.name)
            elif isinstance(part, Applied):
                letter = part.name[0]
                self.applied.add(letter)
                lone = len(part.arguments) == 1 and not isinstance(part.arguments[0], (Symbol, Number, Constant))
                if not lone or part.is_inverse or part.name != letter:
                    self.called.add(letter)
            elif isinstance(part, Call) and part.function in ("prime", "derivative"):
                self.named |= symbols(part)


def _function_letter(node: Node) -> set[str]:
    if isinstance(node, Applied):
        return {node.name[0]}
    return {node.name} if isinstance(node, Symbol) else set()


def _multiplied(node: Node, variables: set[str]) -> Node:
    def change(part: Node) -> Node | None:
        if not isinstance(part, Applied) or part.is_inverse or len(part.arguments) != 1 or part.name not in variables:
            return None
        return Product((Symbol(part.name), _multiplied(part.arguments[0], variables)))

    return rebuilt(node, change)
