"""Reads files with a JSON object on each line, and reference answers: for the service's commands, and for everything
of the plugin that reads a data set.

A file is UTF-8, with or without a byte order mark, and its lines end with LF or CRLF.
"""

import json
import math
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any, NamedTuple

MAX_REFERENCES = 64
"""How many reference answers one item may have."""

WHOLE_FLOATS = 2**53
"""Below it every whole number has a float of its own, so 42.0 is 42."""


class NotUTF8(ValueError):
    """A file has another encoding; the message is half a sentence that says which."""


class NoRow(ValueError):
    """A line is not a JSON object; the message is a sentence that says why.

    Attributes:
        brief: the same as half a sentence after "it", without what is of this line alone.
    """

    def __init__(self, sentence: str, brief: str = "is no JSON object") -> None:
        super().__init__(sentence)
        self.brief = brief


class NoAnswer(ValueError):
    """A value is not a reference answer; the message is half a sentence that says what it is."""


def check_encoding(head: bytes) -> None:
    """Checks the first four bytes of a file.

    Raises:
        NotUTF8: it is UTF-16 or UTF-32.
    """
    encoding = json.detect_encoding(head)
    if not encoding.startswith("utf-8"):
        raise NotUTF8(f"it is {encoding[:6].upper()} and has to be UTF-8: save it as that")


class Line(NamedTuple):
    """One line that is not blank."""

    number: int
    """From 1, blank lines included."""
    offset: int
    """Of its first byte in the file."""
    content: bytes


def lines_of(file: Iterable[bytes]) -> Iterator[Line]:
    """The lines of a file that was opened in binary.

    Only a line feed ends a line: texts in a JSON object may contain other characters at which ``str.splitlines`` would
    split (U+2028, U+0085, a form feed).

    Raises:
        NotUTF8: at the first line.
    """
    offset = 0
    for number, content in enumerate(file, 1):
        if number == 1:
            check_encoding(content[:4])
        if content.removeprefix(b"\xef\xbb\xbf").strip(b" \t\r\n"):
            yield Line(number, offset, content)
        offset += len(content)


def object_of(content: bytes) -> dict[str, Any]:
    """The JSON object of a line.

    Raises:
        NoRow: the line is not one.
    """
    try:
        row = json.loads(content.decode("utf-8-sig").rstrip(" \t\r\n"), parse_float=float_of)
    except UnicodeDecodeError:
        raise NoRow("It is not UTF-8 text.", "is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise NoRow(f"It is not JSON: {error.msg} at character {error.pos + 1}.") from None
    except ValueError:  # Python reads no longer integers.
        raise NoRow("It has an integer of more than 4,300 digits.") from None
    except RecursionError:
        raise NoRow("Its JSON is nested too deeply.") from None
    if not isinstance(row, dict):
        raise NoRow("It is not a JSON object, such as {...}.")
    return row


def float_of(text: str) -> float | str:
    """A number as JSON writes it: text where a float has no room for all its digits, such as 1e999."""
    value = float(text)
    fits = math.isfinite(value) and abs(value) < WHOLE_FLOATS and Decimal(text) == Decimal(repr(value))
    return value if fits else text


def label_text(label: Any) -> str:
    """A reference answer as text: a number as it is usually written, 42.0 as 42.

    Raises:
        NoAnswer: it is neither a text nor a number.
    """
    if isinstance(label, str):
        return label
    if isinstance(label, float) and math.isfinite(label):
        return str(int(label)) if label.is_integer() and abs(label) < WHOLE_FLOATS else str(label)
    if isinstance(label, int) and not isinstance(label, bool):
        return str(label)
    kinds = {bool: "true or false", float: "not a number", list: "a list", dict: "an object", type(None): "null"}
    raise NoAnswer(kinds.get(type(label), f"of the kind {type(label).__name__}"))


def reference_of(value: Any) -> str | tuple[str, ...]:
    """The reference of a request's item, or of a row: text, a number, or a list of these, of which any one may match.

    Null is a missing reference, and so are NaN and infinity, which may be anything that overflowed: they are graded
    ``bad_reference``, and the other items as usual.

    Raises:
        NoAnswer: it is none of these, or too long a list.
    """
    if value is None or value == []:
        return ""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ""
    if isinstance(value, list):
        if len(value) > MAX_REFERENCES:
            raise NoAnswer(f"at most {MAX_REFERENCES} reference answers can be given")
        texts = tuple(reference_of(one) for one in value)
        if all(isinstance(text, str) for text in texts):
            return texts  # type: ignore[return-value]
    try:
        return label_text(value)
    except NoAnswer:
        raise NoAnswer("a reference answer is text, a number or a list of these") from None
