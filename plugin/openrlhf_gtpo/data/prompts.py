"""The prompts of OpenRLHF's trainer and evaluations, read by `table.rows` in place of OpenRLHF's loader."""

import functools
import itertools
import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from openrlhf_gtpo.data.sources import is_local, names_of
from openrlhf_gtpo.data.table import rows
from openrlhf_gtpo.data.tokenizer import Lengths, reads_text_alone
from openrlhf_gtpo.host import replace


class Prompts:
    """What OpenRLHF's ``PromptDataset`` is made of: rows with the keys that it asks for, texts beside chats with
    pictures, which no column of a table could hold."""

    def __init__(self, rows: list[bytes]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(pickle.loads, self._rows)

    def select(self, places: Iterable[int]) -> "Prompts":
        return Prompts([self._rows[place] for place in places])


def reading_as_written(prepare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """OpenRLHF's ``prepare_datasets``, which then has its prompts from `blended`."""

    @functools.wraps(prepare)
    def prepare_datasets(strategy: Any, tokenizer: Any) -> Any:
        import openrlhf.datasets.prompts_dataset as prompts_dataset
        import openrlhf.trainer.ppo_trainer as ppo_trainer

        listed = (*names_of(strategy.args.data.prompt_dataset), *names_of(strategy.args.eval.dataset))
        if strategy.args.use_ms and not all(map(is_local, listed)):  # OpenRLHF itself asks ModelScope
            return prepare(strategy, tokenizer)
        with replace(ppo_trainer, blending_datasets=functools.partial(blended, tokenizer=tokenizer)):
            if not reads_text_alone(tokenizer):
                return prepare(strategy, tokenizer)
            # For a model without pictures "<image>" is a word like others, and no part of a list.
            with replace(prompts_dataset, _str_to_content_list=lambda text: text):
                return prepare(strategy, tokenizer)

    return prepare_datasets


def blended(
    listed: str,
    probabilities: str | None,
    strategy: Any,
    seed: int = 42,
    max_count: int = 10**8,
    dataset_split: str = "train",
    *,
    tokenizer: Any,
) -> Prompts:
    """OpenRLHF's ``blending_datasets``.

    Raises:
        DataUnusable: as `table.rows`, or a prompt leaves no room for its response.
    """
    args, found, sizes = strategy.args, list[bytes](), list[int]()
    for name in names_of(listed):
        before = len(found)
        found += map(pickle.dumps, _rows(name, args, dataset_split, tokenizer, max_count))
        sizes.append(len(found) - before)
    if probabilities is None:
        return Prompts(found)
    import datasets

    ends = itertools.accumulate(sizes)
    parts = [
        datasets.Dataset.from_dict({"row": range(end - size, end)}) for size, end in zip(sizes, ends, strict=True)
    ]
    shares = [float(share) for share in probabilities.split(",")]
    order = datasets.interleave_datasets(parts, shares, seed=seed, stopping_strategy="all_exhausted")
    return Prompts(found).select(order["row"])


def _rows(name: str, args: Any, split: str, loaded: Any, most: int) -> Iterator[dict[str, Any]]:
    data = args.data
    lengths = Lengths(loaded, data.max_len, args.rollout.max_new_tokens, data.apply_chat_template, data.input_template)
    found = rows(name, data.input_key, data.label_key, (data.image_key, "datasource"), split)
    for row in itertools.islice(found, most):
        lengths.add(row.place, row.prompt)
        values = {data.input_key: row.prompt, "datasource": str(row.values.get("datasource") or "default")}
        if data.label_key is not None:
            values[data.label_key] = row.label
        if (images := row.values.get(data.image_key)) is not None:
            values[data.image_key] = list(map(_image, images)) if isinstance(images, list) else _image(images)
        yield values
    lengths.end()


def _image(value: Any) -> Any:
    """A path, or the bytes of an image as a file with columns has them."""
    return value.get("bytes") or value.get("path") if isinstance(value, dict) else value
