"""The rows of any data set as prompts and labels: for training, the checks before it, and evaluations."""

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from math_reward.json_lines import WHOLE_FLOATS, NoAnswer, label_text
from openrlhf_gtpo.data.sources import Columns, DataUnusable, Place, records

ANSWER_FIELDS = ("ground_truth", "answer", "final_answer", "label", "reference", "gold", "target", "expected_answer")
"""Names of a reference answer, as fields of an object too."""
LIST_OF_TEXTS = re.compile(r"""\s*\[\s*(["']).*\1\s*,?\s*\]\s*""", re.DOTALL)

CHAT = re.compile(r"""\s*\[\s*\{\s*["'](?:role|content)["']\s*:""")
ASKING = ("user", "tool", "function", "ipython", "observation")
"""Roles of a chat's last message that a model answers."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a data set."""

    place: Place
    prompt: Any
    """A text, or a list of chat messages."""
    label: str | None
    """The reference answer, with the digits that a number is written with; None without a column of labels."""
    values: dict[str, Any]
    """The columns that were read."""


def rows(
    name: str, input_key: str, label_key: str | None, more: Sequence[str] = (), split: str | None = "train"
) -> Iterator[Row]:
    """The rows of a data set.

    Args:
        name: of `sources.records`.
        input_key: column of the prompt.
        label_key: column of the reference answer, if any.
        more: columns of which `Row.values` has those that there are.
        split: as in `sources.records`.

    Raises:
        DataUnusable: it cannot be read or is empty, or a row lacks a prompt or a label.
    """
    place = None
    columns = Columns([key for key in (input_key, label_key) if key is not None], more)
    for place, values in records(name, columns, split):
        prompt, label = _prompt(place, values, input_key), None
        if label_key is not None:
            if label_key not in values:
                raise _missing(place, values, label_key, "--data.label_key")
            try:
                label = answer_of(values[label_key])
            except NoAnswer as kind:
                raise DataUnusable(
                    f"{place}: its {label_key!r} is {kind}: give the reference answer as a text, or leave such rows "
                    "out by `openrlhf-gtpo data prepare other --drop-ungradable`."
                ) from None
        yield Row(place, prompt, label, values)
    if place is None:
        raise DataUnusable(f"{name} is empty: give one with a row for each prompt.")


def answer_of(value: Any) -> str:
    """The reference answer in a value, as text.

    An object has it in one of its `ANSWER_FIELDS`, as verl's ``reward_model`` does in ``ground_truth``, unless there
    are lists or objects beside it, as where a task has more to check; a list of one is its element, and so is the text
    ``["3"]``.

    Raises:
        NoAnswer: there is none; the message is half a sentence that says what it is.
    """
    while True:
        if isinstance(value, str) and LIST_OF_TEXTS.fullmatch(value) and (found := _list_in(value)) is not None:
            value = found
        if isinstance(value, Mapping):
            named = [value[name] for name in ANSWER_FIELDS if value.get(name) is not None]
            if not named:
                raise NoAnswer(f"an object without an answer (its fields are {', '.join(map(str, value)) or 'none'})")
            if value.get("ground_truth") is None and any(
                isinstance(part, list | dict) for part in value.values() if part is not named[0]
            ):
                raise NoAnswer(f"an object with more than an answer (its fields are {', '.join(map(str, value))})")
            value = named[0]
        elif isinstance(value, list | tuple):
            if len(value) != 1:
                raise NoAnswer(f"a list of {len(value)}")
            value = value[0]
        else:
            break
    if isinstance(value, Decimal):
        value = f"{value:f}"
    if isinstance(value, float) and abs(value) >= WHOLE_FLOATS:
        raise NoAnswer(f"the number {value}, which has lost digits")
    if not (text := label_text(value)).strip():
        raise NoAnswer("empty")
    return text


def _list_in(text: str) -> list[Any] | None:
    for read in (json.loads, ast.literal_eval):
        try:
            return found if isinstance(found := read(text), list) else None
        except (ValueError, SyntaxError):
            continue
    return None


def _prompt(place: Place, values: dict[str, Any], key: str) -> Any:
    prompt = values.get(key)
    if prompt is None:
        raise _missing(place, values, key, "--data.input_key")
    if isinstance(prompt, str) and CHAT.match(prompt):  # as a cell of a file without lists has it
        prompt = _list_in(prompt) or prompt
    asked = prompt.strip() if isinstance(prompt, str) else messages_of(prompt)
    if asked is None:
        raise DataUnusable(f"{place}: its {key!r} is neither a text nor a list of chat messages: write one of these.")
    last = asked[-1] if isinstance(asked, list) and asked else None
    if not asked or (last and not str(last["content"] or "").strip()):
        raise DataUnusable(f"{place}: its {key!r} is empty: give a prompt, or remove the {place.kind}.")
    if last and last["role"] not in ASKING:
        raise DataUnusable(
            f"{place}: its {key!r} ends with a message of {last['role']!r}, and an answer follows one of the user: "
            "leave that message out, or rename its role."
        )
    return asked if isinstance(asked, list) else prompt


def messages_of(value: Any) -> list[dict[str, Any]] | None:
    """A list of chat messages, without the fields that a file with columns fills with null; None if it is none."""
    if not isinstance(value, list) or not all(isinstance(message, Mapping) for message in value):
        return None
    messages = [{name: part for name, part in message.items() if part is not None} for message in value]
    return messages if all({"role", "content"} <= set(message) for message in messages) else None


def _missing(place: Place, values: dict[str, Any], key: str, flag: str) -> DataUnusable:
    if key in values:
        return DataUnusable(f"{place}: its {key!r} is null: give one, or remove the {place.kind}.")
    has = ", ".join(map(repr, values)) or "none"
    return DataUnusable(f"{place}: it has no {key!r}: name the column by {flag} (there are {has}).")
