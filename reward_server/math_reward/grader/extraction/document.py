"""A completion as a document: what LaTeX, HTML and programs do not show is no part of it, JSON's strings are decoded,
and what only dresses a value (quotes, backticks, emphasis, tags, emoji) is taken off it.

Every function takes linear time.
"""

from __future__ import annotations

import json
import re
import unicodedata
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
_HTML = re.compile(
    r"</?(?:p|div|span|strong|em|b|i|u|br|hr|h[1-6]|ul|ol|li|code|pre|center|html|body|table|thead|tbody|tr|t[dh])"
    r"(?: [^<>]{0,80})?/?>",
    re.IGNORECASE,
)
_STRUCK_OUT = re.compile(r"~~[^~\n]{1,200}~~|<(del|s|strike)>[^<>]{0,200}</\1>", re.IGNORECASE)
_UNDERSCORES = re.compile(r"(?<![\w_])_{2,12}([^_\n]{1,200})_{2,12}(?![\w_])")
# A line of quotes or hyphens around an answer
_RULE = re.compile(r"^[ \t]{0,8}(?:\"{3}|'{3}|-{3,9}|\*{3,9}|={3,9})[ \t]{0,8}$", re.MULTILINE)
_RULES = ('"""', "'''", "---", "***", "===")
# "x = 5" on lines of its own between \\[ and \\]
_DISPLAY = re.compile(r"\$\$(?:(?!\n[ \t]*\n)[^$]){1,1000}\$\$|\\\[(?:(?!\\\[|\n[ \t]*\n).){1,1000}?\\\]", re.DOTALL)
_FULL_WIDTH = str.maketrans({sign: unicodedata.normalize("NFKC", sign) for sign in "－＋＝０１２３４５６７８９"})
_ORNAMENT = r"[\u2190-\u21ff\u2500-\u2716\u2719-\u27bf\u2900-\u297f\u2b00-\u2bff\ufe0f\U0001f000-\U0001faff•●]"
# Around a line, but not the arrow of a limit: "x \u2192 0".
_ORNAMENTS = re.compile(
    rf"^[ \t]{{0,8}}(?:{_ORNAMENT}[ \t]{{0,3}}){{1,40}}|(?:[ \t]{{0,3}}{_ORNAMENT}){{1,40}}[ \t]{{0,8}}$", re.MULTILINE
)
_STYLED_LETTERS = re.compile("[\U0001d400-\U0001d7ff]")
_ROWS = re.compile(
    r"\\begin\{(align\*?|aligned|gather\*?|gathered|eqnarray\*?|split)\}((?:(?!\\begin|\\end).){1,2000})\\end\{\1\}",
    re.DOTALL,
)
MAX_LAYERS = 16
"""How many quotes, tags and so on are taken off, one after the other."""
_QUOTE = re.compile(r"\A> (?:>\s)*(?=\S)")
_DECODER = json.JSONDecoder()
_STRING = re.compile(r'"([^"\n]{1,400})"')
ANSWER_KEYS = ("answer", "final_answer", "final answer", "solution", "solutions", "result", "choice", "value")
"""Keys of a JSON object that hold an answer; the first of them counts."""


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


def plain(text: str) -> str:
    """``text`` without HTML's tags, what is struck out, and ornaments around its lines: arrows, stars, frames. Each
    displayed formula is on one line.
    """
    text = _STRUCK_OUT.sub("", text) if "~~" in text or "<" in text else text
    text = _HTML.sub(" ", text) if "<" in text and ">" in text else text
    text = text.replace("\\_", "_").replace("\\*", "*")  # as Markdown escapes them
    text = _UNDERSCORES.sub(r"\1", text) if "__" in text else text
    if any(map(text.__contains__, _RULES)):
        text = _RULE.sub("", text)
    if "$$" in text or "\\[" in text:
        text = _DISPLAY.sub(lambda display: " ".join(map(str.strip, display[0].split("\n"))), text)
    if text.isascii():
        return text
    text = text.replace("∶", ":").translate(_FULL_WIDTH)
    return _ORNAMENTS.sub("", _STYLED_LETTERS.sub(lambda letter: unicodedata.normalize("NFKC", letter[0]), text))


def last_row(text: str) -> str:
    r"""The result of a calculation in rows, ``\begin{align} x &= 1 + 2 \\ &= 3 \end{align}``: its last row, with those
    that it goes on; rows that say of several letters what they are, all of them. Another text as it is.
    """
    found = _ROWS.search(text)
    if found is None or text[: found.start()].strip(" \n$\\[(") or text[found.end() :].strip(" \n$\\]).,"):
        return text
    chains: list[str] = []
    for row in (row.replace("&", "").strip() for row in found[2].split("\\\\")):
        if row.startswith("=") and chains:
            chains[-1] += row
        elif row:
            chains.append(row)
    letters = [chain.partition("=")[0].strip() for chain in chains]
    if len({*letters}) == len(letters) and all(len(letter) == 1 for letter in letters):
        return ", ".join(chains)
    return chains[-1].rstrip(" .,") if chains else text


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


def json_object(text: str) -> tuple[str | None, str]:
    """The JSON object at the start of a text, as an answer, and the text behind it, without a fence between them."""
    try:
        value, end = _DECODER.raw_decode(text)
    except ValueError:
        return None, ""
    return _as_answer(value), text[end:].lstrip(" \n`,").removeprefix("json").lstrip()


def json_value(text: str) -> str | None:
    r"""The JSON value at the start of a text, as an answer: a list with commas, a string decoded.

    A string whose LaTeX was not escaped (``"\sqrt{2}"``) is taken as it is; None for what is no value.
    """
    try:
        return _as_answer(_DECODER.raw_decode(text)[0])
    except ValueError:
        string = _STRING.match(text)
        return string[1].strip() if string is not None else None


def _as_answer(value: Any) -> str | None:
    if isinstance(value, list):
        parts = [part for part in map(_as_answer, value) if part is not None]
        return ", ".join(parts) if len(parts) == len(value) else None
    if isinstance(value, dict):
        return _record(value)
    if value is None:
        return None
    return value.strip(" \n") if isinstance(value, str) else json.dumps(value)


def _record(value: dict[str, Any]) -> str | None:
    """The answer in a JSON object: under the key that says so, with its unit; or all values by their names."""
    parts = {str(key).lower(): part for key, said in value.items() if (part := _as_answer(said)) is not None}
    if "choice" in parts and (text := parts.get("text", parts.get("value"))):
        return f"({parts['choice']}) {text}"
    for key in ANSWER_KEYS:
        if key in parts:
            return f"{parts[key]} {parts.get('unit', '')}".strip() if key == "value" else parts[key]
    if len(value) == 1 and isinstance(next(iter(value.values())), list):
        return next(iter(parts.values()), None)
    named = len(parts) == len(value) and all(len(key) == 1 and key.isalpha() for key in parts)
    return ", ".join(f"{key} = {part}" for key, part in parts.items()) if named and parts else None


def undressed(text: str) -> str:
    """``text`` without quotes, emphasis, tags and emoji around all of it."""
    text = text.strip()
    for _ in range(MAX_LAYERS):
        if not text:
            break
        inner = _QUOTE.sub("", text)
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
