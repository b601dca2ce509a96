"""``grade`` with a deadline, for programs of one's own."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any

from math_reward.grader import Grade, Options
from math_reward.json_lines import reference_of
from math_reward.limits import DEADLINE, MAX_DEADLINE, MIN_DEADLINE
from math_reward.pool.item import DEFAULT_OPTIONS, Item
from math_reward.pool.worker_pool import WorkerPool


class Grader:
    """``math_reward.grader.grade`` in a worker process, which is killed when an answer takes too long.

    Args:
        deadline: CPU seconds that grading one completion may take; then its verdict is ``timeout``.

    A context manager: the process starts on entry and has ended after exit. Threads may share it. For many items at
    once, and all cores, use ``math_reward.pool.worker_pool.WorkerPool``.

    Raises:
        ValueError: the deadline is none.
    """

    def __init__(self, deadline: float = DEADLINE) -> None:
        if not MIN_DEADLINE <= deadline <= MAX_DEADLINE:
            raise ValueError(f"deadline: {deadline} is not between {MIN_DEADLINE} and {MAX_DEADLINE}.")
        self._pool = WorkerPool(workers=1, deadline=deadline)

    def __enter__(self) -> "Grader":
        self._pool.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.__exit__(kind, error, trace)

    def grade(
        self,
        completion: str,
        reference: str | float | Sequence[str | float],
        prompt: str | None = None,
        options: Options = DEFAULT_OPTIONS,
    ) -> Grade:
        """As ``math_reward.grader.grade``.

        Raises:
            NoAnswer: the reference is neither text nor a number nor a list of these.
            PoolClosed, NoWorkers: it was left, or no process can be started.
        """
        given: Any = list(reference) if isinstance(reference, tuple) else reference
        return self._pool.submit(Item(completion, reference_of(given), prompt, options)).result().grade
