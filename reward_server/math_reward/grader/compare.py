"""Compares two answers. Math-Verify does it; this is the only module that knows of it.

Math-Verify's own time limits are off: they are Python handlers of SIGALRM, which raise in every thread but the main
one and cannot interrupt C code. The deadline is the caller's.
"""

import logging
import re
from functools import lru_cache
from typing import Any

from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

# It would say, once per process, that its time limits are off.
logging.getLogger("math_verify").setLevel(logging.ERROR)

MAX_CHARACTERS = 2_000
MAX_NESTING = 60
MAX_DIGITS = 400
"""The longest run of digits in a number."""

# An answer or a reference is an expression: looking for a number in it as well would take "2√3", which does not
# parse, for 2.
_EXPRESSION = (LatexExtractionConfig(),)
_PROSE = (LatexExtractionConfig(), ExprExtractionConfig())

_DELIMITERS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"))
_DOLLAR = re.compile(r"(?<!\\)\$")
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(?: \d{3})+(?:\.\d+)?")
_SCIENTIFIC = re.compile(r"([-+]?\d+(?:\.\d+)?)[eE]([-+]?\d+)")
_LONG_NUMBER = re.compile(rf"\d{{{MAX_DIGITS + 1}}}")


class TooComplex(ValueError):
    """The text is beyond the limits; the message says which."""


class Parsed:
    """One answer, parsed: the text and Math-Verify's readings of it (SymPy objects, and the text as the last one)."""

    def __init__(self, text: str, readings: list[Any]) -> None:
        self.text = text
        self.readings = readings

    @property
    def is_mathematics(self) -> bool:
        """False where nothing but the text itself was understood."""
        return any(not isinstance(reading, str) for reading in self.readings)

    @property
    def extracted(self) -> str | None:
        """The piece of the text that was read, or None where nothing was."""
        return next((reading for reading in reversed(self.readings) if isinstance(reading, str)), None)


@lru_cache(maxsize=4096)
def parse_expression(text: str) -> Parsed:
    """Parses a text that is an answer and nothing else, with or without ``$...$``.

    Raises:
        TooComplex: the text is beyond the limits; no work was done.
    """
    text = plain(text)
    _check_limits(text)
    # Dollar signs that are not pairs of delimiters are a currency's.
    latex = text if len(_DOLLAR.findall(text)) % 2 == 0 else _DOLLAR.sub(r"\\$", text)
    return Parsed(text, _parse(f"${latex}$", _EXPRESSION))


def parse_prose(text: str) -> Parsed:
    """Parses the answer that some prose contains: after "answer is", else the last formula or number."""
    return Parsed(text, _parse(text, _PROSE))


def equal(reference: Parsed, answer: Parsed) -> bool:
    """True if the two answers are mathematically the same. Not symmetric: the reference sets the form."""
    return verify(reference.readings, answer.readings, timeout_seconds=None)


def plain(text: str) -> str:
    r"""``text`` without delimiters, line breaks and a full stop at its end.

    ``1 000`` becomes ``1000`` and ``1e-5`` becomes ``1 \times 10^{-5}``: Math-Verify would read 1*0 and e - 5.
    """
    text = " ".join(text.split()).removesuffix(".").rstrip()
    for left, right in _DELIMITERS:
        inner = text[len(left) : -len(right)]
        if text.startswith(left) and text.endswith(right) and inner.strip() and left not in inner:
            return plain(inner)
    if _THOUSANDS.fullmatch(text):
        return text.replace(" ", "")
    if number := _SCIENTIFIC.fullmatch(text):
        return rf"{number[1]} \times 10^{{{number[2]}}}"
    return text


def _parse(text: str, targets: tuple[Any, ...]) -> list[Any]:
    return parse(text, extraction_config=targets, parsing_timeout=None)


def _check_limits(text: str) -> None:
    if len(text) > MAX_CHARACTERS:
        raise TooComplex(f"it has {len(text):,} characters, and {MAX_CHARACTERS:,} are allowed")
    if _LONG_NUMBER.search(text):
        raise TooComplex(f"it has a number of more than {MAX_DIGITS} digits")
    depth = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if depth > MAX_NESTING:
            raise TooComplex(f"its brackets are nested more than {MAX_NESTING} deep")
