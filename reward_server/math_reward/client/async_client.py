"""The client for an event loop, which has all the rules: what is asked again and when, alone or together.

Many concurrent callers share batches and connections, items are asked again until a deadline, and another service
takes over from one that fails. What waits becomes a `Batch` once a request may be sent; it stays together, or is
halved, until each item has its outcome. An `Endpoint` for each URL knows whether it may be asked, and `Connections`
send one request.
"""

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

from math_reward.client.endpoints import Endpoint, pause
from math_reward.client.errors import ClientClosed, ClientError, NotJudged, Refused, Unavailable
from math_reward.client.protocols import Item, Outcome, Result
from math_reward.client.settings import Settings
from math_reward.client.waiting import AnyItem, Batch, Waiting, next_items, started


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
        self._deadline = self.settings.deadline or math.inf  # a single attempt may come at any time
        self._queue: deque[Waiting] = deque()  # never sent
        self._again: list[Batch] = []
        self._waiting: dict[asyncio.Future[Outcome], Waiting] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._alarm: asyncio.TimerHandle | None = None
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
        self._again.clear()
        for waiting in self._waiting.values():
            self._finish(waiting, ClientClosed("The client was closed while this item was waited for."))
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

    async def grade_many(self, items: Iterable[AnyItem], *, return_exceptions: bool = False) -> AsyncIterator[Outcome]:
        """The grades of many completions, in order. Only a few batches of items are read and kept at a time.

        Args:
            items: an ``Item`` each, or a mapping with ``completion``, ``reference``, ``prompt`` and ``options``.
            return_exceptions: yield the error of an item in place of its result, and go on.

        Raises:
            ClientError: as `grade`, at the first item without a result, unless ``return_exceptions`` is set.
            TypeError: an item is neither; one sentence.
        """

        def start(batch: list[Item]) -> "asyncio.Future[list[Outcome]]":
            return asyncio.gather(*self.start(batch))

        with contextlib.closing(started(items, self.settings, start)) as futures:
            for future in futures:
                for outcome in await future:
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
        new = [Waiting(item, loop.create_future()) for item in items]
        for waiting in new:
            self._waiting[waiting.future] = waiting
            waiting.future.add_done_callback(self._waiting.pop)
        before = len(self._queue)
        self._queue.extend(new)
        if not before or before < self._batch_size <= len(self._queue):  # else the next request or alarm sends them
            self._dispatch()
        return [waiting.future for waiting in new]

    # Requests

    def _dispatch(self) -> None:
        """Sends what a service may be asked now, and sets an alarm for the next time at which that can change.

        It is called when something has changed: a first item or a whole batch waits, a request has ended.
        """
        now = monotonic()
        self._give_up_late(now)
        while found := self._next(now):
            self._send(*found, now)
        if self._alarm is not None:
            self._alarm.cancel()
        if self._queue or self._again:
            times = [time for batch in self._again for time in (batch.due, batch.give_up_at)]
            times += [endpoint.held_until for endpoint in self._endpoints]
            if self._queue:
                times += [self._queue[0].asked_at + self.settings.batch_wait, self._unsent_until()]
            wait = min((time - now for time in times if time > now), default=math.inf)
            self._alarm = asyncio.get_running_loop().call_later(min(wait, 60.0), self._dispatch)

    def _unsent_until(self) -> float:
        """When the first of the queue is given up: it waits as long as others get results."""
        return max(self._queue[0].asked_at, self._last_result_at) + self._deadline

    def _give_up_late(self, now: float) -> None:
        """Ends the waits of what has reached its deadline."""
        for batch in [batch for batch in self._again if batch.give_up_at <= now]:
            self._again.remove(batch)
            for waiting in batch.waiting:
                if isinstance(waiting.failure, Refused):  # and those that may take it could not be asked
                    waiting.failure = Unavailable(f"{waiting.failure}; no other took it within the deadline")
                self._fail(waiting, batch)
        while self._queue and self._unsent_until() <= now:
            self._fail(self._queue.popleft(), Batch([], self._endpoints[0], now))

    def _next(self, now: float) -> tuple[Batch, Endpoint] | None:
        """What may be sent now, and the service with the fewest open requests that may be asked for it, in turn."""
        if sum(endpoint.in_flight for endpoint in self._endpoints) >= self.settings.max_in_flight:
            return None
        free = [endpoint for endpoint in self._endpoints if endpoint.is_free(now)]
        if all(endpoint.refuses for endpoint in self._endpoints) or not (free or self.settings.deadline):
            free = self._endpoints  # there is nothing to wait for, and with a single attempt no later
        for endpoint in sorted(free, key=lambda endpoint: endpoint.in_flight):
            if batch := self._next_batch(endpoint, now):
                return batch, endpoint
        return None

    def _next_batch(self, endpoint: Endpoint, now: float) -> Batch | None:
        """What is to be asked again, else the queue's next batch once it is full or its first item has waited."""
        for batch in self._again:
            if batch.due <= now and endpoint not in batch.refused:
                self._again.remove(batch)
                return batch
        queue = self._queue
        if len(queue) < self._batch_size and not (queue and queue[0].asked_at + self.settings.batch_wait <= now):
            return None
        return Batch(next_items(queue, self._batch_size), endpoint, now + self._deadline)

    def _send(self, batch: Batch, endpoint: Endpoint, now: float) -> None:
        """Begins one request."""
        batch.waiting = [waiting for waiting in batch.waiting if not waiting.future.done()]
        if not batch.waiting:  # their callers have gone
            return
        self.stats.requests += 1
        if batch.attempts:
            self.stats.retries += len(batch.waiting)
            self.stats.failovers += len(batch.waiting) * (batch.endpoint is not endpoint)
        batch.endpoint = endpoint
        batch.attempts += 1
        endpoint.in_flight += 1
        # Services take turns: of equally busy ones, that asked longest ago comes first.
        self._endpoints.remove(endpoint)
        self._endpoints.append(endpoint)
        task = asyncio.create_task(self._request(batch, endpoint, now))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _request(self, batch: Batch, endpoint: Endpoint, sent_at: float) -> None:
        items = [waiting.item for waiting in batch.waiting]
        timeout = min(self.settings.timeout, batch.give_up_at - sent_at)  # after which nobody waits any more
        outcomes: Sequence[Outcome]
        try:
            outcomes = await self._connections.ask(endpoint, items, timeout)
        except ClientError as error:
            outcomes = [error] * len(items)
        finally:
            endpoint.in_flight -= 1
        now, first = monotonic(), outcomes[0]
        refuses = isinstance(first, Refused) and first.cause.refuses_all and len(self._endpoints) > 1
        if isinstance(first, ClientError) and (refuses or all(isinstance(one, Unavailable) for one in outcomes)):
            endpoint.failed(first, now)
        else:
            endpoint.succeeded()
        self._deliver(batch, outcomes, now)
        self._dispatch()

    # What becomes of an item

    def _deliver(self, batch: Batch, outcomes: Sequence[Outcome], now: float) -> None:
        """Hands out what a request came to, and keeps what is to be asked again."""
        again: list[Waiting] = []
        first = outcomes[0]
        # Another service's own fault is none of an item. What one refused for its own sake gets one try elsewhere.
        may_succeed = self.settings.deadline > 0 and all(one.cause.refuses_all for one in batch.refused.values())
        if isinstance(first, Refused) and not isinstance(first, NotJudged):  # then the others are the same
            may_succeed = first.divisible and len(outcomes) > 1
            if not may_succeed:
                batch.refused = {**batch.refused, batch.endpoint: first}
                left = [endpoint for endpoint in self._endpoints if endpoint not in batch.refused]
                may_succeed = any(first.cause.refuses_all or endpoint.held_until <= now for endpoint in left)
        for waiting, outcome in zip(batch.waiting, outcomes, strict=True):
            if isinstance(outcome, Result):
                self._last_result_at = now
                self._finish(waiting, outcome)
                for endpoint, why in batch.refused.items():
                    endpoint.warn(why, now)
                continue
            waiting.failure = outcome
            if may_succeed and not isinstance(outcome, NotJudged):
                again.append(waiting)
            else:
                self._fail(waiting, batch)
        if not again:
            return
        # At once in smaller batches or at the next service, or after a pause if every one has had its turn.
        rounds, turn = divmod(batch.attempts, len(self._endpoints))
        at_once = turn or isinstance(again[0].failure, Refused)
        due = now if at_once else now + pause(rounds, self.settings.max_backoff)
        # The cause may be the batch's size or one bad item; smaller batches find out which.
        half = (len(again) + 1) // 2 if again[0].failure.divisible else len(again)
        self._again += [replace(batch, waiting=part, due=due) for part in (again[:half], again[half:]) if part]

    def _fail(self, waiting: Waiting, batch: Batch) -> None:
        each = {**batch.refused, batch.endpoint: waiting.failure}
        said = "; the reward service ".join(f"{one.label} {why}" for one, why in each.items())
        # What is refused for the item's sake comes first: it says nothing about other items, whatever else is refused.
        refused = [one for one in (waiting.failure, *each.values()) if isinstance(one, Refused)]
        failure = next((one for one in refused if not one.cause.refuses_all), waiting.failure)
        if not isinstance(failure, Refused):
            if batch.attempts > 1:
                said += f"; that was the last of {batch.attempts} attempts in {monotonic() - waiting.asked_at:.1f} s"
            said += ". Check the service's log"
        self._finish(waiting, failure.becomes(f"The reward service {said}."))

    def _finish(self, waiting: Waiting, outcome: Outcome) -> None:
        if waiting.future.done():  # its caller has gone
            return
        if isinstance(outcome, Result):
            self.stats.items += 1
        else:
            self.stats.failures += 1
        self.stats.seconds_waited += monotonic() - waiting.asked_at
        waiting.future.set_result(outcome)
