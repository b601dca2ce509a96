"""Sends the rows of a file to pools of workers, a few windows of rows at once, and yields their grades in order."""

import sys
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future

from tqdm import tqdm

from math_reward.commands.row_file import RowFile
from math_reward.commands.rows import Fault, Row
from math_reward.pool.item import Graded
from math_reward.pool.worker_pool import WorkerPool

WINDOW_ROWS = 512
"""Rows that go to the workers together."""

WINDOWS = 3
"""Windows that the workers have at once: enough to keep them busy while one is read or written."""

_Window = tuple[list[Row | Fault], list[list["Future[Graded]"]]]
"""Rows, and for each pool the futures of those that are a ``Row``."""


def graded_in_order(file: RowFile, *pools: WorkerPool) -> Iterator[tuple[Row | Fault, tuple[Graded, ...]]]:
    """Each line of a file, as soon as it and all before it are graded, with the grade of each pool; a ``Fault`` has
    none. A bar on standard error, if that is a terminal, shows how much has been read.

    Raises:
        FileRefused: what the file's iteration raises.
        NoWorkers, PoolClosed: what the pools raise.
    """
    done = 0
    with tqdm(total=file.size, unit="B", unit_scale=True, disable=None, file=sys.stderr) as bar:
        for rows, futures in _windows(file, pools):
            graded = zip(*futures, strict=True)
            for row in rows:
                yield row, () if isinstance(row, Fault) else tuple(one.result() for one in next(graded))
            done += len(rows)
            bar.set_postfix_str(f"{done:,} rows", refresh=False)
            bar.update(file.bytes_read - bar.n)


def _windows(file: RowFile, pools: tuple[WorkerPool, ...]) -> Iterator[_Window]:
    """The rows of a file, each window when it is to be waited for: the next ones are with the workers by then.

    Where standard input pauses, the rows that have come are graded without waiting for a whole window.
    """
    window: list[Row | Fault] = []
    under_way: deque[_Window] = deque()
    for row in file:
        window.append(row)
        pauses = file.pauses()
        if pauses or len(window) >= WINDOW_ROWS:
            under_way.append(_sent(window, pools))
            window = []
        while under_way and (pauses or len(under_way) > WINDOWS):
            yield under_way.popleft()
    yield from (*under_way, _sent(window, pools))


def _sent(rows: list[Row | Fault], pools: tuple[WorkerPool, ...]) -> _Window:
    items = [row.item for row in rows if isinstance(row, Row)]
    return rows, [pool.submit_each(items) for pool in pools]
