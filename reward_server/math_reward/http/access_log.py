"""The access log: one JSON object per line on standard error."""

import contextlib
import json
import logging
import queue
import sys
from datetime import datetime, timezone
from logging.handlers import QueueHandler, QueueListener
from typing import Any

MAX_WAITING_LINES = 10_000
"""How many lines may wait to be written. More are dropped, so that a stopped terminal cannot stop the service."""


class AccessLog:
    """Writes lines in a thread of its own, so that a slow reader cannot hold up requests. A context manager."""

    def __init__(self) -> None:
        self._waiting: queue.Queue[Any] = queue.Queue(MAX_WAITING_LINES)
        self._handler = _DroppingHandler(self._waiting)
        output = logging.StreamHandler(sys.stderr)
        output.setFormatter(logging.Formatter("%(message)s"))
        self._listener = QueueListener(self._waiting, output)

    def __enter__(self) -> "AccessLog":
        self._listener.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.stop()

    def write(self, **fields: Any) -> None:
        """Queues one line: the time and the fields."""
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, **fields})
        self._handler.handle(logging.LogRecord("math_reward.access", logging.INFO, "", 0, line, None, None))


class _DroppingHandler(QueueHandler):
    def enqueue(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(queue.Full):
            self.queue.put_nowait(record)
