"""The reader of files with one JSON object per line, for data prepare, the doctor, eval, solutions and training.

The reward service has its own, ``math_reward/json_lines.py``, which reads the same files in the same way; one test
runs both. A file is UTF-8, with or without a byte order mark, and its lines end with LF or CRLF.
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Line", "NoAnswer", "NoRow", "Unreadable", "is_lines", "label_text", "lines_of", "object_of"]

WHOLE_FLOATS = 2**53
"""Below this, floats represent every whole number exactly, so 42.0 can be written as 42."""


class Unreadable(ValueError):
    """A file cannot be opened, or is not UTF-8. The message is a part of a sentence that says why."""


class NoRow(ValueError):
    """A line is not a JSON object. The message is a part of a sentence that says why, after "it"."""


class NoAnswer(ValueError):
    """A value cannot be a reference answer. The message is a part of a sentence that says what it is."""


class Line(NamedTuple):
    """One line that is not blank."""

    number: int
    """From 1, blank lines included."""
    offset: int
    """Of its first byte in the file."""
    content: bytes


def lines_of(path: Path) -> Iterator[Line]:
    """The lines of a file.

    Only a line feed ends a line: texts in a JSON object may contain other characters at which ``str.splitlines`` would
    split (U+2028, U+0085, a form feed).

    Raises:
        Unreadable: when the first line is read.
    """
    offset = 0
    try:
        with path.open("rb") as file:
            for number, content in enumerate(file, 1):
                encoding = json.detect_encoding(content[:4]) if number == 1 else "utf-8"
                if not encoding.startswith("utf-8"):
                    raise Unreadable(f"it is {encoding[:6].upper()} and has to be UTF-8: save it as that")
                if content.removeprefix(b"\xef\xbb\xbf").strip(b" \t\r\n"):
                    yield Line(number, offset, content)
                offset += len(content)
    except OSError as error:
        raise Unreadable(error.strerror or str(error)) from None


def object_of(content: bytes) -> dict[str, Any]:
    """The JSON object of a line.

    Raises:
        NoRow: it is not an object.
    """
    try:
        row = json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise NoRow("is not UTF-8") from None
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise NoRow("is no JSON object")
    return row


def label_text(label: Any) -> str:
    """A reference answer as a text for the grader; a number as it is usually written, 42.0 as 42.

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


def is_lines(path: Path) -> bool:
    """Whether a file is JSON lines, by its name or its first character: a .json file may also be an array, which
    begins with a bracket."""
    if path.suffix == ".jsonl":
        return True
    with path.open("rb") as file:
        return file.read(64).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] != b"["
