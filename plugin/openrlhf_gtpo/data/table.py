"""Reads a file of JSON lines into rows of prompt and label, as text, exactly as they are written."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from math_reward.json_lines import NoAnswer, NoRow, NotUTF8, label_text, lines_of, object_of
from openrlhf_gtpo.errors import UserError


class DataUnusable(UserError):
    """A data file cannot be trained on; one sentence names the file, the line and the fix."""


@dataclass(frozen=True)
class Row:
    """One line of a file."""

    line: int
    """From 1."""
    prompt: Any
    """A text, or a list of chat messages."""
    label: str | None
    """The reference answer, with the digits that a number is written with; None without a column of labels."""
    values: dict[str, Any]
    """The whole object."""


def is_lines(path: Path) -> bool:
    """Whether a file is JSON lines, by its name or its first character: a .json file may also be an array, which
    begins with a bracket."""
    if path.suffix == ".jsonl":
        return True
    if path.suffix != ".json":
        return False
    with path.open("rb") as file:
        return file.read(64).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] != b"["


def objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The line number and the object of each line that is not blank.

    Raises:
        DataUnusable: the file cannot be read, or a line is no object.
    """
    try:
        with path.open("rb") as file:
            for line in lines_of(file):
                try:
                    yield line.number, object_of(line.content)
                except NoRow as error:
                    raise DataUnusable(f"{path}, line {line.number}: it {error.brief}: fix or remove it.") from None
    except NotUTF8 as error:
        raise DataUnusable(f"{path} cannot be read: {error}: save it as UTF-8.") from None
    except OSError as error:
        raise DataUnusable(f"{path} cannot be read: {error.strerror}: fix the path or its permissions.") from None


def rows(path: Path, input_key: str, label_key: str | None) -> Iterator[Row]:
    """The rows of a file of JSON lines.

    Args:
        path: the file.
        input_key: column of the prompt.
        label_key: column of the reference answer, if any.

    Raises:
        DataUnusable: the file cannot be read or is empty, or a line lacks a prompt or a label.
    """
    number = 0
    for number, values in objects(path):
        prompt, label = _prompt(path, number, values, input_key), None
        if label_key is not None:
            if label_key not in values:
                raise _missing(path, number, values, label_key, "--data.label_key")
            try:
                label = label_text(values[label_key])
            except NoAnswer as kind:
                raise DataUnusable(
                    f"{path}, line {number}: its {label_key!r} is {kind}: give the reference answer as a text."
                ) from None
            if not label.strip():
                raise DataUnusable(f"{path}, line {number}: its {label_key!r} is empty: give a reference answer.")
        yield Row(number, prompt, label, values)
    if not number:
        raise DataUnusable(f"{path} is empty: give a file with one JSON object per line.")


def _prompt(path: Path, number: int, values: dict[str, Any], key: str) -> Any:
    prompt = values.get(key)
    if prompt is None:
        raise _missing(path, number, values, key, "--data.input_key")
    is_chat = isinstance(prompt, list) and all(isinstance(m, dict) and {"role", "content"} <= set(m) for m in prompt)
    if not isinstance(prompt, str) and not is_chat:
        raise DataUnusable(
            f"{path}, line {number}: its {key!r} is neither a text nor a list of chat messages: write one of these."
        )
    if not (prompt.strip() if isinstance(prompt, str) else prompt):
        raise DataUnusable(f"{path}, line {number}: its {key!r} is empty: give a prompt, or remove the line.")
    return prompt


def _missing(path: Path, number: int, values: dict[str, Any], key: str, flag: str) -> DataUnusable:
    has = ", ".join(map(repr, values)) or "none"
    return DataUnusable(f"{path}, line {number}: it has no {key!r}: name the column by {flag} (there are {has}).")
