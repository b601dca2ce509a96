"""``POST /v1/grade`` with a stream of rows: a JSON object a line in, a verdict a line out, in order, when it is ready.

Two tasks share a few lines: one reads and sends them to the pool, the other writes what is ready. While WINDOW_LINES
or WINDOW_BYTES are under way nothing is read, so a client that does not read its answer does not fill the memory. A
stream has one turn in the pool's queue, as a request has, and waits where the queue is full.

The answer begins with its first line, so what goes wrong before has a status of its own. Later, it is a last line with
``error`` and ``status``, and the connection is closed in the middle of the answer. Only a whole answer has a line with
``end``.
"""

import asyncio
import contextlib
import json
from collections import deque
from typing import Any, Protocol

import anyio
import msgspec
from fastapi import HTTPException
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from math_reward.grader import Mode, Options
from math_reward.http.bodies import BodyReader, sentence_of
from math_reward.http.metrics import Metrics
from math_reward.http.middleware.hang_up import HungUp
from math_reward.http.middleware.line_limits import LineLimits
from math_reward.http.ndjson import CONNECTION, LINE_LIMITS, MEDIA_TYPE, OUTCOME, PATH, is_stream
from math_reward.http.recent import Recent
from math_reward.http.requests import GradeItem, GradeOptions, Unusable
from math_reward.http.routes.pool_refusals import pool_refusals
from math_reward.nearest import no_such, sentence
from math_reward.pool.batch import Turn
from math_reward.pool.item import Graded, Item
from math_reward.pool.pool import Pool, QueueFull
from math_reward.settings import Settings

WINDOW_LINES = 512
"""Lines of one stream under way."""

WINDOW_BYTES = 2**20
"""Bytes of the lines under way; one line may have more, if it is alone."""

SENT_TOGETHER = 64
"""Lines that go to the pool together, if so many have come."""

WRITTEN_TOGETHER = 64
"""Lines that are written in one round of the event loop."""

FULL_QUEUE_SECONDS = 1.0
"""When to try again if the pool's queue is full; sooner if it says so."""

CLOSE_SECONDS = 5.0
"""How long a client may take to read the last line of a stream that was cut off."""

