"""A completion as a document: what LaTeX, HTML and programs do not show is no part of it, JSON's strings are decoded,
and what only dresses a value (quotes, backticks, emphasis, tags, emoji) is taken off it.

Every function takes linear time.
"""

from __future__ import annotations

import json
import re
from typing import Any

_COMMENTS = (
    ("<!--", "-->"),
    ("\\iffalse", "\\fi"),
    ("\\begin{comment}", "\\end{comment}"),
    ("/*", "*/"),
)
# A per cent sign begins a comment at the start of a line, and after a brace where it hides a box.
_LATEX_COMMENT = re.compile(r"^[ \t]*%[^\n]*$|(?<=\})[ \t]+%[^\n]{0,200}?\\boxed[^\n]*$", re.MULTILINE)
_FENCE = "```"
_PROGRAM = re.compile(
    r"(?:python|py|python3|sage|sympy|cpp|c\+\+|c|java|javascript|js|typescript|rust|go|bash|sh|shell|matlab|julia|r|lean"
    r"|haskell|sql|latexmk|wolfram|mathematica)\s*(?=\n|$)",
    re.IGNORECASE,
)
_STATEMENT_OF_CODE = re.compile(r"^[ \t]*(?:assert|print|return)\b[^\n]*[=(][^\n]*$", re.MULTILINE)
_LOST_BACKSLASH = re.compile(r"(?:\x08oxed|(?<![\\a-zA-Z])boxed)\s*(?:\{|\((?=([^()\n]{1,80})\)))")

_PAIRS = {
    '"': '"',
    "“": "”",
    "„": "“",
    "'": "'",
    "‘": "’",
    "`": "`",
    "«": "»",
    "「": "」",
    "『": "』",
    "*": "*",
    "_": "_",
}
_CLOSING = {"”": "“", "」": "「", "』": "『", "»": "«"}
_TAGGED = re.compile(r"<([a-zA-Z_]{1,16})(?: [^<>]{0,80})?>(.*)</\1>", re.DOTALL)
_EMOJI = re.compile("[\u2600-\u2716\u2719-\u274b\u2753-\u27bf\ufe0f\U0001f000-\U0001faff]")
MAX_LAYERS = 16
"""How many quotes, tags and so on are taken off, one after the other."""
_QUOTE = re.compile(r"(?:>\s)+(?=\S)")


def shown(text: str) -> str:
    """``text`` without comments and programs."""
    for opening, closing in _COMMENTS:
        if opening in text:
            text = _without(text, opening, closing)
    if "%" in text:
        text = _LATEX_COMMENT.sub("", text)
    if _FENCE in text:
        parts = text.split(_FENCE)
        text = _FENCE.join("" if place % 2 and _PROGRAM.match(part) else part for place, part in enumerate(parts))
    return text


def with_boxes(text: str) -> str:
    r"""``text`` with ``\boxed{`` for a box whose backslash was lost, as a JSON decoder loses it."""
    if "oxed" not in text or "\\boxed" in text:
        return text
    return _LOST_BACKSLASH.sub(lambda box: rf"\boxed{{{box[1]}}} " if box[1] else r"\boxed{", without_code(text))


def without_code(text: str) -> str:
    """``text`` without lines such as ``assert answer == 42``."""
    return _STATEMENT_OF_CODE.sub("", text) if "assert" in text or "print" in text or "return" in text else text


def _without(text: str, opening: str, closing: str) -> str:
    kept: list[str] = []
    place = 0
    while (begin := text.find(opening, place)) >= 0 and (end := text.find(closing, begin + len(opening))) >= 0:
        kept.append(text[place:begin])
        place = end + len(closing)
    return "".join(kept) + text[place:]


def json_value(text: str) -> str | None:
    r"""The JSON value at the start of a text, as an answer: a list with commas, a string decoded.

    A string whose LaTeX was not escaped (``"\sqrt{2}"``) is taken as it is; None for what is no value.
    """
    try:
        return _as_answer(_DECODER.raw_decode(text)[0])
    except ValueError:
        string = _STRING.match(text)
        return string[1].strip() if string is not None else None


_DECODER = json.JSONDecoder()
_STRING = re.compile(r'"([^"\n]{1,400})"')


def _as_answer(value: Any) -> str | None:
    if isinstance(value, list):
        parts = [part for part in map(_as_answer, value) if part is not None]
        return ", ".join(parts) if len(parts) == len(value) else None
    if isinstance(value, dict) or value is None:
        return None
    return value.strip(" \n") if isinstance(value, str) else json.dumps(value)


def undressed(text: str) -> str:
    """``text`` without quotes, emphasis, tags and emoji around all of it."""
    text = text.strip()
    for _ in range(MAX_LAYERS):
        if not text:
            break
        inner = _QUOTE.sub("", text, count=1) if text.startswith("> ") else text
        tagged = _TAGGED.fullmatch(inner) if inner[0:1] == "<" else None
        if tagged is not None:
            inner = tagged[2]
        elif len(inner) > 2 and inner[-1] == _PAIRS.get(inner[0]) and inner[-1] not in inner[1:-1]:
            inner = inner[1:-1]
        elif inner and (_EMOJI.match(inner[-1]) or (inner[-1] in _CLOSING and _CLOSING[inner[-1]] not in inner)):
            inner = inner[:-1]
        inner = inner.strip()
        if inner == text:
            break
        text = inner
    return text
