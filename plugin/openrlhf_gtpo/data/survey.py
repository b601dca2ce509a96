"""Reads a JSON-lines file of prompts and labels once, and lists the lines that training cannot use."""

import hashlib
import json
from array import array
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from math_reward.json_lines import NoAnswer, NoRow, label_text, object_of
from openrlhf_gtpo.data.json_lines import lines_of


@dataclass
class Survey:
    """The rows and faults of a file. Lists hold line numbers, counted from 1."""

    rows: int = 0
    """Lines that are not blank."""
    columns: tuple[str, ...] = ()
    """The keys of the first row."""
    offsets: "array[int]" = field(default_factory=lambda: array("Q"))
    lines: "array[int]" = field(default_factory=lambda: array("Q"))
    """Byte offset and line number of each row with a usable prompt and label."""
    bad_rows: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Fault of a row or its prompt -> lines."""
    bad_labels: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Fault of a label -> lines."""
    repeated: list[int] = field(default_factory=list)
    """Lines whose prompt an earlier line has too."""
    contradictory: list[int] = field(default_factory=list)
    """Those of `repeated` with another label."""


@dataclass(frozen=True)
class Row:
    """One line: a text or chat messages as prompt, and the label as training hands it on."""

    line: int
    prompt: Any
    label: str


def survey(path: Path, input_key: str, label_key: str) -> Survey:
    """Look at every line.

    Raises:
        Unreadable: the file cannot be read.
    """
    facts = Survey()
    seen: dict[bytes, bytes] = {}
    for line, offset, content in lines_of(path):
        facts.rows += 1
        _look(facts, seen, line, offset, content, input_key, label_key)
    return facts


def _look(
    facts: Survey, seen: dict[bytes, bytes], line: int, offset: int, content: bytes, input_key: str, label_key: str
) -> None:
    try:
        row = object_of(content)
    except NoRow as error:
        facts.bad_rows[error.brief].append(line)
        return
    facts.columns = facts.columns or tuple(row)
    bad_prompt = _prompt_fault(row.get(input_key), input_key)
    if bad_prompt:
        facts.bad_rows[bad_prompt].append(line)
    label = row.get(label_key)
    bad_label = _label_fault(label, label_key)
    if bad_label:
        facts.bad_labels[bad_label].append(line)
    if bad_prompt or bad_label:
        return
    try:
        prompt, answer = _digest(row[input_key]), _digest(label_text(label))
    except UnicodeEncodeError:
        facts.bad_rows["has half of a character, as \\ud83d is"].append(line)
        return
    facts.offsets.append(offset)
    facts.lines.append(line)
    if prompt not in seen:
        seen[prompt] = answer
        return
    facts.repeated.append(line)
    if seen[prompt] != answer:
        facts.contradictory.append(line)


def _prompt_fault(prompt: Any, key: str) -> str | None:
    if prompt is None:
        return f"has no {key!r}"
    if isinstance(prompt, str):
        return None if prompt.strip() else f"has an empty {key!r}"
    if not isinstance(prompt, list) or not all(
        isinstance(message, dict) and {"role", "content"} <= set(message) for message in prompt
    ):
        return f"has a {key!r} that is neither a text nor a list of chat messages"
    return None if prompt else f"has an empty {key!r}"


def _label_fault(label: Any, key: str) -> str | None:
    if label is None:
        return f"has no {key!r}"
    try:
        text = label_text(label)
    except NoAnswer as kind:
        return f"has a {key!r} that is {kind}, not a text"
    return None if text.strip() else f"has an empty {key!r}"


def _digest(value: Any) -> bytes:
    return hashlib.blake2b(json.dumps(value, sort_keys=True, ensure_ascii=False).encode(), digest_size=16).digest()


def read_rows(path: Path, facts: Survey, most: int, input_key: str, label_key: str) -> Iterator[Row]:
    """The usable rows; if there are more than ``most``, that many, spread over the file."""
    n = len(facts.offsets)
    spread = range(n) if n <= most else [i * (n - 1) // (most - 1) for i in range(most)]  # first and last among them
    with path.open("rb") as file:
        for i in spread:
            file.seek(facts.offsets[i])
            row = object_of(file.readline())
            yield Row(facts.lines[i], row[input_key], label_text(row[label_key]))
