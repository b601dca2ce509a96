"""Parses JSON bodies in slices, so that a large body neither holds up the event loop nor fills the memory.

A parser from a library holds Python's lock until it is done, even in a thread, and only then can its values be
counted. With a body of 16 MB of empty arrays the slowest health check took 41 ms instead of 1,508 ms with
``json.loads``, and the service 90 MiB instead of 469 MiB (``python tests/benchmarks/bench_event_loop.py values``). A
value that fits into a window of WINDOW_BYTES is parsed at once by the standard library; longer strings, objects and
arrays are parsed in parts.
"""

import asyncio
import json
import re
import time
from collections.abc import Callable, Coroutine
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, NoReturn

from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope

WINDOW_BYTES = 65_536
"""How much is parsed at once, in less than a millisecond."""

SLICE_SECONDS = 0.004
"""How long a body is parsed before the event loop gets its turn."""

MAX_DEPTH = 16
"""How deeply objects and arrays may be nested; a request needs four levels."""

VALUES_PER_ITEM = 16
"""How many values (strings, numbers, objects, ...) a body may have for each item that a request may have. A small
value needs up to fifty times as much memory in Python as in the body."""

MORE_VALUES = 1_000
"""How many more values a body may have, even if a request may have few items."""

NUMBER_BYTES = 8_192
"""A number of this length is refused."""

SHOWN_CHARACTERS = 40
"""How much of a field's name a refusal repeats."""

_SPACE = re.compile(rb"[ \t\n\r]*")
_SCALAR = re.compile(rb"[-+.0-9A-Za-z]*")
_HIGH_SURROGATE = re.compile(rb"\\u[dD][89abAB]..", re.DOTALL)
_decode_one = json.JSONDecoder().raw_decode


class JSONBodyRequest(Request):
    """A request whose JSON is parsed in slices. An array that is a member of the body has at most ``max_items``."""

    def __init__(self, scope: Scope, receive: Receive, max_items: int) -> None:
        super().__init__(scope, receive)
        self._content = bytearray()
        self._max_items = max_items

    async def body(self) -> bytes:
        """Reads the body. It returns only whether there is one, because FastAPI keeps the result until the answer is
        sent.
        """
        async for chunk in self.stream():
            self._content += chunk
        return b" " if self._content else b""

    async def json(self) -> Any:
        """Parses the body, and drops its bytes.

        Raises:
            json.JSONDecodeError: the body is not valid.
            HTTPException: it has more items or values than are allowed.
        """
        body, self._content = self._content, bytearray()
        try:
            return await parse_in_slices(body, self._max_items)
        except UnicodeDecodeError as error:
            _refuse("it is not UTF-8", error.start)
        except RecursionError:
            _refuse("it is nested too deeply", 0)
        except json.JSONDecodeError:
            raise
        except ValueError:  # Python reads no longer integers.
            _refuse("it has an integer of more than 4,300 digits", 0)


def json_route(max_items: int) -> type[APIRoute]:
    """A class of routes whose JSON bodies are parsed in slices, with at most ``max_items`` items."""

    class JSONRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle = super().get_route_handler()

            async def handle_json(request: Request) -> Response:
                return await handle(JSONBodyRequest(request.scope, request.receive, max_items))

            return handle_json

    return JSONRoute


async def parse_in_slices(body: bytes | bytearray, max_items: int) -> Any:
    """Like ``json.loads``, but the event loop gets its turn every SLICE_SECONDS.

    Raises:
        json.JSONDecodeError, UnicodeDecodeError, RecursionError, ValueError: like ``json.loads``, or it is nested more
            than MAX_DEPTH deep.
        HTTPException: an array that is a member of the body has more than ``max_items``, or there are too many values.
    """
    parser = _Parser(body, max_items)
    value = await parser.value(0, None)
    await parser.skip_space()
    if parser.position < len(body):
        parser.fail("Extra data")
    return value


