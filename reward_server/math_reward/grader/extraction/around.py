r"""What stands beside a box and changes the answer in it: ``\boxed{42}^2``, ``2\boxed{42}``, "\boxed{42} squared"."""

from __future__ import annotations

import re

from math_reward.grader.extraction.boxes import Statement
from math_reward.grader.words.doubts import begins

BRACE_CHARACTERS = 120
"""How much of the text before a box in braces is looked at."""
_OPERATOR = (
    r"(?:(?<=[\w)}$])\s?(?:\*(?!\*)|[+/×÷])|(?<![-=])[<>]|[\^≤≥≠±√¬]|(?<![\d)])!="
    r"|\\(?:cdot|times|div|pm|mp|neg|lnot|not|neq?|leq?|geq?|lt|gt|sqrt|ln|log|sin|cos|tan|exp|[dt]?frac)(?![a-z]))"
)
_OPERATION_BEFORE = re.compile(
    rf"(?:{_OPERATOR}\s*=?(?:\s|\\left\s?\(|[({{])*"  # 2 \cdot \boxed, \sqrt{\boxed
    r"|\\[dt]?frac\s?\{[^{}]{0,80}\}\s?\{\s*"  # \frac{1}{\boxed
    r"|(?:[\d)}]|\$(?=\s)|(?<![a-zA-Z])[a-zA-Z])\s?[-−]\s?"  # 1 - \boxed
    r"|(?<![\d.])(?P<factor>\d[\d.]{0,9}))\Z"  # 2\boxed
)
_SIGN = re.compile(r"(?:^|[\s$=({[]|:\s|\\\(|\\\[)[-−](?:\$|\\\()?$")
# A list, a quote, a dash after a word, an arrow, the end of a tag or of emphasis.
_DASH = re.compile(r"(?:^|\n)\s*[-−–*+>·•]\s+$|[^\W\d_]{2,}\S?\**\s?[-−–]\s$|:[-−]\s?$|[-=]>\s?$|<[^<>\n]{1,40}>\s*$")
_OPERATION_AFTER = re.compile(
    r"\d|[ $]{0,3}(?:\\(?:pi|sqrt|[dt]?frac)(?![a-z])|[π√](?=[\d($ .]|\Z))|[xynik](?![\w'’])"
    r"|(?:\\right|[ \t)}])*(?:\^(?!\{?\s?(?:\\(?:circ|degree|prime|text)))"
    r"|(?:\*(?!\*)|[/×÷·]|\\(?:cdot|times|div|pm)(?![a-z]))\s*(?:\\(?!text)|[({\d]|[a-zA-Z](?![a-zA-Z]))"
    r"|\s?[-+−]\s?(?:\d|\\[a-zA-Z(]|(?![aAI]\s)[a-zA-Z](?![a-zA-Z])))"
)


def sign_of(said: Statement) -> str:
    """The minus sign before a box, which belongs to the answer; else nothing."""
    before = said.before[-12:]
    return "-" if _SIGN.search(before) and not _DASH.search(before) else ""


def percent_of(said: Statement) -> str:
    """The sign of per cent or per mille behind a box, which belongs to the answer; else nothing."""
    sign = re.match(r"[\s$]{0,3}(\\?%|‰)", said.after)
    return "" if sign is None or "%" in said.text or "‰" in said.text else "‰" if sign[1] == "‰" else r"\%"


def changed(said: Statement) -> bool:
    """Whether an operation outside the box changes what is in it."""
    before = said.before[-(BRACE_CHARACTERS if said.before.rstrip().endswith("{") else 24) :]
    operation = _OPERATION_BEFORE.search(before)
    if operation is not None and operation["factor"] != said.text and not _DASH.search(before[-24:]):
        return True
    after = said.after[:40]
    is_absolute = before.endswith("|") and after.startswith("|")
    return is_absolute or (_OPERATION_AFTER.match(after) or begins("box-changed", after)) is not None
