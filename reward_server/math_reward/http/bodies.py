"""Decodes JSON straight into structs, so that nothing is made of what a request cannot have.

The event loop waits while msgspec decodes, and memory is taken for every value that a type allows, however often a
member is repeated. So what is longer than AT_ONCE_BYTES is opened one level at a time: msgspec finds where the parts
end, which for 16 MB takes up to 60 ms and no memory, and of an array it reads no more values than are allowed.
"""

import asyncio
import json
import re
import types
from collections.abc import Callable
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Meta, Raw, Struct
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from math_reward.grader import Mode
from math_reward.http.requests import Body, GradeOptions, RequestItem, Unusable
from math_reward.json_lines import float_of
from math_reward.nearest import no_such, sentence

AT_ONCE_BYTES = 65_536
"""What is no longer is decoded at once, in about a millisecond at most."""

LONG_BYTES = 1_048_576
"""What is longer takes milliseconds to open, and is opened after PAUSE_SECONDS."""

PAUSE_SECONDS = 0.003
"""Enough for a health check from its connection to its answer, which takes several turns of the event loop."""

COUNTED_ITEMS = 65_536
"""Where more items are allowed than this, they are counted after all of them were found."""

PYTHONS_BYTES = 2**19
"""A longer body must not hold what Python's ``json`` writes and JSON has not: NaN, infinity, half a surrogate pair.
Python reads this much in at most 30 ms."""

