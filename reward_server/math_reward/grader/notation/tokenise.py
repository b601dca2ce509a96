r"""Cuts a normalised text into tokens: numbers, words, LaTeX commands, ``\text{...}`` and signs."""

import re
from typing import NamedTuple

from math_reward.grader.errors import NotMathematics, TooComplex

MAX_TOKENS = 400
MAX_DIGITS = 400
"""The longest run of digits in a number."""
MAX_EXPONENT = 400
"""The largest power of ten in scientific notation."""


class Token(NamedTuple):
    kind: str
    """``number``, ``word``, ``command``, ``text``, ``number set``, ``begin``, ``end``, ``row`` or the sign itself."""
    value: str
    spaced: bool
    """True if white space is before it."""


_TOKEN = re.compile(
    r"""
    (?P<space>\s*)(?:
      (?P<number>
          \d{1,3}(?:\{,\}\d{3})+(?:\.\d+)?(?!\d)         # 14{,}916
        | \d{1,3}(?:[ ]\d{3})+(?:\.\d+)?(?![\d.])        # 1 000
        | (?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+(?![a-zA-Z\d]))?
      )
    | \\begin\s*\{(?P<begin>[a-zA-Z]+\*?)\}(?:\s*\{[lcr|@{}\s]*\}(?=[^}]))?
    | \\end\s*\{(?P<end>[a-zA-Z]+\*?)\}
    | (?P<row>\\\\)
    | \\(?P<command>[a-zA-Z]+)
    | \\(?P<escaped>[{}$%&_\#|])
    | (?P<word>[a-zA-Z]+)
    | (?P<sign>\*\*|<=|>=|!=|==|~=|:=|->|[-+*/^_=<>(){}\[\]|,;:!%&'"$€£¥₹¢.?])
    | (?P<finish>\Z)
    )""",
    re.VERBOSE,
)
_THOUSANDS = re.compile(r"(?!0)\d{1,3}(?:,\d{3})+(?!\d|,\d)(?:\.\d+)?")

_FORMULA_INSIDE = re.compile(r"\\(?:frac|sqrt|pi|infty|times|cdot|circ|pm)(?![a-zA-Z])")
_BOLD = ("mathbf", "boldsymbol", "bm", "bold", "mathcal", "mathfrak", "mathscr")
_HEXADECIMAL = re.compile(r"\s*[0-9A-F]{2,}\s*")
_JOINT = re.compile(r"\s*([^\s,][^,]{0,80}?)\s+(and|or)\s*$")
# Numbers and signs; a comma, a full stop or brackets with nothing in them are layout.
_SIGNS_ALONE = re.compile(r"(?=.*[-+*/^<>=!%$€£¥₹¢\d]|.*\.\.)(?:[^a-zA-Z\\\u0080-\uffff]|\\[$%])+", re.DOTALL)

_ARGUMENTS = ("frac", "sqrt", "^")
_SYMBOLS = {"mu": "µ", "Omega": "Ω"}
_IN_A_UNIT = re.compile(r"\\(mu|Omega)(?![a-zA-Z]) ?")
# The argument of these commands is words, or letters in another font.
_WORDS = {
    "text", "textbf", "textit", "textrm", "textsf", "texttt", "textnormal", "mbox", "hbox",
    "mathrm", "mathbf", "mathit", "mathsf", "mathtt", "mathcal", "mathscr", "mathfrak", "mathbb",
    "operatorname", "emph", "bold", "bm", "underline",
}  # fmt: skip


def tokenise(text: str, *, thousands: bool = True) -> list[Token]:
    """The tokens of a normalised text.

    Args:
        thousands: ``1,200`` outside brackets or in a fraction is one number; else, and without this, it is a list.

    Raises:
        TooComplex: too many tokens or digits.
        NotMathematics: a character that no answer has, or a brace that is never closed.
    """
    tokens: list[Token] = []
    position, end, gap = 0, len(text), False
    groups: list[str] = []
    """What each open bracket holds: the argument of ``frac``, ``sqrt`` or ``^``, or with ``""`` perhaps a list."""
    closed = ""
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise NotMathematics(f"the character {text[position:].lstrip()[0]!r} has no meaning there")
        kind, spaced, position, gap = match.lastgroup, gap or match.end(1) > position, match.end(), False
        value = match[kind]  # type: ignore[index]
        if kind == "sign" or kind == "escaped":
            if value in "([{":
                before = tokens[-1].value if tokens and kind == "sign" and value == "{" else ""
                second = before == "}" and closed == "frac"
                groups.append("frac below" if second else before if before in _ARGUMENTS else "")
            elif value in ")]}" and groups:
                closed = groups.pop()
            kind = value if kind == "sign" else "\\" + value
        elif kind == "number":
            grouped = _THOUSANDS.match(text, match.start("number")) if thousands else None
            if grouped and (not groups or groups[-1] or ",0" in grouped[0]):  # (1,000 + 1) is no tuple.
                value, position = grouped[0].replace(",", ""), grouped.end()
            else:
                value = value.replace("{,}", "").replace(" ", "")
            if len(value) > 3:
                _check_number(value)
        elif kind == "command" and value in _WORDS:
            kind, bold = "number set" if value == "mathbb" else "text", value in _BOLD
            value, position = _argument(text, position)
            if "\\" in value:
                value = _IN_A_UNIT.sub(lambda command: _SYMBOLS[command[1]], value)  # \mathrm{\mu m}
            if not value.strip():
                gap = True
                continue
            if bold and len(value) == 1 and value.isalpha():
                kind = "word"  # A vector or a matrix, and never a unit.
            if _SIGNS_ALONE.fullmatch(value) or (  # \text{42}, \text{-}
                text.startswith("_", position) and _HEXADECIMAL.fullmatch(value)  # \text{2A}_{16}
            ):
                tokens += tokenise(value.strip())
                continue
            if _FORMULA_INSIDE.search(value):  # \mathbf{\frac{1}{2}}
                tokens += tokenise(value.strip(), thousands=thousands)
                continue
            if joint := _JOINT.match(value):  # \text{ goats and }
                tokens += [Token("text", part, spaced) for part in joint.groups() if part]
                continue
        elif kind == "finish":
            break
        tokens.append(Token(kind, value, spaced))  # type: ignore[arg-type]
        if len(tokens) > MAX_TOKENS:
            raise TooComplex(f"it has more than {MAX_TOKENS} tokens")
    return tokens


def _check_number(value: str) -> None:
    if len(value) > MAX_DIGITS:
        raise TooComplex(f"it has a number of more than {MAX_DIGITS} digits")
    exponent = value.lower().partition("e")[2]
    if exponent and abs(int(exponent)) > MAX_EXPONENT:
        raise TooComplex(f"it has a power of ten beyond {MAX_EXPONENT}")


def _argument(text: str, position: int) -> tuple[str, int]:
    """The text inside the braces that open at ``position``, and the position after them."""
    while position < len(text) and text[position] == " ":
        position += 1
    if position >= len(text):
        raise NotMathematics("a command has no argument")
    if text[position] != "{":
        return text[position], position + 1
    depth = 0
    for index in range(position, len(text)):
        if text[index] == "{":
            depth += 1
        elif text[index] == "}":
            depth -= 1
            if depth == 0:
                return text[position + 1 : index], index + 1
    raise NotMathematics("a brace is never closed")
