"""Files with a JSON object a line."""

from pathlib import Path

__all__ = ["lines_of"]


def lines_of(path: Path) -> list[str]:
    """The lines of a file in UTF-8, without their ends.

    A line ends with a line feed and nothing else: a text in a JSON object may hold other characters that
    ``str.splitlines`` takes for the end of a line (U+2028, U+0085, a form feed).

    Raises:
        OSError, UnicodeDecodeError: the file cannot be read, or is not UTF-8.
    """
    lines = path.read_text(encoding="utf-8").split("\n")
    return lines if lines[-1] else lines[:-1]
