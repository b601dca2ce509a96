"""The client for an event loop, which has all the rules: what is asked again and when, alone or together."""

import asyncio
import copy
import math
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from math_reward.client.batches import AnyItem, batches, progress_bar
from math_reward.client.endpoints import Endpoint, Turns, backoff
from math_reward.client.errors import ClientClosed, ClientError
from math_reward.client.posting import Connections
from math_reward.client.protocol import Failure, Item, Result
from math_reward.client.settings import Settings

Outcome = Result | ClientError


NO_ANSWER = Failure("has not answered anybody for the whole deadline, and this item was never sent")


@dataclass
class _Past:
    """What has happened to items that were always sent together."""

    label: str
    """Of the service that was asked last, else of the first."""
    asked_at: float
    first_sent_at: float | None = None
    attempts: int = 0
    failures: int = 0
    failure: Failure = NO_ANSWER

    def error(self, failure: Failure, now: float) -> ClientError:
        """What an item ends with."""
        said = f"The reward service {self.label} {failure}"
        if not failure.permanent:
            tries = "1 attempt" if self.attempts == 1 else f"{self.attempts} attempts"
            said = f"{said}; that was the last of {tries} in {now - self.asked_at:.1f} s. Check the service's log"
        return failure.becomes(f"{said}.", self.label, self.attempts)


@dataclass(eq=False)
class _Entry:
    """An item that waits for its outcome."""

    item: Item
    future: "asyncio.Future[Outcome]"
    """Done once there is an outcome, or nobody waits for one any more."""

    def settle(self, outcome: Outcome) -> None:
        if not self.future.done():
            self.future.set_result(outcome)


