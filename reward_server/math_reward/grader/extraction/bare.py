"""Whether a text is only an answer, and no sentence."""

from __future__ import annotations

import re

from math_reward.grader.words.functions import SPELLED, SYMPY_NAMES
from math_reward.grader.words.units import UNITS, is_unit
from math_reward.grader.words.vocabulary import GREEK

WHOLE_CHARACTERS = 400
"""A longer text is never only an answer."""
PROSE_WORD = re.compile(r"(?<!\\)(?<![a-zA-Z])[^\W\d_⁰-₟²³¹]{2,}")
LATEX_WORD = re.compile(r"\\[a-zA-Z]+|(?<=\\begin\{)\w+|(?<=\\end\{)\w+|\\(?:text|mathrm|operatorname)\s?\{[^{}]*\}")
IDEOGRAPHS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_PRODUCT = re.compile(r"[a-z]?π[a-z]?|[abc]{2,3}|[xyz]{2,3}|[acnkpt][xyz]")
MATHEMATICS = frozenset(
    {*SPELLED, *SYMPY_NAMES, *GREEK, *UNITS, "or", "and", "pi", "infty", "oo", "inf", "Matrix", "mu", "nu"} - {"mod"}
)


_ROMAN = re.compile(r"[IVX]{1,4}(?:(?:,? and |, )[IVX]{1,4}){0,8}")
# Beside letters in a formula; a minus with a space on one side may be a dash.
_BEFORE_LETTERS = re.compile(r"(?:(?P<sign>[+*/^_=<>·×÷{}]\s?|[-−]|\s[-−]\s|\d)|[,(\[|]\s?|\A\s?)\Z")
_AFTER_LETTERS = re.compile(r"(?P<sign>\s?[+*/^_=<>·×÷{}]|[-−]|\s[-−]\s)|\s?[,)\]|!']|\s?\Z")


def is_bare(text: str) -> bool:
    """Whether a text is only an answer: no words but functions, units, "or", and products of letters in a formula."""
    if len(text) > WHOLE_CHARACTERS or not text:
        return False
    plain = LATEX_WORD.sub(" ", text)
    words = [word for word in PROSE_WORD.finditer(plain) if not _is_mathematics(word[0])]
    if not words or _ROMAN.fullmatch(text):
        return True
    is_chain = text.count("=") + text.count("≈") > 1  # Its last side counts.
    return not is_chain and all(_is_product(plain, word) for word in words)


def _is_product(text: str, word: re.Match[str]) -> bool:
    """Whether a short word is a product of letters, since a sign of a formula is beside it: mn+1, Ce^{kt}."""
    before, after = _BEFORE_LETTERS.search(text[: word.start()][-3:]), _AFTER_LETTERS.match(text, word.end())
    if before is None or after is None or len(word[0]) > 3 or not word[0].isascii():
        return False
    return bool(before["sign"] or after["sign"])


def _is_mathematics(word: str) -> bool:
    """Whether a word is a function, a unit, "or", or a product of letters such as xy."""
    return word in MATHEMATICS or word.lower() in MATHEMATICS or is_unit(word) or bool(_PRODUCT.fullmatch(word))
