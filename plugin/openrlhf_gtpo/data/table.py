"""The rows of any data set as prompts and labels: for training, the checks before it, and evaluations."""

from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from math_reward.json_lines import NoAnswer
from openrlhf_gtpo.data.formats import BESIDE, UnknownFormat, absent, answer_of, prompt_of
from openrlhf_gtpo.data.sources import Columns, DataUnusable, Place, prepared_by, records
from openrlhf_gtpo.errors import SettingsError


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
    name: str,
    input_key: str,
    label_key: str | None,
    more: Sequence[str] = (),
    split: str | None = "train",
    flags: str = "--data.",
) -> Iterator[Row]:
    """The rows of a data set.

    Args:
        name: of `sources.records`.
        input_key: column of the prompt.
        label_key: column of the reference answer, if any.
        more: columns of which `Row.values` has those that there are.
        split: as in `sources.records`.
        flags: how the command's flags begin that name the columns.

    Raises:
        DataUnusable: it cannot be read or is empty, or a row lacks a prompt or a label.
    """
    place = None
    columns = Columns([key for key in (input_key, label_key) if key is not None], [*more, *BESIDE])
    for place, values in records(name, columns, split):
        try:
            prompt, answered = prompt_of(values, (input_key,), f"{flags}input_key")
            if answered is not None:
                raise UnknownFormat(
                    f"its {input_key!r} ends with a message of 'assistant', which answers it itself: leave that out"
                )
            label = None if label_key is None else _label(values, label_key, f"{flags}label_key")
        except UnknownFormat as error:
            if label_key is None:  # without which nothing can be prepared
                raise DataUnusable(f"{place}: {error}.") from None
            there = (key if key in values else None for key in (input_key, label_key))
            raise DataUnusable(f"{place}: {error}, or run {prepared_by(name, split, *there)}.") from None
        yield Row(place, prompt, label, values)
    if place is None:
        raise DataUnusable(f"{name} is empty: give one with a row for each prompt.")


def _label(values: dict[str, Any], key: str, flag: str) -> str:
    if key not in values:
        raise absent("reference answer", values, (key,), flag)
    try:
        return answer_of(values[key])
    except NoAnswer as kind:
        raise UnknownFormat(f"its {key!r} is {kind}: give the reference answer as a text") from None


def first_rows(name: str, args: Namespace, split: str | None, count: int | None) -> list[Row]:
    """The rows of a data set by the ``--input_key`` and ``--label_key`` of a command that samples; so many at most.

    Raises:
        SettingsError: they cannot be read.
    """
    try:
        return list(islice(rows(name, args.input_key, args.label_key, split=split, flags="--"), count))
    except DataUnusable as error:
        raise SettingsError(str(error)) from None
