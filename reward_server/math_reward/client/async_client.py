"""The client for an event loop, which has all the rules: what is asked again and when, alone or together.

Many concurrent callers share batches and connections, items are asked again until a deadline, and another service
takes over from one that fails. What waits becomes a `Batch` once a request may be sent; it stays together, or is
halved, until each item has its outcome. An `Endpoint` for each URL knows whether it may be asked, and `Connections`
send one request.
"""

import asyncio
import contextlib
import functools
import math
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from math_reward.client.endpoints import Endpoint, pause
from math_reward.client.errors import ClientClosed, ClientError, Refused, Unavailable
from math_reward.client.protocols import Item, Outcome, Result
from math_reward.client.settings import Settings
from math_reward.client.waiting import AnyItem, Batch, Waiting, next_batch, started

LOOK_AGAIN = 0.02
"""Seconds between two looks for a service that may be asked, where none may."""


@dataclass
class Stats:
    """Counters since the client was made; they may be read at any time.

    Attributes:
        requests: HTTP requests sent.
        items: results delivered.
        retries: items sent again.
        failures: items that ended in an error.
        failovers: retries that went to another URL than the one that failed.
        seconds_waited: from the call to the result or the error, summed over items.
    """

    requests: int = 0
    items: int = 0
    retries: int = 0
    failures: int = 0
    failovers: int = 0
    seconds_waited: float = 0.0