class AsyncClient:
    """Asks reward services for grades. It belongs to the event loop that uses it first, whose tasks may share it.

    Args:
        urls: of one or more services, such as ``http://127.0.0.1:8000``.
        settings: the other fields of ``math_reward.client.Settings``, such as ``token`` and ``deadline``.

    An asynchronous context manager; or call ``aclose`` yourself.

    Raises:
        ValueError: a setting cannot be used; one sentence.
    """

    def __init__(self, urls: str | Sequence[str], **settings: Any) -> None:
        self.settings = Settings((urls,) if isinstance(urls, str) else tuple(urls), **settings)
        self._connections = Connections(self.settings)
        self._turns = Turns(self.settings.urls, self.settings.max_in_flight, wait_for_held=self.settings.deadline > 0)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._gathered: list[_Entry] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._last_result_at = -math.inf
        self._closed = False

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End all requests. Callers that still wait get a ``ClientClosed``."""
        self._closed = True
        self._send_gathered(self._gathered)
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
        entry = self._entry(item)
        if not self._gathered:
            asyncio.get_running_loop().call_later(self.settings.batch_wait, self._send_gathered, self._gathered)
        self._gathered.append(entry)
        if len(self._gathered) == self.settings.batch_size:
            self._send_gathered(self._gathered)
        outcome = await entry.future
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
            return_exceptions: yield the error of an item in the place of its result, and go on.

        Raises:
            ClientError: as `grade`, at the first item without a result, unless ``return_exceptions`` is set.
            TypeError: an item is neither; one sentence.
        """
        unsent = batches(items, self.settings.batch_size)
        under_way: deque[list[asyncio.Future[Outcome]]] = deque()
        try:
            with progress_bar(items, progress) as bar:
                while True:
                    while len(under_way) < self.settings.batches_ahead and (batch := next(unsent, None)):
                        under_way.append(self.start(batch))
                    if not under_way:
                        return
                    for future in under_way[0]:
                        outcome = await future
                        if isinstance(outcome, ClientError) and not return_exceptions:
                            raise outcome
                        yield outcome
                    bar.update(len(under_way.popleft()))
        finally:
            for futures in under_way:
                for future in futures:
                    future.cancel()

    def start(self, items: Sequence[Item]) -> "list[asyncio.Future[Outcome]]":
        """Begin to ask for one batch: a future for each item. What is cancelled is not asked for again."""
        entries = [self._entry(item) for item in items]
        self._send(entries)
        return [entry.future for entry in entries]

    def _entry(self, item: Item) -> _Entry:
        loop = asyncio.get_running_loop()
        if self._closed:
            raise ClientClosed("The client is closed: make a new one.")
        if self._loop not in (None, loop):
            raise ClientClosed("An AsyncClient belongs to the event loop that used it first: make one for each loop.")
        self._loop = loop
        return _Entry(item, loop.create_future())

    def _send_gathered(self, gathered: list[_Entry]) -> None:
        """Send what concurrent calls have gathered, unless it was sent when it was full."""
        if gathered and gathered is self._gathered:
            self._gathered = []
            self._send(gathered)

    def _send(self, entries: list[_Entry]) -> None:
        def ended(task: "asyncio.Task[None]") -> None:
            self._tasks.discard(task)
            error = None if task.cancelled() else task.exception()
            for entry in entries:
                if error is not None and not entry.future.done():
                    entry.future.set_exception(error)
                entry.settle(ClientClosed("The client was closed while this item was waited for."))

        loop = asyncio.get_running_loop()
        label = self.settings.urls[0].partition("?")[0]
        task = loop.create_task(self._settle(entries, _Past(label, loop.time())))
        self._tasks.add(task)
        task.add_done_callback(ended)

    async def _settle(self, entries: Sequence[_Entry], past: _Past) -> None:
        """Ask until each item has its result or its error."""
        loop = asyncio.get_running_loop()
        while entries := [entry for entry in entries if not entry.future.done()]:  # some callers may be gone
            endpoint = await self._turns.take(lambda: self._give_up_at(past))
            if endpoint is None:
                for entry in entries:
                    entry.settle(past.error(past.failure, loop.time()))
                return
            outcomes = await self._attempt(endpoint, [entry.item for entry in entries], past)
            failure = outcomes[0]
            if not isinstance(failure, Failure) or any(other is not failure for other in outcomes):
                entries = self._settle_answered(entries, outcomes, past)
                failure = next((one for one in outcomes if isinstance(one, Failure) and not one.permanent), NO_ANSWER)
            if failure.rewritten_may_succeed or not entries:
                continue
            divided = failure.divisible and len(entries) > 1
            if not (await self._may_try_again(past, failure) or (failure.permanent and divided)):
                for entry in entries:
                    entry.settle(past.error(failure, loop.time()))
            elif divided:  # the cause is the batch's size or one bad item: smaller batches find out which
                middle = len(entries) // 2
                halves = (entries[:middle], entries[middle:])
                await asyncio.gather(*(self._settle(half, copy.copy(past)) for half in halves))

    def _settle_answered(
        self, entries: Sequence[_Entry], outcomes: Sequence[Result | Failure], past: _Past
    ) -> list[_Entry]:
        """Hand out the results of an answer, and its failures that are final; the entries to ask for again."""
        now = asyncio.get_running_loop().time()
        again = []
        for entry, outcome in zip(entries, outcomes, strict=True):
            if isinstance(outcome, Result):
                entry.settle(outcome)
            elif outcome.permanent or not self.settings.deadline:
                entry.settle(past.error(outcome, now))
            else:
                again.append(entry)
        return again

    async def _attempt(self, endpoint: Endpoint, items: Sequence[Item], past: _Past) -> list[Result | Failure]:
        """One request. A failure of the request as a whole is that of each item."""
        loop = asyncio.get_running_loop()
        sent_at = loop.time()
        past.label = endpoint.label
        past.attempts += 1
        if past.first_sent_at is None:
            past.first_sent_at = sent_at
        timeout = self.settings.timeout
        if self.settings.deadline:
            timeout = min(timeout, max(self._give_up_at(past) - sent_at, 0.001))
        try:
            answered = True
            try:
                outcomes: list[Result | Failure] = await self._connections.ask(endpoint, items, timeout)
            except Failure as failure:
                outcomes, answered = [failure] * len(items), False
            waits = [one for one in outcomes if isinstance(one, Failure) and not one.permanent]
            if len(waits) == len(items) and not waits[0].rewritten_may_succeed:
                endpoint.failed(waits[0], sent_at, loop.time(), self.settings.max_backoff)
            elif answered:
                endpoint.succeeded(sent_at)
                self._last_result_at = loop.time()
            return outcomes
        finally:
            self._turns.give_back(endpoint)

    async def _may_try_again(self, past: _Past, failure: Failure) -> bool:
        """Whether another attempt may help; pauses before it if every service has had its turn."""
        if failure.permanent or not self.settings.deadline:
            return False
        past.failures += 1
        past.failure = failure
        rounds, turn = divmod(past.failures, len(self.settings.urls))
        if not turn:
            left = self._give_up_at(past) - asyncio.get_running_loop().time()
            await asyncio.sleep(min(backoff(rounds, self.settings.max_backoff), max(left, 0)))
        return True

    def _give_up_at(self, past: _Past) -> float:
        """When items are given up. Those that were never sent wait as long as others get results."""
        if not self.settings.deadline:
            return math.inf
        start = past.first_sent_at if past.first_sent_at is not None else max(past.asked_at, self._last_result_at)
        return start + self.settings.deadline
