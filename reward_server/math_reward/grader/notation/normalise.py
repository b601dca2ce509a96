r"""Gives texts that mean the same one spelling: Unicode signs, LaTeX's layout commands, delimiters, ``\text`` and
units without a space. The meaning of a text never changes here; `parse.py` decides what it means.
"""

import re

from math_reward.grader.notation.rewrites import AT_LAST, LATEX, MARKUP, WITHOUT_LATEX, WORDS, Rewrite
from math_reward.grader.notation.signs import ascii_signs
from math_reward.grader.words.foreign_numbers import FOREIGN_NUMBERS
from math_reward.grader.words.unit_expressions import with_units

# LaTeX whose backslashes a JSON decoder took for escapes: a form feed and "rac" was \frac.
_DECODED = re.compile(
    "\x0c(?=[a-z])|\x08(?=[a-z])|\x0b(?=[a-z])|\x07(?=[a-z])"
    "|\t(?=frac|ext|imes|heta|an|binom|au)|\r(?=ight|angle|ceil|floor|ho)"
)
_DECODED_TO = {"\x0c": r"\f", "\x08": r"\b", "\x0b": r"\v", "\x07": r"\a", "\t": r"\t", "\r": r"\r"}

_DOLLARS = re.compile(r"\$(.*)\$", re.DOTALL)
_DELIMITED = (
    re.compile(r"\$\$(.*)\$\$", re.DOTALL),
    _DOLLARS,
    re.compile(r"\\\((.*)\\\)", re.DOTALL),
    re.compile(r"\\\[(.*)\\\]", re.DOTALL),
    re.compile(r"\*\*(.*)\*\*", re.DOTALL),
)

_PLAIN = re.compile(r"(?!\s*\*\*)(?!.*\)\s*U)[0-9a-zA-Z+*/=()\-., ]*")
_NEEDLESS_SPACE = re.compile(r"(?<![0-9a-zA-Z]) | (?![0-9a-zA-Z])")


def normalise(text: str) -> str:
    r"""``text`` in one spelling: no delimiters of mathematics, no layout, ASCII signs or LaTeX commands.

    ``$\dfrac{1}{2}$.`` gives ``\frac{1}{2}``, ``4²`` gives ``4^{2}``, ``1½`` gives ``1\frac{1}{2}``.
    """
    text = _rewritten(text, WORDS)
    if not text.isascii() and (number := FOREIGN_NUMBERS.get(text.strip(" .").lower())) is not None:
        return str(number)
    if _PLAIN.fullmatch(text):
        return with_units(_trimmed(text))
    text = _trimmed(_DECODED.sub(lambda match: _DECODED_TO[match[0]], text))
    if not text.isascii():
        text = ascii_signs(text)
    text = _rewritten(without_delimiters(text), MARKUP)
    text = _rewritten(text, LATEX if "\\" in text else WITHOUT_LATEX)
    return with_units(_trimmed(_rewritten(text, AT_LAST).rstrip("^\\ ")))  # A power whose exponent is missing.


def _rewritten(text: str, rewrites: tuple[Rewrite, ...]) -> str:
    for rewrite in rewrites:
        if rewrite.when(text):
            text = rewrite.pattern.sub(rewrite.to, text)
    return text


def _trimmed(text: str) -> str:
    """``text`` without the white space and the punctuation at its ends.

    It goes character by character: a pattern anchored at the end takes quadratic time on long runs of spaces.
    """
    start, end = 0, len(text)
    if text.endswith("..."):
        return text.strip()  # "1, 2, 3, ..." goes on.
    while end and (text[end - 1].isspace() or (text[end - 1] in ",;." and text[end - 2 : end - 1] != "\\")):
        end -= 1
    while start < end and (text[start].isspace() or text[start] in ",;:"):
        start += 1
    return text[start:end]


def without_delimiters(text: str) -> str:
    r"""``text`` without ``$...$``, ``\(...\)``, ``\[...\]`` or ``**...**`` around all of it."""
    while True:
        for pattern in _DELIMITED:
            match = pattern.fullmatch(text)
            if match and match[1].strip() and not (pattern is _DOLLARS and "$" in match[1].replace(r"\$", "")):
                text = _trimmed(match[1])
                break
        else:
            return text


def compact(text: str) -> str:
    """A normalised text without white space that cannot matter; two texts are compared in this form."""
    return _NEEDLESS_SPACE.sub("", text)
