"""Lets OpenRLHF train on the exact values in a JSON-lines file.

Its own loader gives each column one type: the text ``2024-01-01`` becomes a date and is graded as
``2024-01-01 00:00:00``, 42 in a column with 0.5 becomes 42.0, and the text ``0.50`` in a column with numbers becomes
0.5.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from math_reward.json_lines import NoAnswer, NoRow, label_text, object_of
from openrlhf_gtpo.data.json_lines import Unreadable, is_lines, lines_of
from openrlhf_gtpo.errors import UserError


class DataUnusable(UserError):
    """A data file cannot be trained on."""


def reading_as_written(prepare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """OpenRLHF's ``prepare_datasets``, changed to read JSON lines by `json_lines`; other sources as before."""

    @functools.wraps(prepare)
    def prepare_datasets(strategy: Any, tokenizer: Any) -> Any:
        import openrlhf.datasets.utils as utils

        load = utils.load_dataset
        data = strategy.args.data

        def load_dataset(kind: str, *args: Any, **kwargs: Any) -> Any:
            path = kwargs.get("data_files")
            if kind == "json" and isinstance(path, str) and Path(path).is_file() and is_lines(Path(path)):
                keys = (data.input_key, data.label_key, getattr(data, "image_key", None))
                if (rows := table(Path(path), *keys)) is not None:
                    return rows
            return load(kind, *args, **kwargs)

        utils.load_dataset = load_dataset
        try:
            return prepare(strategy, tokenizer)
        finally:
            utils.load_dataset = load

    return prepare_datasets


def table(path: Path, input_key: str, label_key: str | None, image_key: str | None) -> Any:
    """The columns that training uses, as a split ``train`` of a `datasets.DatasetDict`; None for prompts that Arrow
    cannot store in one column, such as chats that mix texts and pictures.

    Args:
        path: a file of JSON lines.
        input_key: column of the prompt.
        label_key: column of the reference answer, if any.
        image_key: column of the images, if any.

    Raises:
        DataUnusable: a line is not an object, or has no prompt or no label.
    """
    import datasets
    import pyarrow  # type: ignore[import-untyped]

    rows = []
    try:
        for line in lines_of(path):
            try:
                rows.append(_row(object_of(line.content), input_key, label_key, image_key))
            except NoRow as error:
                raise DataUnusable(f"{path}, line {line.number}: it {error.brief}.") from None
            except NoAnswer as kind:
                raise DataUnusable(f"{path}, line {line.number}: its {label_key!r} is {kind}, not a text.") from None
    except Unreadable as error:
        raise DataUnusable(f"{path} cannot be read: {error}.") from None
    if any(isinstance(row[input_key], list) for row in rows):  # then OpenRLHF turns texts into chats too
        for row in rows:
            if isinstance(row[input_key], str):
                row[input_key] = [{"role": "user", "content": row[input_key]}]
    names = (name for row in rows for name in row)
    try:
        columns = pyarrow.table({name: [row.get(name) for row in rows] for name in dict.fromkeys(names)})
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
        return None
    return datasets.DatasetDict({"train": datasets.Dataset(columns)})


def _row(row: dict[str, Any], input_key: str, label_key: str | None, image_key: str | None) -> dict[str, Any]:
    if row.get(input_key) is None:
        raise NoRow(f"It has no {input_key!r}.", f"has no {input_key!r}")
    kept = {input_key: row[input_key], "datasource": str(row.get("datasource") or "default")}
    if label_key is not None:
        kept[label_key] = label_text(row.get(label_key))
    if image_key is not None and row.get(image_key) is not None:
        kept[image_key] = row[image_key]
    return kept
