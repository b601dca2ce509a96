"""Lets OpenRLHF train on the exact values in a JSON-lines file.

Its own loader gives each column one type: the text ``2024-01-01`` becomes a date and is graded as
``2024-01-01 00:00:00``, 42 in a column with 0.5 becomes 42.0, and the text ``0.50`` in a column with numbers becomes
0.5.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from openrlhf_gtpo.data.table import is_lines, rows


def reading_as_written(prepare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """OpenRLHF's ``prepare_datasets``, changed to read JSON lines by `table.rows`; other sources as before."""

    @functools.wraps(prepare)
    def prepare_datasets(strategy: Any, tokenizer: Any) -> Any:
        import openrlhf.datasets.utils as utils

        load = utils.load_dataset
        data = strategy.args.data

        def load_dataset(kind: str, *args: Any, **kwargs: Any) -> Any:
            path = kwargs.get("data_files")
            if kind == "json" and isinstance(path, str) and Path(path).is_file() and is_lines(Path(path)):
                keys = (data.input_key, data.label_key, getattr(data, "image_key", None))
                if (found := dataset(Path(path), *keys)) is not None:
                    return found
            return load(kind, *args, **kwargs)

        utils.load_dataset = load_dataset
        try:
            return prepare(strategy, tokenizer)
        finally:
            utils.load_dataset = load

    return prepare_datasets


def dataset(path: Path, input_key: str, label_key: str | None, image_key: str | None) -> Any:
    """The columns that training uses, as a split ``train`` of a `datasets.DatasetDict`; None for prompts that Arrow
    cannot store in one column, such as chats that mix texts and pictures.

    Args:
        path: a file of JSON lines.
        input_key: column of the prompt.
        label_key: column of the reference answer, if any.
        image_key: column of the images, if any.

    Raises:
        DataUnusable: as `table.rows`.
    """
    import datasets
    import pyarrow  # type: ignore[import-untyped]

    kept = []
    for row in rows(path, input_key, label_key):
        values = {input_key: row.prompt, "datasource": str(row.values.get("datasource") or "default")}
        if label_key is not None:
            values[label_key] = row.label
        if image_key is not None and row.values.get(image_key) is not None:
            values[image_key] = row.values[image_key]
        kept.append(values)
    if any(isinstance(values[input_key], list) for values in kept):  # then OpenRLHF turns texts into chats too
        for values in kept:
            if isinstance(values[input_key], str):
                values[input_key] = [{"role": "user", "content": values[input_key]}]
    names = (name for values in kept for name in values)
    try:
        columns = pyarrow.table({name: [values.get(name) for values in kept] for name in dict.fromkeys(names)})
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
        return None
    return datasets.DatasetDict({"train": datasets.Dataset(columns)})
