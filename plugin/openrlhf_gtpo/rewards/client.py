"""The reward client: completions in, checked rewards out, over HTTP.

It replaces the reward client of OpenRLHF's single-turn executor, which sends one POST per sample, never batches, and
returns ``None`` when a server is down. Here many concurrent callers share batches and connections, requests are
retried until a deadline, and another server takes over from one that fails. A caller gets either a finite reward or a
:class:`RewardError` that says why not.

The path of the URL chooses the protocol: ``/v1/grade`` (also for a URL without a path) is the project's own, any other
path is OpenRLHF's. `openrlhf_gtpo.rewards.protocols` defines both.

One client belongs to one event loop and is not thread-safe. Standard library and httpx only: the vLLM rollout actors
import this module.
"""

import asyncio
import json
import logging
import math
import random
import ssl
from collections import defaultdict, deque
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit

import httpx

from openrlhf_gtpo.rewards.protocols import (
    GRADE_PATH,
    Failure,
    GradeProtocol,
    OpenRLHFProtocol,
    Reward,
    RewardRequest,
    refused,
)

logger = logging.getLogger("openrlhf_gtpo.rewards.client")

FIRST_BACKOFF = 0.25  # seconds; doubled with every failure in a row
CONNECT_TIMEOUT = 5.0  # seconds; a host that drops packets must not cost a whole request timeout
KEEPALIVE = 1.0  # seconds; shorter than servers keep idle connections, so that none is closed during a request
LOG_INTERVAL = 60.0  # seconds between two warnings that the same URL is down
MAX_ANSWER_BYTES = 64 * 2**20


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


