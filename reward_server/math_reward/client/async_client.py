"""The client for an event loop, which has all the rules: what is asked again and when, alone or together.

Many concurrent callers share batches and connections, items are asked again until a deadline, and another service
takes over from one that fails. A `Queue` puts items together, an `Endpoint` for each URL knows whether it may be
asked, and `Connections` send one request.
"""

import asyncio
import contextlib
import math
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from math_reward.client.batches import AnyItem, started
from math_reward.client.endpoints import Backoff, Endpoint
from math_reward.client.errors import Cause, ClientClosed, ClientError
from math_reward.client.protocols import Failure, Item, Result
from math_reward.client.settings import Settings, speaks_grade
from math_reward.client.waiting import Outcome, Queue, Waiting, limit_to_half

NEVER_SENT = Failure("has not answered anybody for the whole deadline, and this item was never sent", Cause.LATE)
NO_ANSWER = Failure("has not answered", Cause.LATE)


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
        self._backoff = Backoff(self.settings.max_backoff)
        self._endpoints = [
            Endpoint(url, self._backoff, grades=speaks_grade(url) or not self.settings.reward_models)
            for url in self.settings.urls
        ]
        self._queue = Queue(self.settings.batch_wait)
        self._waiting: set[Waiting] = set()
        self._requests: set[asyncio.Task[None]] = set()
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
        for waiting in list(self._waiting):
            self._fail(waiting, ClientClosed("The client was closed while this item was waited for."))
        if self._alarm is not None:
            self._alarm.cancel()
        for request in self._requests:
            request.cancel()
        await asyncio.gather(*self._requests, return_exceptions=True)
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
        started = [Waiting(item, loop.time(), loop.create_future()) for item in items]
        for waiting in started:
            self._begin(waiting)
        self._pump()
        return [waiting.future for waiting in started]

    def _begin(self, waiting: Waiting) -> None:
        def ended(_: "asyncio.Future[Outcome]") -> None:
            self._waiting.discard(waiting)
            if waiting.alarm is not None:
                waiting.alarm.cancel()
            self.stats.seconds_waited += self._now() - waiting.asked_at

        self._waiting.add(waiting)
        waiting.future.add_done_callback(ended)
        if self.settings.deadline:
            waiting.alarm = self._loop().call_later(self.settings.deadline, self._expire, waiting)
        self._queue.add(waiting)

    def _loop(self) -> asyncio.AbstractEventLoop:
        assert self._its_loop is not None  # `start` has set it
        return self._its_loop

    def _now(self) -> float:
        return self._loop().time()

    # Sending

    def _pump(self) -> None:
        """Send every batch that is due and set the alarm for the next. Called after every change."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        while self._queue and len(self._requests) < self.settings.max_in_flight:
            now = self._now()
            endpoint = self._choose(now)
            if endpoint is None:
                held = [e.held_until for e in self._endpoints if e.held_until > now]
                if held:  # else a single request is under way, and its end calls this method again
                    self._alarm = self._loop().call_at(min(held), self._pump)
                return
            batch_size = 1 if endpoint.single else self.settings.batch_size
            due_at = self._queue.due_at(batch_size)
            if due_at > now:
                self._alarm = self._loop().call_at(due_at, self._pump)
                return
            batch = self._queue.take(batch_size)
            if batch:
                self._send(endpoint, batch)

    def _choose(self, now: float) -> Endpoint | None:
        """The free service with the fewest open requests, in turn; None if none is free."""
        free = [e for e in self._endpoints if e.is_free(now)]
        if not free and not self.settings.deadline:
            free = self._endpoints  # with a single attempt there is no later
        return min(free, key=lambda e: e.in_flight, default=None)

    def _send(self, endpoint: Endpoint, batch: list[Waiting]) -> None:
        now = self._now()
        for waiting in batch:
            if waiting.attempts:
                self.stats.retries += 1
                self.stats.failovers += waiting.endpoint is not endpoint
            if waiting.first_sent_at is None:
                waiting.first_sent_at = now
            waiting.attempts += 1
            waiting.endpoint = endpoint
        self.stats.requests += 1
        # Services take turns: of equally busy ones, that asked longest ago comes first.
        self._endpoints.remove(endpoint)
        self._endpoints.append(endpoint)
        endpoint.in_flight += 1
        request = self._loop().create_task(self._request(endpoint, batch, now))
        self._requests.add(request)
        request.add_done_callback(lambda request: self._sent(endpoint, request))

    def _sent(self, endpoint: Endpoint, request: "asyncio.Task[None]") -> None:
        endpoint.in_flight -= 1
        self._requests.discard(request)
        if not self._closed:
            self._pump()

    async def _request(self, endpoint: Endpoint, batch: list[Waiting], sent_at: float) -> None:
        """One request. Afterwards every item of the batch has its outcome or is queued again."""
        timeout = self.settings.timeout
        if self.settings.deadline:  # after which nobody waits any more
            timeout = min(timeout, max(max(map(self._give_up_at, batch)) - sent_at, 0.001))
        try:
            outcomes = await self._connections.ask(endpoint, [waiting.item for waiting in batch], timeout)
        except Exception as error:
            # Any other error of the HTTP library counts as a broken connection, so that no caller waits for ever.
            other = Failure(f"could not be asked ({type(error).__name__}: {error})", Cause.FAILED)
            self._batch_failed(endpoint, batch, error if isinstance(error, Failure) else other, sent_at)
            return
        failed: dict[Waiting, Failure] = {}
        for waiting, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, Result):
                self._deliver(waiting, outcome)
            elif outcome.permanent:
                self._end_with(outcome, waiting, endpoint, str(outcome))
            else:
                failed[waiting] = outcome
        if len(failed) == len(batch):
            endpoint.failed(failed[batch[0]], sent_at, self._now())
        else:
            endpoint.succeeded(sent_at, self._now())
        self._retry(failed)

    # What becomes of an item

    def _batch_failed(self, endpoint: Endpoint, batch: list[Waiting], failure: Failure, sent_at: float) -> None:
        if failure.rewritten_may_succeed:
            self._queue.put_back(batch)
            return
        if len(batch) > 1 and failure.divisible:
            # The cause is the batch's size or one bad item; smaller batches find out which.
            limit_to_half(batch)
            if failure.permanent:
                self._queue.put_back(batch)
                return
        if failure.permanent:
            for waiting in batch:
                self._end_with(failure, waiting, endpoint, str(failure))
            return
        endpoint.failed(failure, sent_at, self._now())
        self._retry(dict.fromkeys(batch, failure))

    def _retry(self, failed: dict[Waiting, Failure]) -> None:
        """Queue items again: at once for the next service, or after a pause if every one has had its turn.

        Items that failed together wait for the same time, so that they are sent in one batch again.
        """
        rounds_of: defaultdict[int, list[Waiting]] = defaultdict(list)
        for waiting, failure in failed.items():
            waiting.failures += 1
            waiting.failure = failure
            if not self.settings.deadline:
                self._give_up(waiting)
                continue
            rounds, turn = divmod(waiting.failures, len(self._endpoints))
            rounds_of[0 if turn else rounds].append(waiting)
        self._queue.put_back(rounds_of.pop(0, []))
        for rounds, items in rounds_of.items():
            self._loop().call_later(self._backoff.seconds(rounds), self._requeue, items)

    def _requeue(self, items: list[Waiting]) -> None:
        if not self._closed:
            self._queue.put_back(items)
            self._pump()

    def _deliver(self, waiting: Waiting, result: Result) -> None:
        self._last_result_at = self._now()
        if not waiting.future.done():
            self.stats.items += 1
            waiting.future.set_result(result)

    def _give_up_at(self, waiting: Waiting) -> float:
        """When an item is given up. One that was never sent waits as long as others get results."""
        start = waiting.first_sent_at
        if start is None:
            start = max(waiting.asked_at, self._last_result_at)
        return start + self.settings.deadline

    def _expire(self, waiting: Waiting) -> None:
        """Give the item up if its deadline is over."""
        due = self._give_up_at(waiting)
        if due > self._now():
            waiting.alarm = self._loop().call_at(due, self._expire, waiting)
        else:
            self._give_up(waiting)

    def _give_up(self, waiting: Waiting) -> None:
        failure = waiting.failure or (NO_ANSWER if waiting.attempts else NEVER_SENT)
        said = str(failure)
        if waiting.attempts > 1:
            services = f" of {len(self._endpoints)} services" if len(self._endpoints) > 1 else ""
            seconds = self._now() - waiting.asked_at
            said += f"; that was the last of {waiting.attempts} attempts{services} in {seconds:.1f} s"
        said += ". Check the service's log"
        self._end_with(failure, waiting, waiting.endpoint or self._endpoints[0], said)

    def _end_with(self, failure: Failure, waiting: Waiting, endpoint: Endpoint, said: str) -> None:
        message, seconds = f"The reward service {endpoint.label} {said}.", self._now() - waiting.asked_at
        self._fail(waiting, failure.becomes(message, endpoint.label, waiting.attempts, seconds, failure.cause))

    def _fail(self, waiting: Waiting, error: ClientError) -> None:
        if not waiting.future.done():
            self.stats.failures += 1
            waiting.future.set_result(error)
