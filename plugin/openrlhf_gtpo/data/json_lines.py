"""Opens files with one JSON object per line, which `math_reward.json_lines` reads."""

from collections.abc import Iterator
from pathlib import Path

from math_reward.json_lines import Line, NotUTF8
from math_reward.json_lines import lines_of as lines_of_file


class Unreadable(ValueError):
    """A file cannot be opened, or is not UTF-8. The message is a part of a sentence that says why."""


class NotOpened(Unreadable):
    """The path or its permissions are at fault."""


def lines_of(path: Path) -> Iterator[Line]:
    """The lines of a file.

    Raises:
        Unreadable: when the first line is read.
    """
    try:
        with path.open("rb") as file:
            yield from lines_of_file(file)
    except NotUTF8 as error:
        raise Unreadable(str(error)) from None
    except OSError as error:
        raise NotOpened(error.strerror or str(error)) from None


def is_lines(path: Path) -> bool:
    """Whether a file is JSON lines, by its name or its first character: a .json file may also be an array, which
    begins with a bracket."""
    if path.suffix == ".jsonl":
        return True
    with path.open("rb") as file:
        return file.read(64).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] != b"["
