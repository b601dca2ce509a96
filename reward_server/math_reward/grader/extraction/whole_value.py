"""Finds the whole value that a number in a text is a part of: a tuple, an interval, an inequality, a fraction, a
product, the argument of a function.
"""

from __future__ import annotations

import re
from typing import NamedTuple

WINDOW_CHARACTERS = 240
"""How much of the text around a number is looked at."""

_TOKEN = re.compile(
    r"(?P<number>\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)"
    r"|(?P<function>\\(?!(?:times|cdot|div)(?![a-zA-Z]))[a-zA-Z]+|(?:arc)?(?:sin|cos|tan)|sqrt|log|ln|exp|abs|pi|infinity|√|π|∞)"
    r"|(?P<ideographs>[\u3040-\u9fff\uac00-\ud7af]+)|(?P<word>[^\W\d_]{2,})|(?P<letter>[^\W\d_])|(?P<operator>\*\*|\\(?:times|cdot|div)(?![a-zA-Z])|[-+*/^<>≤≥≠×·÷−:])|(?P<equals>[=≈])"
    r"|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<after>[!%°²³])|(?P<comma>[,;])|(?P<money>\\?[$€£])|(?P<space>\s+)|(?P<other>.)",
    re.DOTALL,
)
# open_file(1) and print(42): a call of an unknown function is not its argument.
_CALLED = re.compile(r"[a-zA-Z_]{2}$")
# mn+1 and 1 + mn have a product of letters beside the number, and profit+5 a word: none of it is the number alone.
_PART_OF_BEFORE = re.compile(r"[a-zA-Zα-ωа-я]{2}(?:[-−+*/^·×÷]| [+*/^·×÷] )\Z")
_PART_OF_AFTER = re.compile(r"(?:[-−+*^·×÷]| [+*^·×÷] )[a-zA-Zα-ωа-я]{2}")
_WHOLE = re.compile(r"\d{1,3}")
# "After day 3 1/4 remains", "Out of the 100 3/4 are red"
_NUMBERED = re.compile(
    r"(?:day|step|part|case|line|chapter|problem|question|week|year|round|row|page|level|number|no\.?|of the|out of|x)"
    r"\s\Z",
    re.IGNORECASE,
)
_FRACTION = re.compile(r"(?P<above>\d{1,3})/(?P<below>\d{1,3})(?![\d/])")
_OPERANDS = ("number", "letter", "function", "close", "after")


class _Token(NamedTuple):
    kind: str
    start: int
    end: int


def whole_of(text: str, start: int, end: int) -> tuple[int, int] | None:
    """Where the expression around the number at ``text[start:end]`` begins and ends; None if it is in brackets with a
    remark, or a part of something with words in it.
    """
    begin = max(0, start - WINDOW_CHARACTERS)
    tokens = [
        _Token(match.lastgroup or "other", begin + match.start(), begin + match.end())
        for match in _TOKEN.finditer(text[begin : end + WINDOW_CHARACTERS])
    ]
    inside = [index for index, token in enumerate(tokens) if start <= token.start < end and token.kind == "number"]
    if not inside:
        return None
    low, high = _mixed(text, tokens, inside[0]), inside[-1]
    if _mixed(text, tokens, high + 2) == high:
        high += 2
    low, high = _left(tokens, low), _right(tokens, high)
    low, high = _balanced(tokens, low, high)
    while low >= 0 and (wider := _with_arguments(text, tokens, low, high)) != (low, high):
        low, high = _balanced(tokens, *wider)
    while low > 0 and tokens[low].kind == "open" and _kind(tokens, low - 1) == "function":
        low = _left(tokens, low - 1)  # sqrt(13)
    while low > 0 and tokens[low].kind == "open" and _kind(tokens, low - 1) == "close":
        low = _operand(tokens, low - 1)  # (x + 4)(x + 1)
    while low > 0 and tokens[low].kind == "open" and (factor := _factor(text, tokens, low)) is not None:
        low = factor  # 2(x + 3)
    first = min(tokens[low].start, start) if low >= 0 else 0
    last = max(tokens[high].end, end)
    before = text[max(0, first - 6) : first + (text[first] in " -−+*/^·×÷")]
    if _PART_OF_BEFORE.search(before) or _PART_OF_AFTER.match(text, last):
        return None
    if low < 0 or (text[first] in "([" and _CALLED.search(text, max(0, first - 2), first)):
        return None
    return first, last


def _mixed(text: str, tokens: list[_Token], low: int) -> int:
    """The whole number before the fraction that token ``low`` begins, as in 2 1/4; ``low`` where there is none."""
    whole = low - 2
    if _kind(tokens, low) != "number":
        return low
    is_whole = _kind(tokens, whole) == "number" and tokens[low - 1].end - tokens[low - 1].start == 1
    if not is_whole or not _WHOLE.fullmatch(text, tokens[whole].start, tokens[whole].end):
        return low
    if _NUMBERED.search(text, max(0, tokens[whole].start - 20), tokens[whole].start):
        return low
    part = _FRACTION.match(text, tokens[low].start)
    return whole if part is not None and int(part["above"]) < int(part["below"]) else low


