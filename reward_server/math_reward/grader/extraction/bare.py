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


def is_bare(text: str) -> bool:
    """Whether a text is only an answer: no words but functions, units and "or"."""
    if len(text) > WHOLE_CHARACTERS or not text:
        return False
    words = PROSE_WORD.findall(LATEX_WORD.sub(" ", text))
    return all(map(_is_mathematics, words))


def _is_mathematics(word: str) -> bool:
    """Whether a word is a function, a unit, "or", or a product of letters such as xy."""
    return word in MATHEMATICS or word.lower() in MATHEMATICS or is_unit(word) or bool(_PRODUCT.fullmatch(word))
