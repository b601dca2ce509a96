"""The client for ordinary code: the asynchronous one, on an event loop in a thread of its own.

So it works where a loop runs already, as in Jupyter, and threads may share it. It keeps its timeouts while a caller's
own event loop is held up: a client on such a loop would notice late that it is connected, or that an answer has come,
and count this as a failure of the service.
"""

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from math_reward.client.async_client import AsyncClient
from math_reward.client.errors import ClientClosed, ClientError
from math_reward.client.protocols import Item, Outcome, Result
from math_reward.client.waiting import AnyItem, started

_T = TypeVar("_T")


class Client:
    """Asks reward services for grades. Threads may share it; a forked process may not.

    Args:
        urls: of one or more services, such as ``http://127.0.0.1:8000``.
        settings: the other fields of ``math_reward.client.Settings``, such as ``token`` and ``deadline``.

    A context manager; or call ``close`` yourself. ``stats`` has its counters.

    Raises:
        ValueError: a setting cannot be used; one sentence.
    """

    def __init__(self, urls: str | Sequence[str], **settings: Any) -> None:
        self._client = AsyncClient(urls, **settings)
        self.settings = self._client.settings
        self.stats = self._client.stats
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="math-reward-client", daemon=True)
        self._thread.start()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all requests. Threads that still wait get a ``ClientClosed``."""
        if self._thread.is_alive():
            self._begin(self._aclose()).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _aclose(self) -> None:
        await self._client.aclose()
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}), return_exceptions=True)

    def grade(self, completion: str, reference: Any, prompt: str | None = None, **options: Any) -> Result:
        """The grade of one completion; see ``AsyncClient.grade``."""
        return self.submit(Item(completion, reference, prompt, options)).result()

    def submit(self, item: Item) -> "Future[Result]":
        """The grade of one completion, later. Items that are submitted together share requests."""
        return self._begin(self._client.grade_item(item))

    def grade_many(self, items: Iterable[AnyItem], *, return_exceptions: bool = False) -> Iterator[Outcome]:
        """The grades of many completions, in order; see ``AsyncClient.grade_many``.

        ``items`` is read in the caller's thread, a few batches ahead.
        """

        def start(batch: list[Item]) -> "Future[list[Outcome]]":
            return self._begin(self._outcomes(batch))

        with contextlib.closing(started(items, self.settings, start)) as futures:
            for future in futures:
                for outcome in future.result():
                    if isinstance(outcome, ClientError) and not return_exceptions:
                        raise outcome
                    yield outcome

    async def _outcomes(self, batch: list[Item]) -> list[Outcome]:
        return await asyncio.gather(*self._client.start(batch))

    def _begin(self, work: Coroutine[Any, Any, _T]) -> "Future[_T]":
        """Run a coroutine on the client's loop."""
        if not self._thread.is_alive():  # as in a forked process
            work.close()
            raise ClientClosed("The client is closed, or was made before this process was forked: make a new one.")
        return asyncio.run_coroutine_threadsafe(work, self._loop)
