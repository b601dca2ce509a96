"""Reads JSON bodies without holding up the event loop: a parser does not let go before it is done, in no thread."""

import asyncio
import json
import time
from typing import Any, NoReturn

from starlette.requests import Request

SMALL_BYTES = 65_536
"""A body up to this is parsed in one go, in less than a millisecond."""

SLICE_SECONDS = 0.004
"""How long a big body is parsed before the event loop gets its turn."""

_SPACE = " \t\n\r"
_decode_one = json.JSONDecoder().raw_decode


class JSONBodyRequest(Request):
    """A request whose JSON is parsed in slices."""

    async def json(self) -> Any:
        """The body, parsed. Raises json.JSONDecodeError for whatever is wrong with it."""
        body = await self.body()
        try:
            text = body.decode()
            return json.loads(text) if len(body) <= SMALL_BYTES else await parse_in_slices(text)
        except UnicodeDecodeError as error:
            _refuse("it is not UTF-8", error.start)
        except RecursionError:
            _refuse("it is nested too deep", 0)
        except json.JSONDecodeError:
            raise
        except ValueError:  # Python reads no longer ones.
            _refuse("it has an integer of more than 4,300 digits", 0)


async def parse_in_slices(text: str) -> Any:
    """As ``json.loads``, but an object's or array's members are parsed one by one, and those of its members too, and
    the event loop gets its turn in between. Raises json.JSONDecodeError, RecursionError or ValueError as that does.
    """
    parser = _Parser(text)
    value = await parser.value(depth=0)
    parser.skip_space()
    if parser.position < len(text):
        raise json.JSONDecodeError("Extra data", text, parser.position)
    return value


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self._slice_ends = time.monotonic() + SLICE_SECONDS

    async def value(self, depth: int) -> Any:
        self.skip_space()
        opening = self.text[self.position : self.position + 1]
        if opening == "{" and depth < 2:
            return await self._members("}", depth, named=True)
        if opening == "[" and depth < 2:
            return await self._members("]", depth, named=False)
        value, self.position = _decode_one(self.text, self.position)
        if time.monotonic() > self._slice_ends:
            await asyncio.sleep(0)
            self._slice_ends = time.monotonic() + SLICE_SECONDS
        return value

    async def _members(self, closing: str, depth: int, named: bool) -> Any:
        names: list[str] = []
        values: list[Any] = []
        self.position += 1
        if not self._skip(closing):
            while True:
                if named:
                    names.append(self._name())
                values.append(await self.value(depth + 1))
                if self._skip(closing):
                    break
                if not self._skip(","):
                    raise json.JSONDecodeError("Expecting ',' delimiter", self.text, self.position)
        return dict(zip(names, values, strict=True)) if named else values

    def _name(self) -> str:
        self.skip_space()
        if self.text[self.position : self.position + 1] != '"':
            raise json.JSONDecodeError("Expecting property name enclosed in double quotes", self.text, self.position)
        name, self.position = _decode_one(self.text, self.position)
        if not self._skip(":"):
            raise json.JSONDecodeError("Expecting ':' delimiter", self.text, self.position)
        return name

    def _skip(self, character: str) -> bool:
        """Steps over white space and the character, where it is next."""
        self.skip_space()
        found = self.text[self.position : self.position + 1] == character
        self.position += found
        return found

    def skip_space(self) -> None:
        while self.text[self.position : self.position + 1] in _SPACE and self.position < len(self.text):
            self.position += 1


def _refuse(reason: str, position: int) -> NoReturn:
    raise json.JSONDecodeError(reason, "", position) from None
