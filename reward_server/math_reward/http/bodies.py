"""Decodes the JSON of a body straight into a struct."""

import json
import re
from typing import Any, Generic, TypeVar, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from math_reward.http.requests import GradeItem, GradeRequest, Unusable, WrongMediaType
from math_reward.json_lines import float_of
from math_reward.nearest import nearest

PYTHONS_BYTES = 2**19
"""A longer body must not hold what Python's ``json`` writes and JSON has not: NaN, infinity, half a surrogate pair.
Python reads this much in at most 30 ms."""

SHOWN_CHARACTERS = 300
"""How much of a fault a sentence repeats: it may hold a name of any length."""

WRAP = 'wrap it: {"items": [{"completion": "...", "reference": "..."}]}'
# What msgspec says of an item, or of a list of them, that stands where the request should.
_OF_ONE_ITEM = {
    "Object missing required field `items`",
    "Expected `object`, got `array`",
    *(f"Object contains unknown field `{name}`" for name in GradeItem.__struct_fields__),
}

_UNKNOWN = re.compile(r"Object contains unknown field `([^`]*)`")
# What others call the fields of an item.
_CALLED = {
    **dict.fromkeys(("answer", "label", "gold", "ground_truth", "solution", "target", "expected"), "reference"),
    **dict.fromkeys(("response", "output", "prediction", "generation", "text", "content"), "completion"),
    **dict.fromkeys(("question", "problem", "query", "instruction"), "prompt"),
}

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
            WrongMediaType: it is not sent as JSON.
            Unusable: it is not one of the model, or an array has too many values.
        """
        if not _JSON_TYPE.fullmatch(content_type):
            raise WrongMediaType("The body must be a JSON object, sent with Content-Type: application/json.")
        try:
            body = self._decoded(content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
            # msgspec says what is wrong and where: "Expected `str`, got `int` - at `$.items[0].completion`".
            said = str(fault)[:SHOWN_CHARACTERS]
            advice = f"; {WRAP}" if self._model is GradeRequest and said in _OF_ONE_ITEM else _advice(said)
            raise Unusable(f"The body cannot be used: {said}{advice}.") from None
        for name in self._arrays:
            if len(getattr(body, name)) > self._max_items:
                raise Unusable(f"At most {self._max_items} {name} are allowed: send several requests.")
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


def _advice(said: str) -> str:
    """What a field is called here, for one that other services call otherwise or that is mistyped."""
    field = _UNKNOWN.match(said)
    if field is None or field[1] in GradeItem.__struct_fields__:
        return ""
    meant = _CALLED.get(field[1].lower()) or next(iter(nearest(field[1], GradeItem.__struct_fields__)), None)
    return f"; the {meant} is called `{meant}`" if meant else ""


def encode(content: Any) -> bytes:
    """As JSON; half a surrogate pair, which an answer may have, is escaped as Python escapes it."""
    try:
        return msgspec.json.encode(content)
    except UnicodeEncodeError:
        return json.dumps(content).encode()
