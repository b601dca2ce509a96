"""Finds the value at the end of a text: the last number with everything that belongs to it.

A number in a tuple, an interval, an inequality, a fraction, a product or a function's argument is only a part: the
whole is the value.
"""

from __future__ import annotations

import re
from typing import NamedTuple

WINDOW_CHARACTERS = 240
"""How much of the text around a number is looked at."""

_TOKEN = re.compile(
    r"(?P<number>\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)"
    r"|(?P<function>\\[a-zA-Z]+|(?:arc)?(?:sin|cos|tan)|sqrt|log|ln|exp|abs|pi|√|π|∞)"
    r"|(?P<ideographs>[\u3040-\u9fff\uac00-\ud7af]+)|(?P<word>[^\W\d_]{2,})|(?P<letter>[^\W\d_])|(?P<operator>\*\*|[-+*/^<>≤≥≠×·÷−:])|(?P<equals>[=≈])"
    r"|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<after>[!%°²³])|(?P<comma>[,;])|(?P<money>\\?[$€£])|(?P<space>\s+)|(?P<other>.)",
    re.DOTALL,
)
_OPERANDS = ("number", "letter", "function", "close", "after")


class _Token(NamedTuple):
    kind: str
    start: int
    end: int


def whole_of(text: str, start: int, end: int) -> str | None:
    """The expression around the number at ``text[start:end]``, or the number itself; None if it is in brackets with a
    remark.
    """
    begin = max(0, start - WINDOW_CHARACTERS)
    tokens = [
        _Token(match.lastgroup or "other", begin + match.start(), begin + match.end())
        for match in _TOKEN.finditer(text[begin : end + WINDOW_CHARACTERS])
    ]
    inside = [index for index, token in enumerate(tokens) if start <= token.start < end and token.kind == "number"]
    if not inside:
        return None
    low, high = _left(tokens, inside[0]), _right(tokens, inside[-1])
    low, high = _balanced(tokens, low, high)
    while low >= 0 and (wider := _with_arguments(text, tokens, low, high)) != (low, high):
        low, high = _balanced(tokens, *wider)
    if low < 0:
        return None
    return text[min(tokens[low].start, start) : max(tokens[high].end, end)]


def _left(tokens: list[_Token], low: int) -> int:
    """The start of the expression that token ``low`` is a part of."""
    while True:
        place = _skip(tokens, low - 1, -1)
        if place < 0:
            return low
        kind = tokens[place].kind
        if kind == "money":
            low = place
            continue
        if kind == "operator":
            before = _skip(tokens, place - 1, -1)
            if before >= 0 and tokens[before].kind in _OPERANDS:
                low = _operand(tokens, before)
                continue
            # A sign; it is the number's own.
            return place if tokens[place].end == tokens[low].start else low
        if kind == "function" or (kind in ("letter", "close", "after") and place == low - 1):
            low = _operand(tokens, place)
            continue
        return low


def _operand(tokens: list[_Token], place: int) -> int:
    """The start of the operand that ends with token ``place``."""
    if tokens[place].kind == "after":
        return _operand(tokens, place - 1) if place else place
    if tokens[place].kind != "close":
        return place
    depth = 0
    for index in range(place, -1, -1):
        depth += (tokens[index].kind == "close") - (tokens[index].kind == "open")
        if depth == 0:
            before = index - 1
            return before if before >= 0 and tokens[before].kind in ("function", "letter") else index
    return place


def _right(tokens: list[_Token], high: int) -> int:
    while True:
        place = _skip(tokens, high + 1, 1)
        if place >= len(tokens):
            return high
        kind = tokens[place].kind
        if kind in ("after", "close") or (kind in ("letter", "function", "open") and place == high + 1):
            high = place
            continue
        following = _skip(tokens, place + 1, 1)
        if kind == "operator" and following < len(tokens) and tokens[following].kind in (*_OPERANDS, "open"):
            high = following
            continue
        return high


def _with_arguments(text: str, tokens: list[_Token], low: int, high: int) -> tuple[int, int]:
    r"""The range, widened to the command or power around its braces: ``\frac{3}{7}``, ``2^{7}`` or ``\sqrt{7}``."""
    if text[tokens[low].start] == "{" and low > 0 and tokens[low - 1].end == tokens[low].start:
        before = tokens[low - 1]
        if before.kind == "function" or text[before.start] == "}":
            low = _left(tokens, _operand(tokens, low - 1))
        elif text[before.start] == "^" and low > 1:
            low = _left(tokens, _operand(tokens, low - 2))
    ends_in_brace = text[tokens[high].start] == "}" or tokens[high].kind == "function"
    if ends_in_brace and high + 1 < len(tokens) and text[tokens[high + 1].start] == "{":
        high = _right(tokens, high)
    return low, high


def _skip(tokens: list[_Token], place: int, step: int) -> int:
    while 0 <= place < len(tokens) and tokens[place].kind == "space":
        place += step
    return place


def _balanced(tokens: list[_Token], low: int, high: int) -> tuple[int, int]:
    """The range, widened until every bracket has its partner, as in a tuple; (-1, -1) if it would include words."""
    depth = sum((t.kind == "open") - (t.kind == "close") for t in tokens[low : high + 1])
    while depth < 0:
        low -= 1
        if low < 0 or tokens[low].kind in ("word", "other"):
            return -1, -1
        depth += (tokens[low].kind == "open") - (tokens[low].kind == "close")
    while depth > 0:
        high += 1
        if high >= len(tokens) or tokens[high].kind in ("word", "other"):
            return -1, -1
        depth += (tokens[high].kind == "open") - (tokens[high].kind == "close")
    # An opening bracket or a comma beside it: (0, 1 is a part of a tuple.
    before = _skip(tokens, low - 1, -1)
    after = _skip(tokens, high + 1, 1)
    if (
        before >= 0
        and tokens[before].kind in ("open", "comma")
        and after < len(tokens)
        and tokens[after].kind == "close"
    ):
        return _balanced(tokens, low, after)
    return low, high
