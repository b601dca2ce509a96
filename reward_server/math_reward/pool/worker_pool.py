"""The pool for code that has no event loop."""

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any

from math_reward.grader import grade
from math_reward.pool.item import Graded, GradeFunction, Item
from math_reward.pool.lane import NoWorkers
from math_reward.pool.pool import HEAD_START_SECONDS, Pool, PoolClosed


class WorkerPool:
    """A ``math_reward.pool.pool.Pool`` in a thread of its own, so that it can be used without ``await``.

    Args:
        workers: how many processes; there are as many again for slow items.
        deadline: CPU seconds that one item may take.
        grader: what grades an item; importable by name in another process.
        head_start: CPU seconds that an ordinary item may take; one that takes more starts again, alone.

    A context manager: workers start in the background on entry, and have ended after exit. Where there is no such end,
    ``abandon`` it.
    """

    def __init__(
        self,
        workers: int,
        deadline: float,
        grader: GradeFunction = grade,
        head_start: float = HEAD_START_SECONDS,
    ) -> None:
        self._new_pool = lambda: Pool(workers, deadline, grader, head_start=head_start)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="math-reward-pool", daemon=True)

    def __enter__(self) -> "WorkerPool":
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(self._close())

    def abandon(self) -> None:
        """Kills the workers and waits for nothing, so that it also works while the interpreter exits. What waits for
        grades gets PoolClosed."""
        self._end(self._pool.abandon())

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers that are alive."""
        return self._pool.pids

    def submit(self, item: Item) -> "Future[Graded]":
        """Queues an item. The future raises PoolClosed if the pool is closed first."""
        return self.submit_each([item])[0]

    def submit_each(self, items: Sequence[Item]) -> "list[Future[Graded]]":
        """Queues items together; one future for each. They raise PoolClosed if the pool is closed first."""
        futures: list[Future[Graded]] = [Future() for _ in items]
        asyncio.run_coroutine_threadsafe(self._grade_each(items, futures), self._loop)
        return futures

    async def _open(self) -> None:
        self._pool = await self._new_pool().__aenter__()

    def _end(self, last: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(last, self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        await self._pool.__aexit__()
        await self._loop.shutdown_default_executor()

    async def _grade_each(self, items: Sequence[Item], futures: "list[Future[Graded]]") -> None:
        def tell(index: int, graded: Graded) -> None:
            if futures[index].set_running_or_notify_cancel():
                futures[index].set_result(graded)

        try:
            await self._pool.grade(items, each=tell)
        except (PoolClosed, NoWorkers) as error:
            for future in futures:
                if not future.done():
                    future.set_exception(error)