_BLANKS = b" \t\r\n"
_PLACED = re.compile(r"(.*?)(?: - at `\$(.*)`)?", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_NO_MODE = re.compile(r"Invalid enum value '(.*)'", re.DOTALL)
_JSON_TYPE = re.compile(r"application/([^;]+\+)?json *(;.*)?", re.IGNORECASE)

Model = TypeVar("Model", bound=Struct)


class BodyReader(Generic[Model]):
    """Decodes a struct, and checks how many items it has.

    Args:
        model: what a body has to be.
        max_items: how many values each array of it may have, if it has any.
        subject: what the body is, for a sentence that names no field.
    """

    def __init__(self, model: type[Model], max_items: int = 0, subject: str = "The body") -> None:
        self._type = _Type(model, max_items)
        self._arrays = [name for name, kind in get_type_hints(model).items() if get_origin(kind) is list]
        self._max_items = max_items
        self._subject = subject
        self._model = model

    async def of_request(self, request: Request) -> Model:
        """The body of a request.

        Raises:
            HTTPException: it is sent as something else, or does not come to its end.
            Unusable: see ``read``.
        """
        if not _JSON_TYPE.fullmatch(request.headers.get("content-type", "")):
            raise HTTPException(422, "The body must be a JSON object, sent with Content-Type: application/json.")
        content = bytearray()
        try:
            async for chunk in request.stream():
                content += chunk
        except ClientDisconnect:
            raise HTTPException(400, "The body did not come to its end.") from None
        return await self.read(content)

    async def read(self, content: bytes | bytearray) -> Model:
        """What has been sent.

        Raises:
            Unusable: it is not one of the model, or an array has too many values.
        """
        if content[:1] in _BLANKS:
            content = content.lstrip(_BLANKS)
        try:
            body = await self._decoded(content)
            for name in self._arrays:
                if len(getattr(body, name)) > self._max_items:
                    raise _too_long(self._max_items, f".{name}")
        except msgspec.ValidationError as fault:
            raise Unusable(sentence_of(fault, self._model, self._subject)) from None
        except msgspec.DecodeError as fault:
            reason = str(fault).removeprefix("JSON is malformed: ")
            advice = "; write null for NaN, and no half surrogate pairs" if len(content) > PYTHONS_BYTES else ""
            raise Unusable(f"{self._subject} is not JSON: {reason[0].lower()}{reason[1:]}{advice}.") from None
        except UnicodeDecodeError:
            raise Unusable(f"{self._subject} is not UTF-8 text.") from None
        except RecursionError:
            raise Unusable(f"{self._subject} is nested too deeply.") from None
        return body

    async def _decoded(self, content: bytes | bytearray) -> Model:
        try:
            body: Model = await self._type.read(content, "")
            return body
        except msgspec.DecodeError as fault:
            if isinstance(fault, msgspec.ValidationError) or len(content) > PYTHONS_BYTES:
                raise
            # OpenRLHF's own client writes a missing label as NaN, and would give up training at a refusal.
            try:
                return msgspec.convert(_pythons(content), self._model)
            except msgspec.ValidationError:
                raise
            except (ValueError, RecursionError):
                raise fault from None


def sentence_of(fault: msgspec.ValidationError, model: type[Struct], subject: str, field: str = "field") -> str:
    """One of msgspec's faults as a sentence that names the item and the field, and what was probably meant.

    ``field`` is what a field of the model is called.
    """
    said, path = _PLACED.fullmatch(str(fault)).groups("")  # type: ignore[union-attr]
    if said.startswith("Expected `object`") and not path:
        return f"{subject} is not a JSON object, such as {{...}}."
    names, indices = re.findall(r"\.(\w+)", path), re.findall(r"\[(\d+)\]", path)
    if unknown := _UNKNOWN.fullmatch(said):
        part = {"items": RequestItem, "options": GradeOptions}.get(names[-1], Body) if names else model
        said = no_such("field", unknown[1], part.__struct_fields__)
    elif missing := _MISSING.fullmatch(said):
        names.append(missing[1])
        said = "Field required"
    elif no_mode := _NO_MODE.fullmatch(said):
        said = no_such("mode", no_mode[1], [mode.value for mode in Mode])
    if said.startswith("Expected `array` of length") and not indices and names[-1] != "reference":
        said = f"{said}: send several requests"
    where = [f"item {indices.pop(0)}"] if names[:1] == ["items"] and indices else []
    names = names[len(where) :]
    where += [f"{field} {'.'.join(names)!r}"] if names else []
    where += [f"item {index}" for index in indices]
    if not where:
        return sentence(said)
    place = ", ".join(where)
    return sentence(f"{place[0].upper()}{place[1:]}: {said[0].lower()}{said[1:]}")


class _Type:
    """One type of a struct's tree: decoded at once where that is short, else part by part."""

    def __init__(self, kind: Any, max_items: int) -> None:
        self._kind = kind
        self._at_once = msgspec.json.Decoder(kind)
        self._array: _Array | None = None
        self._object: _Object | None = None
        for one in _alternatives(kind):
            bare, limits = _without_limits(one)
            if get_origin(bare) is list:
                self._array = _Array(get_args(bare)[0], limits or max_items, max_items)
            elif isinstance(bare, type) and issubclass(bare, Struct):
                self._object = _Object(bare, max_items)

    async def read(self, content: Any, path: str) -> Any:
        """The value; ``path`` is its place in the body, as msgspec writes it."""
        if len(content) > AT_ONCE_BYTES:
            await asyncio.sleep(PAUSE_SECONDS if len(content) > LONG_BYTES else 0)
            first = bytes(memoryview(content)[:1])
            if first == b"[" and self._array is not None:
                return await self._array.read(content, path)
            if first == b"{" and self._object is not None:
                return await self._object.read(content, path)
        try:
            return _placed(lambda: self._at_once.decode(content), path)
        except msgspec.ValidationError as fault:
            if "out of range" not in str(fault) or len(content) > AT_ONCE_BYTES:
                raise
            # A number for which a float has no room, such as 1e999: a reference may be one.
            try:
                value = _pythons(content)
            except ValueError:
                raise fault from None
            return _placed(lambda: msgspec.convert(value, self._kind), path)


class _Array:
    """An array; nothing is read behind its first value too many."""

    def __init__(self, kind: Any, most: int, max_items: int) -> None:
        self._value = _Type(kind, max_items)
        outline: Any = list[Raw]
        if most <= COUNTED_ITEMS:
            # The length of a list is checked when all of it is there, that of a struct's array at each value.
            fields = [(f"value_{place}", Raw, UNSET) for place in range(most)]
            outline = msgspec.defstruct("Array", fields, array_like=True, forbid_unknown_fields=True)
        self._most = most
        self._outline = msgspec.json.Decoder(outline)

    async def read(self, content: Any, path: str) -> list[Any]:
        try:
            outline = self._outline.decode(content)
        except msgspec.ValidationError:  # An array of anything can be nothing but too long.
            raise _too_long(self._most, path) from None
        parts = outline if isinstance(outline, list) else msgspec.structs.astuple(outline)
        values = []
        since_turn = 0
        for place, part in enumerate(parts):
            if part is UNSET:
                break
            since_turn += len(part)
            if since_turn > AT_ONCE_BYTES:
                await asyncio.sleep(0)
                since_turn = 0
            values.append(await self._value.read(part, f"{path}[{place}]"))
        return values


class _Object:
    """A struct, whose members are decoded once, as they were given last."""

    def __init__(self, model: type[Struct], max_items: int) -> None:
        self._model = model
        kinds = get_type_hints(model, include_extras=True)
        self._parts = {name: _Type(kind, max_items) for name, kind in kinds.items()}
        outline = msgspec.defstruct(
            model.__name__,
            [(f.name, Raw) if f.required else (f.name, Raw, UNSET) for f in msgspec.structs.fields(model)],
            forbid_unknown_fields=model.__struct_config__.forbid_unknown_fields,
        )
        self._outline = msgspec.json.Decoder(outline)

    async def read(self, content: Any, path: str) -> Struct:
        parts = msgspec.structs.asdict(_placed(lambda: self._outline.decode(content), path))
        return self._model(
            **{
                name: await self._parts[name].read(part, f"{path}.{name}")
                for name, part in parts.items()
                if part is not UNSET
            }
        )


def _pythons(content: Any) -> Any:
    """What Python's ``json`` reads in it; a number for which a float has no room stays text."""
    return json.loads(bytes(content).decode(), parse_float=float_of)


def _placed(decode: Callable[[], Any], path: str) -> Any:
    """What is decoded; ``path`` is its place in the body, which a fault then names."""
    try:
        return decode()
    except msgspec.ValidationError as fault:
        said, inner = _PLACED.fullmatch(str(fault)).groups("")  # type: ignore[union-attr]
        raise msgspec.ValidationError(f"{said} - at `${path}{inner}`") from None


def _too_long(most: int, path: str) -> msgspec.ValidationError:
    """In msgspec's words for a list whose type has a limit."""
    return msgspec.ValidationError(f"Expected `array` of length <= {most} - at `${path}`")


def _alternatives(kind: Any) -> tuple[Any, ...]:
    bare, _ = _without_limits(kind)
    return get_args(bare) if get_origin(bare) in (Union, types.UnionType) else (kind,)


def _without_limits(kind: Any) -> tuple[Any, int | None]:
    """A type without its annotations, and how many values they allow, if they say so."""
    if get_origin(kind) is not Annotated:
        return kind, None
    bare, *annotations = get_args(kind)
    return bare, next((one.max_length for one in annotations if isinstance(one, Meta)), None)
