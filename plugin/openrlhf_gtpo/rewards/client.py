"""The reward client: completions in, checked rewards out, over HTTP.

It replaces the reward client of OpenRLHF's single-turn executor, which sends one POST per sample, never batches, and
returns ``None`` when a server is down. Here many concurrent callers share batches and connections, requests are
retried until a deadline, and another server takes over from one that fails. A caller gets either a finite reward or a
:class:`RewardError` that says why not.

It joins three parts: a `Batcher` puts completions together, an `Endpoint` for each URL knows whether it may be asked,
and `Connections` send one POST. One client belongs to one event loop and is not thread-safe. Standard library and
httpx only: the vLLM rollout actors import this module.
"""

import asyncio
import math
import socket
from collections import defaultdict
from dataclasses import dataclass

from openrlhf_gtpo.errors import reason
from openrlhf_gtpo.rewards.batcher import Batcher, Item, limit_to_half
from openrlhf_gtpo.rewards.client_settings import RewardClientSettings
from openrlhf_gtpo.rewards.endpoint import Backoff, Endpoint
from openrlhf_gtpo.rewards.posting import Connections
from openrlhf_gtpo.rewards.protocols import Failure, Reward, RewardRequest

__all__ = ["Reward", "RewardClient", "RewardClientSettings", "RewardClientStats", "RewardError", "RewardRequest"]


class RewardError(RuntimeError):
    """A completion got no reward. The message is one sentence with the URL and the fault.

    Attributes:
        url: the last URL that was asked, without its query.
        attempts: POSTs that contained the completion.
        seconds: from the call to the failure.
        permanent: whether another attempt cannot help.
        of_client: whether the server refuses every request of this client, because of a wrong token for instance.
    """

    # The defaults let pickle rebuild it, for Ray sends exceptions between processes; __dict__ has the attributes.
    def __init__(
        self,
        message: str,
        url: str = "",
        attempts: int = 0,
        seconds: float = 0.0,
        permanent: bool = False,
        of_client: bool = False,
    ) -> None:
        super().__init__(message)
        self.of_client = of_client
        self.url = url
        self.attempts = attempts
        self.seconds = seconds
        self.permanent = permanent


@dataclass
class RewardClientStats:
    """Counters since the client was created; they may be read at any time.

    Attributes:
        requests: HTTP requests sent.
        items: rewards delivered.
        retries: completions sent again.
        failures: completions that ended in a RewardError.
        failovers: retries that went to another URL than the one that failed.
        seconds_waited: from the call to the reward or the error, summed over completions.
    """

    requests: int = 0
    items: int = 0
    retries: int = 0
    failures: int = 0
    failovers: int = 0
    seconds_waited: float = 0.0