class _Parser:
    def __init__(self, body: bytes | bytearray, max_items: int) -> None:
        self.position = 0
        """In bytes."""
        self._body = body
        self._max_items = max_items
        self._max_values = self._values_left = VALUES_PER_ITEM * max_items + MORE_VALUES
        self._last_size = WINDOW_BYTES
        self._slice_ends = time.monotonic() + SLICE_SECONDS

    async def value(self, depth: int, name: str | None) -> Any:
        """The next value; ``name`` is the member of the body that it belongs to."""
        await self.skip_space()
        if depth > MAX_DEPTH:
            raise RecursionError
        await self._turn()
        opening = self._body[self.position : self.position + 1]
        if opening not in (b"{", b"[", b'"'):
            return self._scalar()
        found, value = self._at_once(depth, name)
        if found:
            return value
        self._count(1)
        if opening == b"{":
            return await self._object(depth, name)
        if opening == b"[":
            return await self._array(depth, name)
        return await self._string()

    async def skip_space(self) -> None:
        while True:
            end = min(self.position + 16 * WINDOW_BYTES, len(self._body))
            self.position = _SPACE.match(self._body, self.position, end).end()  # type: ignore[union-attr]
            if self.position < end or end == len(self._body):
                return
            await self._turn()

    def fail(self, reason: str, after: int = 0) -> NoReturn:
        """Raises JSONDecodeError for the character that is ``after`` characters behind the position."""
        _refuse(reason, len(self._body[: self.position].decode()) + after)

    async def _turn(self) -> None:
        if time.monotonic() > self._slice_ends:
            await asyncio.sleep(0)
            self._slice_ends = time.monotonic() + SLICE_SECONDS

    def _count(self, values: int) -> None:
        self._values_left -= values
        if self._values_left < 0:
            raise HTTPException(
                422,
                f"The body holds more than the {self._max_values:,} values that are allowed: send several requests.",
            )

    def _check_length(self, array: list[Any], name: str | None) -> None:
        if len(array) > self._max_items:
            field = f"Field {str(name)[:SHOWN_CHARACTERS]!r}"
            raise HTTPException(
                422, f"{field} has more than the {self._max_items:,} items that are allowed: send several requests."
            )

    def _at_once(self, depth: int, name: str | None) -> tuple[bool, Any]:
        """Whether the next value fits into a window and is valid; and the value."""
        # A member is usually about as long as the one before it.
        for size in sorted({min(2 * self._last_size, WINDOW_BYTES), WINDOW_BYTES}):
            window = self._window(size)
            try:
                value, end = _decode_one(window)
            except (json.JSONDecodeError, RecursionError):
                continue
            break
        else:
            return False, None
        self._last_size = end if window.isascii() else len(window[:end].encode())
        self.position += self._last_size
        self._count(_values(value, depth))
        if depth == 0 and isinstance(value, dict):
            for member, array in value.items():
                if isinstance(array, list):
                    self._check_length(array, member)
        if depth == 1 and name is not None and isinstance(value, list):
            self._check_length(value, name)
        return True, value

    def _window(self, size: int) -> str:
        """The next characters, about ``size`` bytes."""
        end = self.position + size
        end -= _bytes_of_half_a_character(self._body, end)
        try:
            return self._body[self.position : end].decode()
        except UnicodeDecodeError as error:
            error.start += self.position
            raise

    def _scalar(self) -> Any:
        end = _SCALAR.match(self._body, self.position, self.position + NUMBER_BYTES).end()  # type: ignore[union-attr]
        if end == self.position + NUMBER_BYTES:
            raise ValueError("a number that is too long")
        try:
            value, length = _decode_one(self._body[self.position : end].decode())
        except json.JSONDecodeError as error:
            self.fail(error.msg, error.pos)
        self.position += length
        self._count(1)
        return value

    async def _array(self, depth: int, name: str | None) -> list[Any]:
        values: list[Any] = []
        self.position += 1
        if not await self._skip(b"]"):
            while True:
                values.append(await self.value(depth + 1, name))
                if depth == 1 and name is not None:
                    self._check_length(values, name)
                if await self._skip(b"]"):
                    break
                if not await self._skip(b","):
                    self.fail("Expecting ',' delimiter")
        return values

    async def _object(self, depth: int, name: str | None) -> dict[str, Any]:
        members: dict[str, Any] = {}
        self.position += 1
        if not await self._skip(b"}"):
            while True:
                await self.skip_space()
                if self._body[self.position : self.position + 1] != b'"':
                    self.fail("Expecting property name enclosed in double quotes")
                member = await self._string()
                if not await self._skip(b":"):
                    self.fail("Expecting ':' delimiter")
                members[member] = await self.value(depth + 1, name if depth else member)
                if await self._skip(b"}"):
                    break
                if not await self._skip(b","):
                    self.fail("Expecting ',' delimiter")
        return members

    async def _string(self) -> str:
        """Parses a string piece by piece."""
        pieces: list[str] = []
        self.position += 1
        while True:
            end = self.position + WINDOW_BYTES
            last = end >= len(self._body)
            if not last:
                end -= _bytes_of_half_a_character(self._body, end)
                end -= _bytes_of_half_an_escape(self._body, self.position, end)
            try:
                written = self._body[self.position : end].decode()
                piece, length = scanstring(written + '"', 0, True)
            except UnicodeDecodeError as error:
                error.start += self.position
                raise
            except json.JSONDecodeError as error:
                self.fail(error.msg, error.pos)
            pieces.append(piece)
            if length <= len(written):
                self.position += len(written[:length].encode())
                return "".join(pieces)
            if last:
                self.fail("Unterminated string starting at")
            self.position = end
            await self._turn()

    async def _skip(self, character: bytes) -> bool:
        """Skips white space and then ``character``; False if another one is next."""
        await self.skip_space()
        found = self._body[self.position : self.position + 1] == character
        self.position += found
        return found


def _values(value: Any, depth: int) -> int:
    """How many values there are in a value, itself included."""
    if not isinstance(value, dict | list):
        return 1
    if depth >= MAX_DEPTH:
        raise RecursionError
    inner = value.values() if isinstance(value, dict) else value
    return 1 + sum(_values(one, depth + 1) for one in inner)


def _bytes_of_half_a_character(body: bytes | bytearray, end: int) -> int:
    """How many bytes before ``end`` belong to a UTF-8 character that continues after it."""
    back = 0
    while back < 3 and end - back < len(body) and body[end - back] & 0xC0 == 0x80:
        back += 1
    return back


def _bytes_of_half_an_escape(body: bytes | bytearray, begin: int, end: int) -> int:
    """How many bytes before ``end`` belong to an escape in a string that may continue after it. Bytes before ``begin``
    do not count. An escape has up to twelve bytes: ``\\ud83d\\ude00`` is one character.
    """
    for start in range(max(begin, end - 12), end):
        before = body[begin:start]
        if body[start] != 0x5C or (len(before) - len(before.rstrip(b"\\"))) % 2:
            continue  # It is not a backslash, or another one escapes it.
        if start + 2 > end or (body[start + 1] == 0x75 and start + 6 > end):
            return end - start
        if start + 12 > end and _HIGH_SURROGATE.match(body, start):
            return end - start
    return 0


def _refuse(reason: str, position: int) -> NoReturn:
    raise json.JSONDecodeError(reason, "", position) from None