def _factor(text: str, tokens: list[_Token], low: int) -> int | None:
    """Where the number or operation before a bracket begins; None where there is none, as before ``**(3, 4)**``."""
    place, wider = _skip(tokens, low - 1, -1), _left(tokens, low)
    is_sign = place >= 0 and text[tokens[place].start] in "-−+"
    is_bold = place == low - 1 and _kind(tokens, low - 2) in ("space", "") and not is_sign
    if _kind(tokens, place) == "operator":
        return None if wider == low or is_bold or (tokens[wider].kind == "operator" and not is_sign) else wider
    return wider if wider < low and _kind(tokens, place) == "number" else None


def _kind(tokens: list[_Token], place: int) -> str:
    """The kind of a token; empty where there is none."""
    return tokens[place].kind if 0 <= place < len(tokens) else ""


def _left(tokens: list[_Token], low: int) -> int:
    """The start of the expression that token ``low`` is a part of."""
    while True:
        place = _skip(tokens, low - 1, -1)
        kind = _kind(tokens, place)
        if kind == "money":
            low = place
        elif kind == "operator":
            before = _skip(tokens, place - 1, -1)
            number = _skip(tokens, before - 1, -1)
            if (
                tokens[place].end == tokens[low].start
                and _kind(tokens, before) == "word"
                and _kind(tokens, number) == "number"
            ):
                return number  # 16 cm^2
            if _kind(tokens, before) not in _OPERANDS:
                # A sign; it is the number's own.
                if tokens[place].end != tokens[low].start:
                    return low
                if _kind(tokens, before) != "operator" or before == place - 1:
                    return place
                low = place  # x > -2
                continue
            low = _operand(tokens, before)
        elif kind == "function" or (kind in ("letter", "close", "after") and place == low - 1):
            low = _operand(tokens, place)
        elif kind == "number" and place == low - 1 and tokens[low].kind in ("letter", "function", "open"):
            low = place  # 2x
        else:
            return low


def _operand(tokens: list[_Token], place: int) -> int:
    """The start of the operand that ends with token ``place``."""
    if tokens[place].kind == "after":
        return _operand(tokens, place - 1) if place else place
    if tokens[place].kind != "close":
        return place
    depth = 0
    for index in range(place, -1, -1):
        depth += _opened(tokens[index])
        if depth == 0:
            before = index - 1
            return before if _kind(tokens, before) in ("function", "letter") else index
    return place


def _right(tokens: list[_Token], high: int) -> int:
    while True:
        place = _skip(tokens, high + 1, 1)
        kind = _kind(tokens, place)
        following = _skip(tokens, place + 1, 1)
        if kind == "function" and _kind(tokens, following) == "number":
            high = following  # 2√2, 1013 ln 2026
        elif kind == "number" and tokens[high].kind == "function" and place == high + 1:
            high = place  # 1/√2
        elif kind in ("after", "close") or (kind in ("letter", "function", "open") and place == high + 1):
            high = place
        elif kind == "operator" and _kind(tokens, following) in (*_OPERANDS, "open"):
            high = following
        else:
            return high


def _with_arguments(text: str, tokens: list[_Token], low: int, high: int) -> tuple[int, int]:
    r"""The range, widened to the command or power around its braces: ``\frac{3}{7}``, ``2^{7}`` or ``\sqrt{7}``."""
    if text[tokens[low].start] == "{" and low > 0:
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
    while _kind(tokens, place) == "space":
        place += step
    return place


def _opened(token: _Token) -> int:
    """1 for an opening bracket and -1 for a closing one."""
    return (token.kind == "open") - (token.kind == "close")


def _balanced(tokens: list[_Token], low: int, high: int) -> tuple[int, int]:
    """The range, widened until every bracket has its partner, as in a tuple; (-1, -1) if it would include words."""
    depth = sum(map(_opened, tokens[low : high + 1]))
    while depth != 0:
        place = low - 1 if depth < 0 else high + 1
        if _kind(tokens, place) in ("", "word", "other"):
            return -1, -1
        depth += _opened(tokens[place])
        low, high = min(low, place), max(high, place)
    # An opening bracket or a comma beside it: (0, 1 is a part of a tuple.
    before = _skip(tokens, low - 1, -1)
    after = _skip(tokens, high + 1, 1)
    if _kind(tokens, before) in ("open", "comma") and _kind(tokens, after) == "close":
        return _balanced(tokens, low, after)
    if _kind(tokens, before) == "open" and _kind(tokens, after) == "comma":
        end = after + 1
        while _kind(tokens, end) not in ("", "word", "ideographs", "other", "open", "close"):
            end += 1
        if _kind(tokens, end) == "close":
            return _balanced(tokens, before, end)  # (5, ∞)
    return low, high