class RewardClient:
    """Asks reward servers for rewards. :class:`RewardClientSettings` has its settings, ``stats`` its counters."""

    def __init__(self, settings: RewardClientSettings) -> None:
        self.settings = settings
        self.stats = RewardClientStats()
        self._backoff = Backoff(settings.max_backoff)
        self._endpoints = [Endpoint(url, self._backoff) for url in settings.urls]
        self._queue = Batcher(settings.batch_size, settings.batch_wait)
        self._waiting: set[Item] = set()
        self._posts: set[asyncio.Task[None]] = set()
        self._alarm: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connections: Connections | None = None
        self._last_reward_at = -math.inf
        self._closed = False

    async def reward(self, request: RewardRequest) -> Reward:
        """The reward of one completion. Concurrent calls share requests.

        Args:
            request: the completion and its reference answer.

        Raises:
            RewardError: a server refused the request, no server gave a valid reward within the deadline, or the client
                is closed.
        """
        if self._closed:
            raise RewardError("The reward client is closed.", permanent=True)
        loop = asyncio.get_running_loop()
        if self._loop is None:
            try:
                self._connections = Connections(self.settings)
            except ValueError as error:  # On the machine of the driver the file could be read.
                message = f"On {socket.gethostname()} {error}"
                raise RewardError(message, self._label(None), permanent=True, of_client=True) from None
            self._loop = loop
        elif self._loop is not loop:
            raise RuntimeError("A RewardClient belongs to the event loop that used it first: make one per loop.")
        item = Item(request, loop.time(), loop.create_future())
        self._waiting.add(item)
        if self.settings.deadline:
            item.alarm = loop.call_later(self.settings.deadline, self._expire, item)
        self._queue.add(item)
        self._pump()
        try:
            return await item.future
        finally:
            self._waiting.discard(item)
            if item.alarm is not None:
                item.alarm.cancel()
            self.stats.seconds_waited += loop.time() - item.asked_at

    async def aclose(self) -> None:
        """End all requests. Callers that still wait get a :class:`RewardError`."""
        self._closed = True
        for item in list(self._waiting):
            self._fail(item, "The reward client was closed while this reward was being waited for.", permanent=True)
        self._queue.clear()
        if self._alarm is not None:
            self._alarm.cancel()
        for post in list(self._posts):
            post.cancel()
        await asyncio.gather(*self._posts, return_exceptions=True)
        if self._connections is not None:
            await self._connections.aclose()

    # Sending

    def _pump(self) -> None:
        """Send every batch that is due and set the alarm for the next. Called after every change."""
        assert self._loop is not None
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        while self._queue and len(self._posts) < self.settings.max_in_flight:
            now = self._loop.time()
            endpoint = self._choose(now)
            if endpoint is None:
                held = [e.held_until for e in self._endpoints if e.held_until > now]
                if held:  # else a single request is under way, and its end calls this method again
                    self._alarm = self._loop.call_at(min(held), self._pump)
                return
            due_at = self._queue.due_at(single=endpoint.single_only)
            if due_at > now:
                self._alarm = self._loop.call_at(due_at, self._pump)
                return
            batch = self._queue.take(single=endpoint.single_only)
            if batch:
                self._send(endpoint, batch)

    def _choose(self, now: float) -> Endpoint | None:
        """The free URL with the fewest open requests, in turn; None if none is free."""
        free = [e for e in self._endpoints if e.is_free(now)]
        if not free and not self.settings.deadline:
            free = self._endpoints  # with a single attempt there is no later
        return min(free, key=lambda e: e.in_flight, default=None)

    def _send(self, endpoint: Endpoint, batch: list[Item]) -> None:
        assert self._loop is not None
        now = self._loop.time()
        for item in batch:
            if item.attempts:
                self.stats.retries += 1
                self.stats.failovers += item.endpoint is not endpoint
            if item.first_sent_at is None:
                item.first_sent_at = now
            item.attempts += 1
            item.endpoint = endpoint
        self.stats.requests += 1
        # URLs take turns: of equally busy ones, that asked longest ago comes first.
        self._endpoints.remove(endpoint)
        self._endpoints.append(endpoint)
        endpoint.in_flight += 1
        post = self._loop.create_task(self._post(endpoint, batch, now))
        self._posts.add(post)
        post.add_done_callback(lambda post: self._sent(endpoint, post))

    def _sent(self, endpoint: Endpoint, post: "asyncio.Task[None]") -> None:
        endpoint.in_flight -= 1
        self._posts.discard(post)
        if not self._closed:
            self._pump()

    async def _post(self, endpoint: Endpoint, batch: list[Item], sent_at: float) -> None:
        """One POST. Afterwards every item of the batch has its reward, is queued again, or has failed."""
        assert self._loop is not None
        assert self._connections is not None
        try:
            outcomes = await self._connections.rewards(endpoint, [item.request for item in batch])
        except Exception as error:
            # Any other error of the HTTP library counts as a broken connection, so that no caller waits for ever.
            failure = error if isinstance(error, Failure) else Failure(f"could not be asked ({reason(error)})")
            self._batch_failed(endpoint, batch, failure, sent_at)
            return
        failed: dict[Item, Failure] = {}
        for item, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, Reward):
                self._deliver(item, outcome)
            elif outcome.permanent:
                self._fail(item, f"The reward server {endpoint.label} {outcome}.", permanent=True)
            else:
                failed[item] = outcome
        if len(failed) == len(batch):
            endpoint.failed(failed[batch[0]], sent_at, self._loop.time())
        else:
            endpoint.succeeded(sent_at, self._loop.time())
        self._retry(endpoint, failed)

    # What becomes of an item

    def _batch_failed(self, endpoint: Endpoint, batch: list[Item], failure: Failure, sent_at: float) -> None:
        assert self._loop is not None
        if failure.rewritten_may_succeed or endpoint.takes_single_items_only(failure, len(batch)):
            self._queue.put_back(batch)
            return
        if len(batch) > 1 and failure.divisible:
            # The cause is the batch's size or one bad item; smaller batches find out which.
            limit_to_half(batch)
            if failure.permanent:
                self._queue.put_back(batch)
                return
        if failure.permanent:
            for item in batch:
                message = f"The reward server {endpoint.label} {failure}."
                self._fail(item, message, permanent=True, of_client=failure.of_client)
            return
        endpoint.failed(failure, sent_at, self._loop.time())
        self._retry(endpoint, dict.fromkeys(batch, failure))

    def _retry(self, endpoint: Endpoint, failed: dict[Item, Failure]) -> None:
        """Queue items again: at once for the next URL, or after a pause if every URL has had its turn.

        Items that failed together wait for the same time, so that they are sent in one batch again.
        """
        assert self._loop is not None
        rounds_of: defaultdict[int, list[Item]] = defaultdict(list)
        for item, failure in failed.items():
            item.failures += 1
            item.problem = f"{endpoint.label} {failure}"
            if not self.settings.deadline:
                self._give_up(item)
                continue
            rounds, turn = divmod(item.failures, len(self._endpoints))
            rounds_of[0 if turn else rounds].append(item)
        self._queue.put_back(rounds_of.pop(0, []))
        for rounds, items in rounds_of.items():
            self._loop.call_later(self._backoff.seconds(rounds), self._requeue, items)

    def _requeue(self, items: list[Item]) -> None:
        if not self._closed:
            self._queue.put_back(items)
            self._pump()

    def _deliver(self, item: Item, reward: Reward) -> None:
        assert self._loop is not None
        self._last_reward_at = self._loop.time()
        if not item.future.done():
            self.stats.items += 1
            item.future.set_result(reward)

    def _expire(self, item: Item) -> None:
        """Fail the item if its deadline is over. An item that was never sent waits as long as others get rewards."""
        assert self._loop is not None
        if item.future.done():
            return
        start = item.first_sent_at if item.first_sent_at is not None else max(item.asked_at, self._last_reward_at)
        due = start + self.settings.deadline
        if due > self._loop.time():
            item.alarm = self._loop.call_at(due, self._expire, item)
        else:
            self._give_up(item)

    def _give_up(self, item: Item) -> None:
        assert self._loop is not None
        seconds = self._loop.time() - item.asked_at
        tries = "1 attempt" if item.attempts == 1 else f"{item.attempts} attempts"
        problem = item.problem or f"{self._label(item)} has not answered"
        others = f" (the last of {len(self._endpoints)} tried)" if len(self._endpoints) > 1 else ""
        message = f"No reward after {seconds:.1f} s and {tries}: the reward server {problem}{others}; check its log."
        self._fail(item, message, permanent=False)

    def _label(self, item: Item | None) -> str:
        return ((item and item.endpoint) or self._endpoints[0]).label

    def _fail(self, item: Item, message: str, permanent: bool, of_client: bool = False) -> None:
        assert self._loop is not None
        if item.future.done():
            return
        self.stats.failures += 1
        seconds = self._loop.time() - item.asked_at
        item.future.set_exception(
            RewardError(message, self._label(item), item.attempts, seconds, permanent, of_client)
        )