@dataclass(frozen=True)
class RewardClientSettings:
    """The URLs of the reward servers, and the client's limits.

    Attributes:
        urls: one or more http(s) URLs; the module says which protocol each uses.
        token: sent as ``Authorization: Bearer``.
        timeout: seconds per HTTP request.
        deadline: seconds of retries for one reward, from its first attempt; 0 means a single attempt. A completion
            that waits in the queue does not fail while other rewards still arrive.
        batch_size: most completions in one POST.
        batch_wait: seconds to wait for more completions before a batch that is not full is sent.
        max_in_flight: most HTTP requests at once, over all URLs.
        max_backoff: most seconds between two attempts, unless a server asks for more by Retry-After.

    Raises:
        ValueError: a value is out of bounds; one sentence.
    """

    urls: tuple[str, ...]
    token: str | None = field(default=None, repr=False)
    timeout: float = 30.0
    deadline: float = 300.0
    batch_size: int = 64
    batch_wait: float = 0.005
    max_in_flight: int = 8
    max_backoff: float = 10.0

    def __post_init__(self) -> None:
        if isinstance(self.urls, str) or not self.urls:
            raise ValueError("urls must be a tuple of at least one reward URL.")
        for url in self.urls:
            _check_url(url)
        # The HTTP library would refuse anything else too, but its error quotes the token.
        if self.token is not None and not (
            self.token and self.token.isascii() and self.token.isprintable() and " " not in self.token
        ):
            raise ValueError("token must be printable ASCII without spaces or line breaks, and not empty.")
        for name in ("timeout", "max_backoff"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be a positive number of seconds, not {getattr(self, name)}.")
        for name in ("deadline", "batch_wait"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be 0 or a positive number of seconds, not {getattr(self, name)}.")
        for name in ("batch_size", "max_in_flight"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}.")


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


class _Endpoint:
    """One URL: its protocol and its health. Times are the event loop's."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        path = parts.path.rstrip("/")
        if not path or path.endswith(GRADE_PATH):
            path = path or GRADE_PATH
            self.protocol: type[GradeProtocol] | type[OpenRLHFProtocol] = GradeProtocol
        else:
            path = parts.path
            self.protocol = OpenRLHFProtocol
        self.url = urlunsplit(parts._replace(path=path, fragment=""))
        self.label = urlunsplit(parts._replace(path=path, query="", fragment=""))  # a query may hold a secret
        self.single_only = False  # set once a POST with several items was refused: one item per POST from then on
        self.in_flight = 0
        self.failures_in_a_row = 0
        self.held_until = 0.0
        self.news_at = -math.inf  # outcomes of requests sent before this time do not count for the URL's health
        self.down_since: float | None = None  # set when a warning said that it is down
        self.reported_at = -math.inf

    def is_free(self, now: float) -> bool:
        """Whether it may get a request now. After a failure it gets one at a time until one succeeds."""
        return self.held_until <= now and not (self.failures_in_a_row and self.in_flight)


class _Item:
    """One completion that waits for its reward."""

    def __init__(self, request: RewardRequest, now: float, future: "asyncio.Future[Reward]") -> None:
        self.request = request
        self.future = future
        self.alarm: asyncio.TimerHandle | None = None
        self.asked_at = now
        self.first_sent_at: float | None = None
        self.attempts = 0
        self.failures = 0
        self.largest_batch: float = math.inf  # halved when its batch fails, so that a bad item ends up alone
        self.endpoint: _Endpoint | None = None  # the last one asked
        self.problem = ""


class RewardClient:
    """Asks reward servers for rewards. :class:`RewardClientSettings` has its settings, ``stats`` its counters."""

    def __init__(self, settings: RewardClientSettings) -> None:
        self.settings = settings
        self.stats = RewardClientStats()
        self._endpoints = [_Endpoint(url) for url in settings.urls]
        self._queue: deque[_Item] = deque()
        self._waiting: set[_Item] = set()
        self._posts: set[asyncio.Task[None]] = set()
        self._alarm: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._http: httpx.AsyncClient | None = None
        self._last_reward_at = -math.inf
        self._closed = False
        self._random = random.Random()  # its own, so that jitter does not disturb the run's seeded generators

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
            self._loop = loop
            self._http = self._connection_pool()
        elif self._loop is not loop:
            raise RuntimeError("A RewardClient belongs to the event loop that used it first: make one per loop.")
        item = _Item(request, loop.time(), loop.create_future())
        self._waiting.add(item)
        if self.settings.deadline:
            item.alarm = loop.call_later(self.settings.deadline, self._expire, item)
        self._queue.append(item)
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
        if self._http is not None:
            await self._http.aclose()

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
            limit = 1 if endpoint.single_only else self.settings.batch_size
            head = self._queue[0]
            if len(self._queue) < min(limit, head.largest_batch) and now < head.asked_at + self.settings.batch_wait:
                self._alarm = self._loop.call_at(head.asked_at + self.settings.batch_wait, self._pump)
                return
            batch = self._take(limit)
            if batch:
                self._send(endpoint, batch)

    def _choose(self, now: float) -> _Endpoint | None:
        """The free URL with the fewest open requests, in turn; None if none is free."""
        free = [e for e in self._endpoints if e.is_free(now)]
        if not free and not self.settings.deadline:
            free = self._endpoints  # with a single attempt there is no later
        return min(free, key=lambda e: e.in_flight, default=None)

    def _take(self, limit: float) -> list[_Item]:
        """Take the next batch from the queue, without items whose callers are gone."""
        batch: list[_Item] = []
        while self._queue:
            item = self._queue[0]
            limit = min(limit, item.largest_batch)
            if len(batch) >= limit:
                break
            self._queue.popleft()
            if not item.future.done():
                batch.append(item)
        return batch

    def _send(self, endpoint: _Endpoint, batch: list[_Item]) -> None:
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

    def _sent(self, endpoint: _Endpoint, post: "asyncio.Task[None]") -> None:
        endpoint.in_flight -= 1
        self._posts.discard(post)
        if not self._closed:
            self._pump()

    async def _post(self, endpoint: _Endpoint, batch: list[_Item], sent_at: float) -> None:
        """One POST. Afterwards every item of the batch has its reward, is queued again, or has failed."""
        try:
            outcomes = await self._ask(endpoint, [item.request for item in batch])
        except Exception as error:
            # Any other error of the HTTP library counts as a broken connection, so that no caller waits for ever.
            failure = error if isinstance(error, Failure) else Failure(f"could not be asked ({_sentence(error)})")
            self._batch_failed(endpoint, batch, failure, sent_at)
            return
        failed: dict[_Item, Failure] = {}
        for item, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, Reward):
                self._deliver(item, outcome)
            elif outcome.permanent:
                self._fail(item, f"The reward server {endpoint.label} {outcome}.", permanent=True)
            else:
                failed[item] = outcome
        if len(failed) == len(batch):
            self._mark_down(endpoint, failed[batch[0]], sent_at)
        else:
            self._mark_up(endpoint, sent_at)
        self._retry(endpoint, failed)

    async def _ask(self, endpoint: _Endpoint, batch: list[RewardRequest]) -> list[Reward | Failure]:
        """The outcome for each item; raises :class:`Failure` when the POST as a whole failed."""
        timeout = self.settings.timeout
        body = json.dumps(endpoint.protocol.question(batch)).encode()
        try:
            status, retry_after, content = await asyncio.wait_for(self._exchange(endpoint.url, body), timeout)
        except httpx.ConnectTimeout as error:
            raise Failure("could not be reached in time") from error
        except (asyncio.TimeoutError, httpx.TimeoutException) as error:
            raise Failure(f"did not answer within {timeout:g} s", divisible=True) from error
        except (httpx.RemoteProtocolError, httpx.ReadError) as error:  # one item of the batch may have crashed it
            raise Failure("hung up without an answer", divisible=True) from error
        if status >= 400:
            raise refused(status, retry_after, endpoint.protocol is OpenRLHFProtocol)
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError) as error:
            kind = "HTML" if content.lstrip()[:1] == b"<" else "something"
            raise Failure(f"answered {kind} that is not JSON") from error
        return endpoint.protocol.rewards(answer, batch)

    def _connection_pool(self) -> httpx.AsyncClient:
        timeout = self.settings.timeout
        connections = self.settings.max_in_flight
        return httpx.AsyncClient(
            headers={"Authorization": f"Bearer {self.settings.token}"} if self.settings.token else None,
            timeout=httpx.Timeout(timeout, connect=min(CONNECT_TIMEOUT, timeout)),
            limits=httpx.Limits(
                max_connections=connections, max_keepalive_connections=connections, keepalive_expiry=KEEPALIVE
            ),
            follow_redirects=True,
            # As OpenRLHF's client: no proxy from the environment, and the system's certificates.
            trust_env=False,
            verify=ssl.create_default_context(),
        )

    async def _exchange(self, url: str, body: bytes) -> tuple[int, str | None, bytes]:
        """Status, Retry-After and body of the answer to one POST."""
        assert self._http is not None
        headers = {"Content-Type": "application/json"}
        async with self._http.stream("POST", url, content=body, headers=headers) as response:
            content = bytearray()
            async for chunk in response.aiter_bytes():
                content += chunk
                if len(content) > MAX_ANSWER_BYTES:
                    raise Failure(f"answered more than {MAX_ANSWER_BYTES // 2**20} MiB")
            return response.status_code, response.headers.get("Retry-After"), bytes(content)

    # What becomes of an item

    def _batch_failed(self, endpoint: _Endpoint, batch: list[_Item], failure: Failure, sent_at: float) -> None:
        if len(batch) > 1 and failure.divisible:
            # The cause is the batch's size or one bad item; smaller batches find out which.
            if failure.answered and endpoint.protocol is OpenRLHFProtocol:
                if not endpoint.single_only:
                    endpoint.single_only = True
                    logger.warning(
                        "The reward server %s %s when sent %d queries at once; from now on it gets one at a time.",
                        endpoint.label,
                        failure,
                        len(batch),
                    )
                self._queue.extendleft(reversed(batch))
                return
            for item in batch:
                item.largest_batch = len(batch) // 2
            if failure.permanent:
                self._queue.extendleft(reversed(batch))
                return
        if failure.permanent:
            for item in batch:
                message = f"The reward server {endpoint.label} {failure}."
                self._fail(item, message, permanent=True, of_client=failure.of_client)
            return
        self._mark_down(endpoint, failure, sent_at)
        self._retry(endpoint, dict.fromkeys(batch, failure))

    def _retry(self, endpoint: _Endpoint, failed: dict[_Item, Failure]) -> None:
        """Queue items again: at once for the next URL, or after a pause if every URL has had its turn.

        Items that failed together wait for the same time, so that they are sent in one batch again.
        """
        assert self._loop is not None
        rounds_of: defaultdict[int, list[_Item]] = defaultdict(list)
        for item, failure in failed.items():
            item.failures += 1
            item.problem = f"{endpoint.label} {failure}"
            if not self.settings.deadline:
                self._give_up(item)
                continue
            rounds, turn = divmod(item.failures, len(self._endpoints))
            rounds_of[0 if turn else rounds].append(item)
        self._queue.extendleft(reversed(rounds_of.pop(0, [])))
        for rounds, items in rounds_of.items():
            self._loop.call_later(self._backoff(rounds), self._requeue, items)

    def _requeue(self, items: list[_Item]) -> None:
        if not self._closed:
            self._queue.extendleft(reversed(items))
            self._pump()

    def _deliver(self, item: _Item, reward: Reward) -> None:
        assert self._loop is not None
        self._last_reward_at = self._loop.time()
        if not item.future.done():
            self.stats.items += 1
            item.future.set_result(reward)

    def _expire(self, item: _Item) -> None:
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

    def _give_up(self, item: _Item) -> None:
        assert self._loop is not None
        seconds = self._loop.time() - item.asked_at
        tries = "1 attempt" if item.attempts == 1 else f"{item.attempts} attempts"
        problem = item.problem or f"{self._label(item)} has not answered"
        others = f" (the last of {len(self._endpoints)} tried)" if len(self._endpoints) > 1 else ""
        message = f"No reward after {seconds:.1f} s and {tries}: the reward server {problem}{others}; check its log."
        self._fail(item, message, permanent=False)

    def _label(self, item: _Item) -> str:
        return (item.endpoint or self._endpoints[0]).label

    def _fail(self, item: _Item, message: str, permanent: bool, of_client: bool = False) -> None:
        assert self._loop is not None
        if item.future.done():
            return
        self.stats.failures += 1
        seconds = self._loop.time() - item.asked_at
        item.future.set_exception(
            RewardError(message, self._label(item), item.attempts, seconds, permanent, of_client)
        )

    # How the URLs are doing

    def _mark_up(self, endpoint: _Endpoint, sent_at: float) -> None:
        assert self._loop is not None
        endpoint.news_at = max(endpoint.news_at, sent_at)
        endpoint.failures_in_a_row = 0
        if endpoint.down_since is not None:
            seconds = self._loop.time() - endpoint.down_since
            endpoint.down_since = None
            logger.warning("The reward server %s is back after %.1f s.", endpoint.label, seconds)

    def _mark_down(self, endpoint: _Endpoint, failure: Failure, sent_at: float) -> None:
        """Send nothing to the URL for a while, longer with every failure in a row.

        Requests that were open at the same time count as one failure.
        """
        assert self._loop is not None
        now = self._loop.time()
        if sent_at >= endpoint.news_at:
            endpoint.news_at = now
            endpoint.failures_in_a_row += 1
            endpoint.held_until = now + self._backoff(endpoint.failures_in_a_row)
            if endpoint.failures_in_a_row == 1 and now - endpoint.reported_at >= LOG_INTERVAL:
                endpoint.reported_at = endpoint.down_since = now
                logger.warning("The reward server %s is down: it %s. It will be tried again.", endpoint.label, failure)
        endpoint.held_until = max(endpoint.held_until, now + failure.retry_after)

    def _backoff(self, failures: int) -> float:
        """Seconds to wait after this many failures in a row: exponential, with jitter so that clients do not retry at
        the same moment."""
        longest = min(self.settings.max_backoff, FIRST_BACKOFF * 2.0 ** min(failures - 1, 30))
        return longest * self._random.uniform(0.5, 1.0)


def _check_url(url: str) -> None:
    """Raise ValueError unless this is an http(s) URL with a host and without credentials."""
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
    if not valid:
        raise ValueError(
            f"urls must hold http:// or https:// URLs such as http://127.0.0.1:8000/v1/grade, not {url!r}."
        )
    if "@" in parts.netloc:
        raise ValueError(f"urls must not hold credentials ({parts.hostname}): pass a token by its own setting.")


def _sentence(error: Exception) -> str:
    """The text of an exception on one line; its class if it has no text."""
    return " ".join(str(error).split()) or type(error).__name__
