r"""What a letter means where its own side leaves it open and the other does not: i or j, ``\mathbf{R}``, SymPy's I,
and ``g(h + d)`` as a function or as a product.
"""

from __future__ import annotations

import re

from math_reward.grader.notation.syntax import (
    Call,
    Constant,
    Node,
    Number,
    Power,
    Product,
    Relation,
    Symbol,
    rebuilt,
    substituted,
    symbols,
    walk,
)
from math_reward.grader.words.vocabulary import CONSTANTS

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
    if _APPLIED.search(reference_text) or _APPLIED.search(answer_text):
        return _with_products(reference, answer)
    return reference, answer


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
            elif isinstance(part, Call) and part.function.startswith("apply "):
                letter = part.function.removeprefix("apply ")[:1]
                self.applied.add(letter)
                lone = len(part.arguments) == 1 and not isinstance(part.arguments[0], (Symbol, Number, Constant))
                if not lone or len(part.function) > len("apply g"):
                    self.called.add(letter)
            elif isinstance(part, Call) and part.function in ("prime", "derivative"):
                self.named |= symbols(part)


def _function_letter(node: Node) -> set[str]:
    if isinstance(node, Call) and node.function.startswith("apply "):
        return {node.function.removeprefix("apply ")[:1]}
    return {node.name} if isinstance(node, Symbol) else set()


def _multiplied(node: Node, variables: set[str]) -> Node:
    def change(part: Node) -> Node | None:
        if not isinstance(part, Call) or not part.function.startswith("apply ") or len(part.arguments) != 1:
            return None
        letter = part.function.removeprefix("apply ")
        return Product((Symbol(letter), _multiplied(part.arguments[0], variables))) if letter in variables else None

    return rebuilt(node, change)
