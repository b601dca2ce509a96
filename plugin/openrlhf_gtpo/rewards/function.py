"""A user's own reward function, in threads, with a limit of time."""

import asyncio
import contextlib
import math
import os
import threading
import time
from collections.abc import Callable
from typing import Any

THREADS = min(32, (os.cpu_count() or 1) + 4)
"""How many calls are under way at once: as many as OpenRLHF makes."""

RewardFunction = Callable[[list[str], list[str], list[str]], Any]
"""OpenRLHF's ``reward_func(queries, prompts, labels)``."""


class LimitedFunction:
    """Calls a reward function. A thread cannot be stopped: one that does not return is left behind, and another takes
    its place.

    Args:
        function: the user's.
        seconds: that a call may take (``--reward.deadline``), and that those which wait for a thread may see none
            return.
    """

    def __init__(self, function: RewardFunction, seconds: float) -> None:
        self._function = function
        self._seconds = seconds
        self._threads = asyncio.Semaphore(THREADS)
        self._last = -math.inf
        """When a call returned last, by the clock that only goes forward."""

    async def __call__(self, query: str, prompt: str, label: str) -> dict[str, Any]:
        """What the function returns for one response.

        Raises:
            ValueError: it fails, or does not return in time; the message is half a sentence.
        """
        await self._thread()
        try:
            returned = await asyncio.wait_for(self._started(query, prompt, label), self._seconds)
            self._last = time.monotonic()
        except asyncio.TimeoutError:
            raise self._too_long() from None
        finally:
            self._threads.release()
        if isinstance(returned, BaseException):
            raise ValueError(f"the reward function failed: {type(returned).__name__}: {returned}") from returned
        try:
            return dict(returned)
        except (TypeError, ValueError):
            kind = type(returned).__name__
            raise ValueError(f"the reward function returned a {kind}, not a dict with 'rewards'") from None

    async def _thread(self) -> None:
        """Waits for a thread. Where none becomes free since no call returns, waiting ends as the calls do."""
        begin = time.monotonic()
        while True:
            left = max(self._last, begin) + self._seconds - time.monotonic()
            if left <= 0 and self._threads.locked():
                raise self._too_long()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._threads.acquire(), max(left, 1.0))
                return

    def _too_long(self) -> ValueError:
        return ValueError(f"the reward function did not return within {self._seconds:g} s (--reward.deadline)")

    def _started(self, *texts: str) -> "asyncio.Future[Any]":
        """What a new thread's call returns or raises; ``sys.exit`` is an exception like others."""
        loop, future = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()

        def tell(result: Any) -> None:
            if not future.done():
                future.set_result(result)

        def call() -> None:
            try:
                result = self._function(*([text] for text in texts))
            except BaseException as error:
                result = error
            loop.call_soon_threadsafe(tell, result)

        threading.Thread(target=call, name="reward-function", daemon=True).start()
        return future
