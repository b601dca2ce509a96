r"""What a remark after a formula does to it: ``for all x`` says nothing new, ``\text{ for } x < 10`` restricts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from math_reward.grader.notation.syntax import (
    Bracketed,
    Collection,
    Constant,
    Node,
    Relation,
    SetBuilder,
    SetOperation,
    symbols,
)
from math_reward.grader.notation.tokens import Token
from math_reward.grader.words.vocabulary import INEQUALITIES, RELATIONS

_ENGLISH_WORD = re.compile(r"[a-z]+")
_ELSEWHERE = frozenset(
    ["or", "else", "otherwise", "removed", "only", "top", "unless", "but", "without", "minus", "plus"]
)
"""Words after which another value follows, or a part is taken away."""
_EVERYWHERE = frozenset(["all", "any", "every", "each", "arbitrary"])
_KINDS = frozenset(
    ["integer", "integers", "odd", "even", "positive", "negative", "natural", "rational", "prime", "primes", "whole"]
)
_DOMAINS = frozenset(["interval", "domain", "field", "set", "real", "reals", "integers", "complex", "rationals"])


def restricts(remark: Sequence[Token], before: Node) -> bool:
    """Whether a remark takes something of ``before`` away, gives another value elsewhere, or calculates with it."""
    words = {
        word
        for token in remark
        if token.kind in ("text", "word")
        for word in _ENGLISH_WORD.findall(token.value.lower())
    }
    if words & _ELSEWHERE:
        return True
    first = _ENGLISH_WORD.findall(remark[0].value.lower())[0]
    if first in ("over", "on"):
        following = remark[1] if len(remark) > 1 else remark[0]
        is_set = following.kind in ("number set", "(", "[", "\\{") or following.value in ("R", "Q", "Z", "C", "N")
        return not is_set and not words & _DOMAINS
    relations = {RELATIONS.get(token.value if token.kind in ("command", "word") else token.kind) for token in remark}
    has_number = any(token.kind == "number" or any(map(str.isdigit, token.value)) for token in remark)
    if _is_set(before):
        return bool(words & _KINDS) or has_number or bool(relations - {None, "="})
    if symbols(before):
        return bool(relations & {"<", "<="}) and not relations & {">", ">=", "in"} and first != "where"
    if has_number and relations == {None}:
        return True  # 42 with 7
    return not words & _EVERYWHERE and bool(words & _KINDS or relations & INEQUALITIES)


def _is_set(node: Node) -> bool:
    """Whether it is a set of numbers, and no tuple with letters: there the remark may say what they are."""
    if isinstance(node, Relation):
        return node.operators[0] in (*INEQUALITIES, "in")
    if isinstance(node, Bracketed):
        return len(node.items) == 2 and not symbols(node)
    if isinstance(node, Constant):
        return node.name in ("reals", "integers", "naturals", "rationals", "complexes")
    return isinstance(node, (SetBuilder, SetOperation)) or (isinstance(node, Collection) and node.kind == "set")
