"""Decodes the JSON of a body straight into a struct, and says in a sentence what is wrong with it."""

import json
import re
from typing import Any, Generic, TypeVar, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from math_reward.grader import Mode
from math_reward.http.requests import Body, GradeItem, GradeOptions, GradeRequest, RequestItem, Unusable
from math_reward.json_lines import float_of
from math_reward.nearest import no_such, sentence

PYTHONS_BYTES = 2**19
"""A longer body must not hold what Python's ``json`` writes and JSON has not: NaN, infinity, half a surrogate pair.
Python reads this much in at most 30 ms."""

WRAP = 'wrap it: {"items": [{"completion": "...", "reference": "..."}]}'

_PLACED = re.compile(r"(.*?)(?: - at `\$(.*)`)?", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_NO_MODE = re.compile(r"Invalid enum value '(.*)'", re.DOTALL)
_JSON_TYPE = re.compile(rb"application/([^;]+\+)?json *(;.*)?", re.IGNORECASE)

Model = TypeVar("Model", bound=Struct)


class BodyReader(Generic[Model]):
    """Decodes a struct, and checks how many items it has.

    Args:
        model: what a body has to be.
        max_items: how many values each array of it may have, if it has any.
    """

    def __init__(self, model: type[Model], max_items: int = 0) -> None:
        self._model = model
        self._decoder = msgspec.json.Decoder(model)
        self._arrays = [name for name, kind in get_type_hints(model).items() if get_origin(kind) is list]
        self._max_items = max_items

    def read(self, content: bytes | bytearray, content_type: bytes = b"application/json") -> Model:
        """The body as a struct.

        Raises:
            Unusable: it is not sent as JSON, it is not one of the model, or an array has too many values.
        """
        if not _JSON_TYPE.fullmatch(content_type):
            raise Unusable("The body must be a JSON object, sent with Content-Type: application/json.")
        try:
            body = self._decoded(content)
        except msgspec.ValidationError as fault:
            raise Unusable(_sentence_of(fault, self._model)) from None
        except msgspec.DecodeError as fault:
            reason = str(fault).removeprefix("JSON is malformed: ")
            advice = "; write null for NaN, and no half surrogate pairs" if len(content) > PYTHONS_BYTES else ""
            raise Unusable(f"The body is not JSON: {reason[0].lower()}{reason[1:]}{advice}.") from None
        except UnicodeDecodeError:
            raise Unusable("The body is not UTF-8 text.") from None
        except RecursionError:
            raise Unusable("The body is nested too deeply.") from None
        for name in self._arrays:
            if len(getattr(body, name)) > self._max_items:
                raise Unusable(f"Field {name!r}: at most {self._max_items} values are allowed: send several requests.")
        return body

    def _decoded(self, content: bytes | bytearray) -> Model:
        try:
            return self._decoder.decode(content)
        except msgspec.DecodeError as fault:
            invalid = isinstance(fault, msgspec.ValidationError) and "out of range" not in str(fault)
            if invalid or len(content) > PYTHONS_BYTES:
                raise
            # OpenRLHF's own client writes a missing label as NaN, and would give up training at a refusal. A number
            # for which a float has no room, such as 1e999, stays text: a reference may be one.
            try:
                return msgspec.convert(json.loads(bytes(content).decode(), parse_float=float_of), self._model)
            except msgspec.ValidationError:
                raise
            except (ValueError, RecursionError):
                raise fault from None


def _sentence_of(fault: msgspec.ValidationError, model: type[Struct]) -> str:
    """One of msgspec's faults as a sentence that names the item and the field, and what was probably meant."""
    said, path = _PLACED.fullmatch(str(fault)).groups("")  # type: ignore[union-attr]
    if said.startswith("Expected `object`") and not path:
        advice = f"; {WRAP}" if model is GradeRequest else ", such as {...}"
        return f"The body is not a JSON object{advice}."
    names, indices = re.findall(r"\.(\w+)", path), re.findall(r"\[(\d+)\]", path)
    if unknown := _UNKNOWN.fullmatch(said):
        if model is GradeRequest and not names and unknown[1] in GradeItem.__struct_fields__:
            return f"The body is one item: {WRAP}."
        part = {"items": RequestItem, "options": GradeOptions}.get(names[-1], Body) if names else model
        said = no_such("field", unknown[1], part.__struct_fields__)
    elif missing := _MISSING.fullmatch(said):
        names.append(missing[1])
        said = "Field required"
    elif no_mode := _NO_MODE.fullmatch(said):
        said = no_such("mode", no_mode[1], [mode.value for mode in Mode])
    where = [f"item {indices.pop(0)}"] if names[:1] == ["items"] and indices else []
    names = names[len(where) :]
    where += [f"field {'.'.join(names)!r}"] if names else []
    where += [f"item {index}" for index in indices]
    if not where:
        return sentence(said)
    place = ", ".join(where)
    return sentence(f"{place[0].upper()}{place[1:]}: {said[0].lower()}{said[1:]}")


def encode(content: Any) -> bytes:
    """As JSON; half a surrogate pair, which an answer may have, is escaped as Python escapes it."""
    try:
        return msgspec.json.encode(content)
    except UnicodeEncodeError:
        return json.dumps(content).encode()