_ROWS = BodyReader(GradeItem, subject="It")
_HEADERS = [(b"content-type", MEDIA_TYPE.encode()), (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]


class Connection(Protocol):
    """What a stream needs of its connection."""

    def close(self) -> None:
        """Closes it when what was written has been sent."""

    def abort(self) -> None:
        """Closes it at once."""


class StreamRoute(Route):
    """A route for streams of rows only; other requests for the same path go to the next route."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """ASGI's scope as Starlette's router asks it."""
        return super().matches(scope) if is_stream(scope) else (Match.NONE, {})


def stream_route(settings: Settings, pool: Pool, metrics: Metrics, recent: Recent) -> StreamRoute:
    """``POST /v1/grade`` for streams. The OpenAPI document has it with the route for single requests."""
    defaults = Options(mode=Mode(settings.mode))

    class Application:
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            options = options_of(QueryParams(scope["query_string"]), defaults)
            stream = _Stream(scope, send, options, settings, pool, metrics, recent)
            await stream.answer()

    return StreamRoute(PATH, Application(), methods=["POST"], include_in_schema=False)


def options_of(parameters: QueryParams, defaults: Options) -> Options:
    """How to grade, from a URL's parameters, which have the names of ``GradeOptions``.

    Raises:
        HTTPException: a parameter is unknown or has no such value.
    """
    options = GradeOptions.__struct_fields__
    for name in parameters:
        if name not in options:
            raise _refused(422, sentence(no_such("parameter", name, options)))
    try:
        # A parameter is text, which is read as a number or true or false where an option is one.
        return msgspec.convert(dict(parameters), GradeOptions, strict=False).over(defaults)
    except msgspec.ValidationError as fault:
        raise _refused(422, sentence_of(fault, GradeOptions, "", "parameter")) from None


def _refused(status: int, detail: str, headers: dict[str, str] | None = None) -> HTTPException:
    # The rest of the stream may still come, and nobody will read it.
    return HTTPException(status, detail, headers={**(headers or {}), "Connection": "close"})


class _Line:
    """A line under way."""

    __slots__ = ("number", "shown", "size")

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.size = size
        self.shown: Graded | str | None = None
        """Its grade, or a sentence that says why it cannot be used; None until that is known."""


class _Stream:
    """One stream and its answer."""

    def __init__(
        self,
        scope: Scope,
        send: Send,
        options: Options,
        settings: Settings,
        pool: Pool,
        metrics: Metrics,
        recent: Recent,
    ) -> None:
        self._scope = scope
        self._limits: LineLimits = scope[LINE_LIMITS]
        self._connection: Connection | None = scope.get(CONNECTION)
        self._send_message = send
        self._options = options
        self._read_seconds = settings.body_seconds
        self._max_line_bytes = settings.max_body_bytes
        self._max_queued = settings.max_queued
        self._pool = pool
        self._metrics = metrics
        self._recent = recent
        self._turn = Turn()
        self._under_way: deque[_Line] = deque()
        self._bytes = 0
        self._to_send: list[tuple[_Line, Item]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._fault: StarletteHTTPException | None = None
        """Why no more lines are read; those before it are answered first."""
        self._news = asyncio.Event()
        """For the one who writes: a line is ready, or something has ended."""
        self._room = asyncio.Event()
        """For the one who reads: lines have been answered."""
        self._started = self._all_read = False
        self._lines = self._verdicts = self._errors = 0

    async def answer(self) -> None:
        """Reads, grades and writes until the stream ends.

        Raises:
            HTTPException: it was refused before the answer had begun.
        """
        self._run(self._read())
        self._run(self._until_refused())
        try:
            with pool_refusals(lambda: f"{self._pool.queued:,} items wait already and {self._max_queued:,} may"):
                await self._write()
        except StarletteHTTPException as fault:
            await self._stop()
            if not self._started:
                raise _refused(fault.status_code, fault.detail, dict(fault.headers or {})) from None
            await self._cut_off(fault)
        finally:
            await self._stop()

    def _run(self, work: Any) -> None:
        """Runs a part of the work. What it raises goes to the one who writes."""

        async def watched() -> None:
            try:
                await work
            except Exception as error:
                self._failure = self._failure or error
            self._news.set()

        task = asyncio.ensure_future(watched())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _stop(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Reading

    async def _read(self) -> None:
        try:
            await self._read_lines()
        except StarletteHTTPException as fault:
            self._fault = fault
        self._all_read = True
        self._grade_what_has_come()
        self._news.set()
        if self._fault is None:
            await self._limits.until_hung_up()
            raise HungUp

    async def _read_lines(self) -> None:
        rest = bytearray()
        more = True
        while more:
            while self._limits.pending.too_many and self._under_way:
                await self._until_room()
            message = await self._limits.receive()
            if message["type"] == "http.disconnect":
                raise HungUp
            more = message.get("more_body", False)
            rest += message.get("body", b"")
            *whole, rest = rest.split(b"\n") if b"\n" in message.get("body", b"") else [rest]
            for content in whole:
                await self._take(content, len(content) + 1)
            if not more and rest:
                await self._take(rest, len(rest))
            self._check_length(rest)
            self._grade_what_has_come()

    async def _take(self, content: bytearray, size: int) -> None:
        """Takes in one line, when there is room for it."""
        self._check_length(content)
        self._lines += 1
        if self._lines == 1:
            content = content.removeprefix(b"\xef\xbb\xbf")
        if not content.strip(b" \t\r"):
            self._limits.release(size)
            return
        while self._under_way and (len(self._under_way) >= WINDOW_LINES or self._bytes + size > WINDOW_BYTES):
            await self._until_room()
        line = _Line(self._lines, size)
        self._under_way.append(line)
        self._bytes += size
        read = await _item_of(content, self._options)
        if isinstance(read, str):
            line.shown = read
            self._news.set()
            return
        self._to_send.append((line, read))
        if len(self._to_send) >= SENT_TOGETHER:
            self._grade_what_has_come()

    def _check_length(self, line: bytearray) -> None:
        if len(line) > self._max_line_bytes:
            raise HTTPException(413, f"A line has more than the {self._max_line_bytes:,} bytes that are allowed.")

    async def _until_room(self) -> None:
        self._grade_what_has_come()
        self._room.clear()
        await self._room.wait()

    # Grading

    def _grade_what_has_come(self) -> None:
        if self._to_send:
            window, self._to_send = self._to_send, []
            self._run(self._grade(window))

    async def _grade(self, window: list[tuple[_Line, Item]]) -> None:
        def each(index: int, graded: Graded) -> None:
            window[index][0].shown = graded
            self._news.set()

        while True:
            try:
                await self._pool.grade([item for _, item in window], turn=self._turn, each=each)
                return
            except QueueFull as full:
                await asyncio.sleep(min(full.retry_after, FULL_QUEUE_SECONDS))

    async def _until_refused(self) -> None:
        await self._pool.until_refused()
        await self._pool.grade([])  # It raises PoolClosed.

    # Writing

    async def _write(self) -> None:
        while True:
            while ready := self._ready():
                await self._write_lines(ready)
                await asyncio.sleep(0)
            if self._failure is not None:
                raise self._failure
            if self._all_read and not self._under_way:
                if self._fault is not None:
                    raise self._fault
                counts = {"lines": self._lines, "verdicts": self._verdicts, "errors": self._errors}
                await self._send({"end": True, **counts}, last=True)
                return
            await self._news.wait()
            self._news.clear()

    def _ready(self) -> list[_Line]:
        ready: list[_Line] = []
        while self._under_way and self._under_way[0].shown is not None and len(ready) < WRITTEN_TOGETHER:
            ready.append(self._under_way.popleft())
        return ready

    async def _write_lines(self, ready: list[_Line]) -> None:
        graded = [line.shown for line in ready if isinstance(line.shown, Graded)]
        self._verdicts += len(graded)
        self._errors += len(ready) - len(graded)
        self._metrics.items(graded)
        self._recent.add(graded)
        await self._send(*map(_shown, ready))
        size = sum(line.size for line in ready)
        self._bytes -= size
        self._limits.release(size)
        self._room.set()

    async def _send(self, *lines: dict[str, Any], last: bool = False) -> None:
        """Writes lines; waits while the client does not read.

        Raises:
            HTTPException: it has not read for too long.
        """
        if not self._started:
            self._started = True
            await self._send_message({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        content = "".join(json.dumps(line) + "\n" for line in lines).encode()
        try:
            with anyio.fail_after(self._read_seconds):
                await self._send_message({"type": "http.response.body", "body": content, "more_body": not last})
        except TimeoutError:
            detail = f"The client did not read the answer within {self._read_seconds:g} s: read it while you send."
            raise HTTPException(408, detail) from None

    async def _cut_off(self, fault: StarletteHTTPException) -> None:
        """Ends an answer that has begun so that nobody takes it for a whole one."""
        self._scope[OUTCOME] = fault.status_code
        with anyio.move_on_after(CLOSE_SECONDS), contextlib.suppress(HTTPException):
            await self._send({"error": fault.detail, "status": fault.status_code})
            if self._connection is not None:  # Other servers close it because the answer is not complete.
                self._connection.close()
                await self._limits.until_hung_up()
            return
        if self._connection is not None:
            self._connection.abort()
            await self._limits.until_hung_up()


async def _item_of(content: bytearray, options: Options) -> Item | str:
    """One line as an item, or a sentence that says why it cannot be used."""
    try:
        return (await _ROWS.read(content)).item(options)
    except Unusable as fault:
        return str(fault)


def _shown(line: _Line) -> dict[str, Any]:
    if isinstance(line.shown, Graded):
        return {"line": line.number, **line.shown.as_dict()}
    return {"line": line.number, "error": line.shown}
