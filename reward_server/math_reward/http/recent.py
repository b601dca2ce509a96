"""Keeps the service's last verdicts for its page."""

import itertools
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from math_reward.pool.item import Graded

KEPT = 50
"""How many verdicts are kept. Completions and prompts are never kept."""

SHOWN_CHARACTERS = 200
"""How much of an answer or a reference is kept."""


class Recent:
    """The last verdicts. Lives in one event loop."""

    def __init__(self) -> None:
        self._kept: deque[dict[str, Any]] = deque(maxlen=KEPT)

    def add(self, graded: Sequence[Graded]) -> None:
        """Adds the verdicts on the items of one request, in a time that does not depend on their number."""
        now = time.time()
        for one in itertools.islice(graded, max(0, len(graded) - KEPT), None):
            shown = one.grade.as_dict()
            answer = shown["answer"]
            self._kept.appendleft(
                {
                    "time": round(now, 3),
                    "verdict": shown["verdict"],
                    "answer": None if answer is None else answer[:SHOWN_CHARACTERS],
                    "reference": shown["reference"][:SHOWN_CHARACTERS],
                    "stage": shown["stage"],
                    "seconds": round(one.seconds, 6),
                }
            )

    def newest_first(self) -> list[dict[str, Any]]:
        """The kept verdicts, each as the JSON of a ``math_reward.http.routes.page.RecentVerdict``."""
        return list(self._kept)
