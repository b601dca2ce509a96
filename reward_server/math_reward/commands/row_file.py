"""Files of rows, or standard input: opens them, finds the fields with the first row, reads rows; creates files."""

import gzip
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from math_reward.commands.options import STANDARD
from math_reward.commands.rows import Fault, FileRefused, Keys, Row, find_keys, read_row
from math_reward.grader.verdict import Options
from math_reward.json_lines import NoRow, NotUTF8, lines_of, object_of
from math_reward.nearest import beside


class RowFile:
    """The rows of a file, read as they are asked for, and once. A context manager.

    Args:
        path: a ``.jsonl`` or ``.jsonl.gz`` file, or ``-`` for standard input.
        options: how to grade.
        named: the names of the fields, see ``math_reward.commands.rows.find_keys``.

    Attributes:
        size: the file's bytes; None where they cannot be known.

    Raises:
        FileRefused: the file cannot be opened; from the iteration, it is damaged, its first row lacks a field that is
            needed, or it has no row.
    """

    def __init__(self, path: str, options: Options, named: dict[str, str | None]) -> None:
        self.size: int | None = None
        self._keys: Keys | None = None
        self._path = path
        self._options = options
        self._named = named
        if path == STANDARD:
            # A reader of its own: who waits inside that of sys.stdin holds a lock that the interpreter needs to exit.
            self._raw = open(sys.stdin.fileno(), "rb", closefd=False)  # noqa: SIM115 (never closed)
            return
        try:
            self._raw = open(path, "rb")  # noqa: SIM115 (closed on exit)
        except OSError as error:
            raise FileRefused(f"{path} cannot be read: {error.strerror}{beside(path)}.") from None
        self.size = Path(path).stat().st_size or None  # that of a pipe is 0

    def __enter__(self) -> "RowFile":
        return self

    def __exit__(self, *_: object) -> None:
        if self._path != STANDARD:  # Another thread may still wait for its next line.
            self._raw.close()

    @property
    def keys(self) -> Keys:
        """The names of the fields; they are known from the first ``Row`` on."""
        assert self._keys is not None
        return self._keys

    @property
    def bytes_read(self) -> int:
        """How much of ``size`` has been read."""
        return 0 if self.size is None else self._raw.tell()

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


def created(stack: ExitStack, path: str) -> IO[str]:
    """A new file for text, which ``stack`` closes; or standard output, to which each line goes as it is written.

    Raises:
        FileRefused: it cannot be written.
    """
    try:
        if path == STANDARD:
            return stack.enter_context(open(sys.stdout.fileno(), "w", encoding="utf-8", buffering=1, closefd=False))
        return stack.enter_context(open(path, "w", encoding="utf-8"))
    except OSError as error:
        raise FileRefused(f"{path} cannot be written: {error.strerror}.") from None
