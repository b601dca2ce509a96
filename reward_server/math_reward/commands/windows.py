"""Sends the rows of a file to pools of workers, a few windows of rows at once, and yields their grades in order."""

import queue
import sys
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future

from tqdm import tqdm

from math_reward.commands.row_file import RowFile
from math_reward.commands.rows import Fault, Row
from math_reward.pool.item import Graded
from math_reward.pool.worker_pool import WorkerPool

WINDOW_ROWS = 512
"""The most rows that go to the workers together; fewer where no more have come yet."""

WINDOWS = 3
"""Windows that the workers have at once: enough to keep them busy while one is read or written."""

_Read = Row | Fault | Exception | None
"""A line; why there is no other; None at the end."""


def graded_in_order(file: RowFile, *pools: WorkerPool) -> Iterator[tuple[Row | Fault, tuple[Graded, ...]]]:
    """Each line of a file, as soon as it and all before it are graded, with the grade of each pool; a ``Fault`` has
    none. A bar on standard error, if that is a terminal, shows how much has been read.

    Raises:
        FileRefused: what the file's iteration raises.
        NoWorkers, PoolClosed: what the pools raise.
    """
    lines: queue.Queue[_Read] = queue.Queue(WINDOW_ROWS)
    # Another thread reads, so that verdicts are written while the next line has yet to come.
    threading.Thread(target=_read, args=(file, lines), daemon=True).start()
    under_way: deque[tuple[list[Row | Fault], list[list[Future[Graded]]]]] = deque()
    ended = False
    with tqdm(total=file.size, unit="B", unit_scale=True, disable=None, file=sys.stderr) as bar:
        while not ended or under_way:
            rows, ended = ([], True) if ended else _come(lines, wait=not under_way)
            if rows:
                items = [row.item for row in rows if isinstance(row, Row)]
                under_way.append((rows, [pool.submit_each(items) for pool in pools]))
                if len(under_way) < WINDOWS and not ended:
                    continue
            if under_way:
                rows, futures = under_way.popleft()
                graded = zip(*futures, strict=True)
                for row in rows:
                    yield row, () if isinstance(row, Fault) else tuple(one.result() for one in next(graded))
                bar.update(file.bytes_read - bar.n)


def _read(file: RowFile, lines: "queue.Queue[_Read]") -> None:
    try:
        for row in file:
            lines.put(row)
        lines.put(None)
    except Exception as error:
        lines.put(error)


def _come(lines: "queue.Queue[_Read]", wait: bool) -> tuple[list[Row | Fault], bool]:
    """The lines that have come, at least one with ``wait``, and whether they are the last. Raises what ended them."""
    rows: list[Row | Fault] = []
    while len(rows) < WINDOW_ROWS:
        try:
            line = lines.get(block=wait and not rows)
        except queue.Empty:
            break
        if line is None:
            return rows, True
        if isinstance(line, Exception):
            raise line
        rows.append(line)
    return rows, False
