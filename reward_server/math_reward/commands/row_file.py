"""A file of rows to grade, or standard input: opens it, finds the fields with its first row, reads it row by row."""

import gzip
import io
import os
import select
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from math_reward.commands.options import STANDARD
from math_reward.commands.rows import Fault, FileRefused, Keys, Row, find_keys, objects, read_row
from math_reward.grader.verdict import Options
from math_reward.json_lines import NotUTF8


class RowFile:
    """The rows of a file, read as they are asked for, and once. A context manager.

    Args:
        path: a ``.jsonl`` or ``.jsonl.gz`` file, or ``-`` for standard input.
        options: how to grade.
        named: the names of the fields, see ``math_reward.commands.rows.find_keys``.
        references_only: leave out the completions.

    Attributes:
        keys: the names of the fields; they are known from the first ``Row`` on.
        size: the file's bytes; None where they cannot be known.
        when_idle: called when nothing more of standard input can be read at the moment.

    Raises:
        FileRefused: on entry, the file cannot be opened; from the iteration, it is damaged, its first row lacks a
            field that is needed, or it has no row.
    """

    def __init__(
        self, path: str, options: Options, named: dict[str, str | None], references_only: bool = False
    ) -> None:
        self.keys: Keys | None = None
        self.size: int | None = None
        self.when_idle: Callable[[], None] = lambda: None
        self._path = path
        self._options = options
        self._named = named
        self._references_only = references_only
        self._stack = ExitStack()

    def __enter__(self) -> "RowFile":
        if self._path == STANDARD:
            self._raw: IO[bytes] = io.BufferedReader(_StandardInput(self))
            return self
        try:
            self._raw = self._stack.enter_context(open(self._path, "rb"))
        except OSError as error:
            raise FileRefused(f"{self._path} cannot be read: {error.strerror}.") from None
        if self._raw.seekable():
            self.size = Path(self._path).stat().st_size
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def bytes_read(self) -> int:
        """How much of ``size`` has been read."""
        return self._raw.tell()

    def __iter__(self) -> Iterator[Row | Fault]:
        first_fault: Fault | None = None
        for row_or_fault in self._objects():
            if isinstance(row_or_fault, Fault):
                first_fault = first_fault or row_or_fault
                yield row_or_fault
                continue
            if self.keys is None:
                self.keys = find_keys(row_or_fault[1], self._named, self._references_only)
            yield read_row(*row_or_fault, self.keys, self._options)
        if self.keys is None:
            why = f"line {first_fault.line}: {first_fault.reason}" if first_fault else "it is empty."
            raise FileRefused(f"{self._path} has no row that can be used; {why}")

    def _objects(self) -> Iterator[tuple[int, dict[str, Any]] | Fault]:
        """The rows as JSON objects, with a sentence where the file turns out to be damaged."""
        lines: Iterable[bytes] = gzip.GzipFile(fileobj=self._raw) if self._path.endswith(".gz") else self._raw
        try:
            yield from objects(lines)
        except NotUTF8 as error:
            raise FileRefused(f"{self._path} cannot be read: {error}.") from None
        except (OSError, EOFError, zlib.error) as error:
            raise FileRefused(f"{self._path} cannot be read to its end: {error}.") from None


class _StandardInput(io.RawIOBase):
    """Standard input, which Ctrl-C ends at once: Python handles no signal that comes just before a blocking read."""

    def __init__(self, file: RowFile) -> None:
        super().__init__()
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        number = sys.stdin.fileno()
        if not select.select([number], [], [], 0)[0]:
            self._file.when_idle()
        while not select.select([number], [], [], 0.2)[0]:
            pass  # Python handles its signals here.
        content = os.read(number, len(buffer))
        buffer[: len(content)] = content
        return len(content)
