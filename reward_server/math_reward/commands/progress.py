"""Shows on standard error, if that is a terminal, how far a file has been read."""

import sys
from types import TracebackType

from tqdm import tqdm

from math_reward.commands.row_file import RowFile

EVERY_ROWS = 256
"""After how many rows the bar is looked at."""


class Progress:
    """A bar of a file's bytes, since the number of its rows is not known in advance; and the rows done. A context
    manager.
    """

    def __init__(self, file: RowFile) -> None:
        self._file = file
        self._rows = 0

    def __enter__(self) -> "Progress":
        self._bar = tqdm(total=self._file.size, unit="B", unit_scale=True, disable=None, file=sys.stderr)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._show()
        self._bar.close()

    def row(self) -> None:
        """One more row is done."""
        self._rows += 1
        if self._rows % EVERY_ROWS == 0:
            self._show()

    def _show(self) -> None:
        if self._bar.disable:
            return
        self._bar.set_postfix_str(f"{self._rows:,} rows", refresh=False)
        if self._file.size is not None:
            self._bar.update(self._file.bytes_read - self._bar.n)
        else:
            self._bar.refresh()