class AsyncClient:
    """Asks reward services for grades. It belongs to the event loop that uses it first, whose tasks may share it.

    Args:
        urls: of one or more services, such as ``http://127.0.0.1:8000``.
        settings: the other fields of ``math_reward.client.Settings``, such as ``token`` and ``deadline``.

    An asynchronous context manager; or call ``aclose`` yourself. ``stats`` has its counters.

    Raises:
        ValueError: a setting cannot be used; one sentence.
        ImportError: httpx is not installed.
    """

    def __init__(self, urls: str | Sequence[str], **settings: Any) -> None:
        try:
            from math_reward.client.posting import Connections  # not needed to grade here, as the adapters can
        except ModuleNotFoundError:
            raise ImportError("A client needs httpx: pip install httpx, or math-reward with [client].") from None
        self.settings = Settings((urls,) if isinstance(urls, str) else tuple(urls), **settings)
        self.stats = Stats()
        self._connections = Connections(self.settings)
        self._endpoints = [Endpoint(url, self.settings) for url in self.settings.urls]
        one_by_one = not all(map(self.settings.grades, self.settings.urls))  # a reward model takes one query
        self._batch_size = 1 if one_by_one else self.settings.batch_size
        self._queue: deque[Waiting] = deque()
        self._full = asyncio.Event()  # the queue has a batch
        self._free = asyncio.Semaphore(self.settings.max_in_flight)  # requests that may be sent
        self._waiting: set[Waiting] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._its_loop: asyncio.AbstractEventLoop | None = None
        self._last_result_at = -math.inf
        self._closed = False

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End all requests. Callers that still wait get a ``ClientClosed``."""
        self._closed = True
        self._queue.clear()
        for waiting in list(self._waiting):
            self._fail(waiting, ClientClosed("The client was closed while this item was waited for."))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._connections.aclose()

    async def grade(self, completion: str, reference: Any, prompt: str | None = None, **options: Any) -> Result:
        """The grade of one completion. Concurrent calls share requests.

        Args:
            completion: what the model wrote.
            reference: the reference answer: text or a number, or a list of which any one may match.
            prompt: what the completion answers; it is never graded.
            options: how to grade: ``mode``, ``rel_tol``, ``allow_rounded`` and so on.

        Raises:
            ClientError: there is no result; `Refused`, `NotJudged`, `Unavailable`, `BadAnswer` and `ClientClosed`.
        """
        return await self.grade_item(Item(completion, reference, prompt, options))

    async def grade_item(self, item: Item) -> Result:
        """As `grade`."""
        outcome = await self.start([item])[0]
        if isinstance(outcome, ClientError):
            raise outcome
        return outcome

    async def grade_many(
        self, items: Iterable[AnyItem], *, progress: bool = False, return_exceptions: bool = False
    ) -> AsyncIterator[Outcome]:
        """The grades of many completions, in order. Only a few batches of items are read and kept at a time.

        Args:
            items: an ``Item`` each, or a mapping with ``completion``, ``reference``, ``prompt`` and ``options``.
            progress: show a bar on standard error.
            return_exceptions: yield the error of an item in place of its result, and go on.

        Raises:
            ClientError: as `grade`, at the first item without a result, unless ``return_exceptions`` is set.
            TypeError: an item is neither; one sentence.
        """
        with contextlib.closing(started(items, self.settings, self.start, progress)) as futures:
            for future in futures:
                outcome = await future
                if isinstance(outcome, ClientError) and not return_exceptions:
                    raise outcome
                yield outcome

    def start(self, items: Sequence[Item]) -> "list[asyncio.Future[Outcome]]":
        """Begin to ask for items: a future for each. What is cancelled is not asked for again."""
        loop = asyncio.get_running_loop()
        if self._closed:
            raise ClientClosed("The client is closed: make a new one.")
        if self._its_loop not in (None, loop):
            raise ClientClosed("An AsyncClient belongs to the event loop that used it first: make one for each loop.")
        self._its_loop = loop
        new = [Waiting(item, loop.create_future(), loop.time()) for item in items]
        for waiting in new:
            self._waiting.add(waiting)
            waiting.future.add_done_callback(functools.partial(self._ended, waiting))
        if new and not self._queue:
            self._begin(self._make_batches())
        self._queue.extend(new)
        if len(self._queue) >= self._batch_size:
            self._full.set()
        return [waiting.future for waiting in new]

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._its_loop is not None  # `start` has set it
        task = self._its_loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _now(self) -> float:
        assert self._its_loop is not None
        return self._its_loop.time()

    # Requests

    async def _make_batches(self) -> None:
        """Sends what is queued, until nothing is: a batch that is full, or whose first item has waited for others."""
        while self._queue:
            due_in = self._queue[0].asked_at + self.settings.batch_wait - self._now()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._full.wait(), due_in)
            await self._free.acquire()
            batch = next_batch(self._queue, self._batch_size)
            if len(self._queue) < self._batch_size:
                self._full.clear()
            self._begin(self._request(batch))

    async def _request(self, batch: Batch) -> None:
        """One request, for which the caller has acquired `_free`; what has no outcome then is asked for again."""
        try:
            batches = await self._ask(batch)
        finally:
            self._free.release()
        for one in batches:
            self._begin(self._request_again(one))

    async def _request_again(self, batch: Batch) -> None:
        await asyncio.sleep(batch.pause)
        await self._free.acquire()
        await self._request(batch)

    async def _ask(self, batch: Batch) -> list[Batch]:
        """Ask one service once. Returns what is to be asked again, in smaller batches if these may succeed."""
        batch.waiting = [waiting for waiting in batch.waiting if not waiting.future.done()]
        if not batch.waiting:  # their callers have gone
            return []
        endpoint = await self._choose(batch)
        if endpoint is None:
            for waiting in batch.waiting:
                self._give_up(waiting, batch)
            return []
        sent_at = self._now()
        self._count(batch, endpoint, sent_at)
        timeout = self.settings.timeout
        if self.settings.deadline:  # after which nobody waits any more
            timeout = min(timeout, max(self._give_up_at(batch) - sent_at, 0.001))
        outcomes: list[Outcome]
        try:
            outcomes = await self._connections.ask(endpoint, [waiting.item for waiting in batch.waiting], timeout)
        except Exception as error:
            # Any other error, of the HTTP library, is one of the connection, so that no caller waits for ever.
            other = Unavailable(f"could not be asked ({type(error).__name__}: {error})")
            outcomes = [error if isinstance(error, ClientError) else other] * len(batch.waiting)
        finally:
            endpoint.in_flight -= 1
        return self._deliver(batch, endpoint, outcomes, sent_at)

    async def _choose(self, batch: Batch) -> Endpoint | None:
        """Waits for a service that may be asked: that with the fewest open requests, in turn.

        None if there was none before the batch's deadline.
        """
        deadline = self.settings.deadline
        while not deadline or self._now() < self._give_up_at(batch):
            free = [endpoint for endpoint in self._endpoints if endpoint.is_free(self._now())]
            if not free and not deadline:
                free = self._endpoints  # with a single attempt there is no later
            if free:
                return min(free, key=lambda endpoint: endpoint.in_flight)
            await asyncio.sleep(LOOK_AGAIN)
        return None

    def _count(self, batch: Batch, endpoint: Endpoint, sent_at: float) -> None:
        """What a request changes when it is sent."""
        self.stats.requests += 1
        if batch.endpoint is None:
            batch.first_sent_at = sent_at
        else:
            self.stats.retries += len(batch.waiting)
            self.stats.failovers += len(batch.waiting) * (batch.endpoint is not endpoint)
        batch.endpoint = endpoint
        batch.attempts += 1
        endpoint.in_flight += 1
        # Services take turns: of equally busy ones, that asked longest ago comes first.
        self._endpoints.remove(endpoint)
        self._endpoints.append(endpoint)

    # What becomes of an item

    def _deliver(self, batch: Batch, endpoint: Endpoint, outcomes: Sequence[Outcome], sent_at: float) -> list[Batch]:
        """Hands out what a request came to, and returns what is to be asked again."""
        again: list[Waiting] = []
        now, size = self._now(), len(batch.waiting)
        for waiting, outcome in zip(batch.waiting, outcomes, strict=True):
            if isinstance(outcome, Result):
                self._last_result_at = now
                if not waiting.future.done():
                    self.stats.items += 1
                    waiting.future.set_result(outcome)
            elif isinstance(outcome, Refused) and (size == 1 or not outcome.divisible):
                self._end(waiting, batch, outcome, str(outcome))
            else:
                waiting.failure = outcome
                again.append(waiting)
        failure = again[0].failure if len(again) == size else None
        if failure is None:
            endpoint.succeeded(sent_at)
        elif not isinstance(failure, Refused):
            endpoint.failed(failure, sent_at, now)
        if again and not isinstance(failure, Refused):
            if not self.settings.deadline:
                for waiting in again:
                    self._give_up(waiting, batch)
                return []
            batch.failures += 1
            # At once at the next service, or after a pause if every one has had its turn.
            rounds, turn = divmod(batch.failures, len(self._endpoints))
            left = max(self._give_up_at(batch) - now, 0.0)
            batch.pause = 0.0 if turn else min(pause(rounds, self.settings.max_backoff), left)
        # The cause may be the batch's size or one bad item; smaller batches find out which.
        half = (size + 1) // 2 if failure is not None and failure.divisible else size
        return [replace(batch, waiting=part) for part in (again[:half], again[half:]) if part]

    def _give_up_at(self, batch: Batch) -> float:
        """When a batch is given up. One that was never sent waits as long as others get results."""
        start = batch.first_sent_at
        if start is None:
            start = max(batch.waiting[-1].asked_at, self._last_result_at)
        return start + self.settings.deadline

    def _give_up(self, waiting: Waiting, batch: Batch) -> None:
        never = "has not answered anybody for the whole deadline, and this item was never sent"
        failure = waiting.failure or Unavailable(never)
        said = str(failure)
        if batch.attempts > 1:
            services = f" of {len(self._endpoints)} services" if len(self._endpoints) > 1 else ""
            seconds = self._now() - waiting.asked_at
            said += f"; that was the last of {batch.attempts} attempts{services} in {seconds:.1f} s"
        self._end(waiting, batch, failure, f"{said}. Check the service's log")

    def _end(self, waiting: Waiting, batch: Batch, failure: ClientError, said: str) -> None:
        label = (batch.endpoint or self._endpoints[0]).label
        self._fail(waiting, failure.becomes(f"The reward service {label} {said}."))

    def _fail(self, waiting: Waiting, error: ClientError) -> None:
        if not waiting.future.done():
            self.stats.failures += 1
            waiting.future.set_result(error)

    def _ended(self, waiting: Waiting, _: "asyncio.Future[Outcome]") -> None:
        self._waiting.discard(waiting)
        self.stats.seconds_waited += self._now() - waiting.asked_at
