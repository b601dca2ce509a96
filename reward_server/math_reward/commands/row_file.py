"""A file of rows to grade, or standard input: opens it, finds the fields with its first row, reads it row by row."""

import gzip
import os
import select
import sys
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from math_reward.commands.options import STANDARD
from math_reward.commands.rows import Fault, FileRefused, Keys, Row, find_keys, read_row
from math_reward.grader.verdict import Options
from math_reward.json_lines import NoRow, NotUTF8, lines_of, object_of


class RowFile:
    """The rows of a file, read as they are asked for, and once. A context manager.

    Args:
        path: a ``.jsonl`` or ``.jsonl.gz`` file, or ``-`` for standard input.
        options: how to grade.
        named: the names of the fields, see ``math_reward.commands.rows.find_keys``.

    Attributes:
        size: the file's bytes; None where they cannot be known.

    Raises:
        FileRefused: on entry, the file cannot be opened; from the iteration, it is damaged, its first row lacks a
            field that is needed, or it has no row.
    """

    def __init__(self, path: str, options: Options, named: dict[str, str | None]) -> None:
        self.size: int | None = None
        self._keys: Keys | None = None
        self._path = path
        self._options = options
        self._named = named
        self._stack = ExitStack()

    def __enter__(self) -> "RowFile":
        if self._path == STANDARD:
            self._raw: Any = _StandardInput()
            return self
        try:
            self._raw = self._stack.enter_context(open(self._path, "rb"))
        except OSError as error:
            raise FileRefused(f"{self._path} cannot be read: {error.strerror}.") from None
        self.size = Path(self._path).stat().st_size or None  # that of a pipe is 0
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def keys(self) -> Keys:
        """The names of the fields; they are known from the first ``Row`` on."""
        assert self._keys is not None
        return self._keys

    @property
    def bytes_read(self) -> int:
        """How much of ``size`` has been read."""
        return 0 if self.size is None else int(self._raw.tell())

    def pauses(self) -> bool:
        """Whether this is standard input and its next row has yet to come."""
        return isinstance(self._raw, _StandardInput) and self._raw.pauses()

    def __iter__(self) -> Iterator[Row | Fault]:
        first_fault: Fault | None = None
        for number, row in self._objects():
            if isinstance(row, Fault):
                first_fault = first_fault or row
                yield row
                continue
            if self._keys is None:
                self._keys = find_keys(row, self._named)
            yield read_row(number, row, self._keys, self._options)
        if self._keys is None:
            why = f"line {first_fault.line}: {first_fault.reason}" if first_fault else "it is empty."
            raise FileRefused(f"{self._path} has no row that can be used; {why}")

    def _objects(self) -> Iterator[tuple[int, dict[str, Any] | Fault]]:
        """The number of each line that is not blank with its JSON object, or with why there is none."""
        lines: Iterable[bytes] = gzip.GzipFile(fileobj=self._raw) if self._path.endswith(".gz") else self._raw
        try:
            for line in lines_of(lines):
                try:
                    yield line.number, object_of(line.content)
                except NoRow as error:
                    yield line.number, Fault(line.number, str(error))
        except NotUTF8 as error:
            raise FileRefused(f"{self._path} cannot be read: {error}.") from None
        except (OSError, EOFError, zlib.error) as error:
            raise FileRefused(f"{self._path} cannot be read to its end: {error}.") from None


class _StandardInput:
    """The lines of standard input, with a word on whether the next one is there."""

    def __init__(self) -> None:
        self._number = sys.stdin.fileno()
        self._lines: deque[bytes] = deque()
        self._begun = b""  # a line without its end
        self._ended = False

    def __iter__(self) -> Iterator[bytes]:
        while self._lines or not self._ended:
            if self._lines:
                yield self._lines.popleft()
            else:
                # Not a blocking read: Python handles no signal, such as that of Ctrl-C, that comes just before one.
                self._take_in(0.2)

    def pauses(self) -> bool:
        """Whether the next line that is not blank has yet to come."""
        while not self._ended and not any(line.strip() for line in self._lines):
            if not self._take_in(0):
                return True
        return False

    def _take_in(self, seconds: float) -> bool:
        """Reads what comes within so many seconds; False if nothing does."""
        if not select.select([self._number], [], [], seconds)[0]:
            return False
        content = os.read(self._number, 65_536)
        *lines, self._begun = (self._begun + content).split(b"\n")
        self._lines.extend(line + b"\n" for line in lines)
        if not content:
            self._ended = True
            self._lines.extend([self._begun] if self._begun else [])
        return True
