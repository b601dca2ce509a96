r"""Finds false equations that end with the answer: ``so 41 = 42``, ``$41 = \boxed{42}$``, ``41 is 42``.

A final statement that equates two different numbers is no answer, even if one of them is right. A number counts only
if it is the whole left side: in "the sum of 40 and 2 is 42" and "20 % of 50 = 10" it is only a part.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

from math_reward.grader.mathematics.evaluation import real_value
from math_reward.grader.notation.exact import exact
from math_reward.grader.notation.parse import parse
from math_reward.grader.words.number_words import number_in_words

WINDOW_CHARACTERS = 240
"""How much of the text on either side of an answer is looked at."""
MAX_SIDES = 8
"""How many sides of a chain of equations are compared."""

_NEAR = r"≈|\\approx|\\simeq|\\doteq"
_SPACE = r"[^\S\n]"
_DRESS = r"\s|[$*_`'\"“(\[&]|\\[,;( \[]|\\left|\\quad|\\displaystyle"
"""What may stand between a sign and a number: spaces, emphasis, the start of a formula."""
# Only "=" and "≈" make chains: "5 is 42" equates two numbers, "n = 5 is 42" does not.
_LINK = re.compile(
    rf"(?:==?&?|(?P<near>{_NEAR})"
    r"|(?P<verb>(?i:\b(?:is|are|equals|makes|(?:is |are )?(?:exactly )?equal to|is the same as))|等于|是|为))"
    + f"(?:{_DRESS})"
    + r"{0,20}$"
)
# A comma or a full stop before a space ends a side; "1,000" and "3.5" go on.
_SIDE = (
    rf"(?:\\(?:[dt]?frac|sqrt)(?![a-z]){_SPACE}*[{{\d]|\\left(?![a-z]){_SPACE}*\(|\\pi(?![a-z])|[\d($€£√π−-])"
    rf"(?:[\d+*/×÷·^(){{}}$€£%°!√π−-]|{_SPACE}|[.,](?=\d)|\.\.\.|\\[%$,;! ()\[\]]"
    r"|\\(?:[dt]?frac|sqrt|times|cdot|div|left|right|pi)(?![a-z])){0,160}"
)
_CONNECTIVES = (
    "so|then|thus|hence|therefore|that|have|has|get|gets|got|give|gives|conclude|obtain|since|because|mean|means|now"
    "|finally|yield|yields|implies|see|know|find|found|show|shows|follows|namely|indeed|also|clearly|obviously|where"
    "|compute|computes|calculate|calculating|result|answer|write|note|check|consequently|accordingly|say|says"
)
"""Words that no side contains: it begins after them."""
_LEFT = re.compile(
    r"(?:^|\n|[.!?。；;]\s|[，：]|(?<!\\)&|⇒|→|∴|⟹|\\(?:Rightarrow|implies|therefore|Longrightarrow|to|Leftrightarrow|iff)\b"
    r"|\n[-*•]\s|所以|因此|故|即|得|则|于是|那么|因为|有"
    rf"|(?i:\b(?:{_CONNECTIVES}|total of|sum of|i\.e\.)\s)"
    rf"|(?P<chain>=&?|{_NEAR})|(?P<verb>(?i:\b(?:is|be|are|equals)\s))"
    r"|(?P<joint>[,:]\s|(?i:\b(?:and|but|or)\s)))"
    + f"(?:{_DRESS})"
    + r"{0,20}?"
    + f"(?P<side>{_SIDE})"
    + r"[$*_`'\"]{0,4}\s{0,9}$"
)
# What a text must end with if _LINK or _LEFT is to match: to see that it does not is much quicker than to search.
_DRESSED = " \t\n\r\f\v$*_`'\"“([&,;\\"
_VERBS = ("is", "are", "equals", "makes", "equal to", "same as", "等于", "是", "为")
_LINKS = ("=", "≈", "\\approx", "\\simeq", "\\doteq", *_VERBS)
_DRESS_COMMANDS = ("\\left", "\\quad", "\\displaystyle")
_AFTER_SIDE = " \t\n\r\f\v$*_`'\""
_SIDE_COMMANDS = ("frac", "sqrt", "times", "cdot", "div", "left", "right", "pi")
_WORDS_LEFT = re.compile(r"(?:^|[.!?,\n])\s{0,9}(?P<words>[a-z]{2,12}(?:[ -][a-z]{2,12}){0,7})\s{0,9}$", re.IGNORECASE)
# "gcd of 84, 126" and "the sum of 40 and 2": a list goes on.
_IN_A_LIST = re.compile(r"[\d)}%$]\s*$")
_EQUATION_BEFORE = re.compile(r"=[^=.!?\n]{1,40}$")
_DELIMITERS = re.compile(r"\\[()\[\]]|\\displaystyle|\\[$]|[$€£`'\"]|\*\*|^\s*\*|\*\s*$")
_TIMES = re.compile(r"(?<=[\d)])\s?[xX]\s?(?=[\d(])")
_RELATION = re.compile(r"[=≈<>≤≥]|\\(?:approx|simeq|leq?|geq?|in|neq?|equiv|pm)(?![a-z])")
_DECIMAL = re.compile(r"[-−]?[\d,]*(?P<whole>\d)?(?:\.(?P<places>\d+))?(?P<percent>\s?\\?%|\s?percent)?")
# "49 = 4 (mod 5)", "47/5 = 9 R 2" are other relations.
_NO_EQUATION = re.compile(r"[\s$)]*(?:\\?\(?\\?[bp]?mod|R\b|r\s?\d|rem)|\s*\(mod")
_CENTS = re.compile(r"\s*(?:cents?|pence|pennies|p\b|¢)")
_ROUNDING = re.compile(r"round|approx|about|nearest|ceil|floor|roughly|约|四舍五入", re.IGNORECASE)


class _Side(NamedTuple):
    value: Fraction
    is_exact: bool
    text: str


def contradiction(before: str, answer: str, after: str) -> str | None:
    """The equation that ends with the answer, if its sides are different numbers; else None.

    Args:
        before: the text before the answer.
        answer: the answer as the completion has it.
        after: the text after it.
    """
    before = _TIMES.sub(" × ", before[-WINDOW_CHARACTERS:])
    context = before[-80:] + " " + after[:80]
    chain = before + answer
    right: _Side | None = None
    for _ in range(MAX_SIDES):
        link = _link_at_end(before)
        if link is None:
            return None
        rest = before[: link.start()]
        left_side = _left_of(rest, is_verb=link["verb"] is not None)
        if left_side is None:
            return None
        start, left = left_side
        if right is None:  # Only now, since few answers have a number left of them.
            if _RELATION.search(answer) or _NO_EQUATION.match(after):
                return None
            right = _side(answer)
            if right is None:
                return None
            rounded = _ROUNDING.search(context) is not None
        if "$" in left.text and _CENTS.match(after):
            return None
        if not _same(left, right, rounded or link["near"] is not None):
            return chain[start:]
        if link["verb"]:
            return None
        before, right = rest[:start], left
    return None


def _link_at_end(text: str) -> re.Match[str] | None:
    """The sign, and what dresses the number after it, that the text ends with."""
    bare = text.rstrip(_DRESSED).lower()
    if bare.endswith(_LINKS):
        return _LINK.search(text, max(0, len(bare) - 24))  # The longest is shorter than that.
    return _LINK.search(text) if bare.endswith(_DRESS_COMMANDS) else None


def _left_of(text: str, *, is_verb: bool) -> tuple[int, _Side] | None:
    """Where the side before a sign begins, and its number; None if it is not a number, or only a part of a side."""
    bare = text.rstrip(_AFTER_SIDE)
    match = None if bare[-1:].isalpha() and not bare.endswith(_SIDE_COMMANDS) else _LEFT.search(text)
    while match is not None:
        joint = match["joint"] or ""
        in_a_list = joint and _IN_A_LIST.search(text, 0, match.start()) is not None
        after_an_equation = ":" not in joint and _EQUATION_BEFORE.search(text, 0, match.start()) is not None
        is_part = (match["chain"] or match["verb"] or in_a_list) if is_verb else in_a_list and not after_an_equation
        if not is_part:
            side = _side(match["side"])
            return None if side is None else (match.start("side"), side)
        match = _LEFT.search(text, match.start() + 1)
    return _words_left_of(text)


def _words_left_of(text: str) -> tuple[int, _Side] | None:
    """Like `_left_of`, for a number in words: "so forty-one is forty-two"; "the larger one is seven" has none."""
    match = _WORDS_LEFT.search(text)
    if match is None:
        return None
    words = match["words"].split(" ")
    while words and words[0].lower() in (*_CONNECTIVES.split("|"), "and"):
        words.pop(0)
    said = " ".join(words).lower()
    value = None if said == "one" else number_in_words(said)
    return None if value is None else (match.end("words") - len(said), _Side(value, True, said))


def _side(text: str) -> _Side | None:
    """The number on one side; None if it is not a number."""
    words = number_in_words(text.lower().strip(" .!")) if text[:1].isalpha() else None
    if words is not None:
        return _Side(words, True, text)
    plain = _DELIMITERS.sub("", text).strip().rstrip(".")
    try:
        tree = parse(plain)
        value = exact(tree)
        if value is not None:
            return _Side(value, True, text)
        real = real_value(tree)
    except (ArithmeticError, ValueError, RecursionError):
        return None
    return None if real is None else _Side(Fraction(real), False, text)


def _same(left: _Side, right: _Side, rounded: bool) -> bool:
    """Whether two sides are the same number, up to the digits that are written: 2/3 = 0.67, but not 2/3 = 1."""
    decimal = _DECIMAL.fullmatch(_DELIMITERS.sub("", right.text).strip())
    percent = decimal is not None and decimal["percent"] is not None
    is_exact = left.is_exact and right.is_exact
    if _agree(left.value, right.value, is_exact):
        return True
    # The sign may be left off, as in 30/40 × 100 = 75 %.
    if ("%" in left.text) != ("%" in right.text) and (
        _agree(left.value * 100, right.value, is_exact) or _agree(left.value, right.value * 100, is_exact)
    ):
        return True
    if decimal is None:
        return False
    distance = abs(left.value - right.value)
    places = len(decimal["places"] or "") + (2 if percent else 0)
    unit = Fraction(1, 10**places)
    if places == 0:
        if not rounded:
            return False
        if left.value.denominator == 1:  # 398 ≈ 400
            while right.value and right.value % (unit * 10) == 0:
                unit *= 10
            return distance <= unit / 2 and unit > 1
        return distance < 1
    return distance <= unit / 2 or (distance < unit and abs(right.value) < abs(left.value))


def _agree(left: Fraction, right: Fraction, is_exact: bool) -> bool:
    """Whether two values are the same; values of floating point are compared to nine digits."""
    return left == right if is_exact else abs(left - right) * 10**9 <= 1 + abs(left) + abs(right)
