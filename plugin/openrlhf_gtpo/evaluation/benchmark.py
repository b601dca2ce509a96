"""A benchmark: prompts with reference answers, from a JSON-lines file."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openrlhf_gtpo.errors import SettingsError
from openrlhf_gtpo.json_lines import lines_of

__all__ = ["Benchmark", "Prompt", "load"]


@dataclass(frozen=True)
class Prompt:
    """A question, or a chat that ends with one, and its reference answer."""

    messages: tuple[dict[str, str], ...]
    reference: str


@dataclass(frozen=True)
class Benchmark:
    """Its name is that of its file, without the ending."""

    name: str
    prompts: tuple[Prompt, ...]


def load(path: Path, input_key: str, label_key: str) -> Benchmark:
    """Read a file such as OpenRLHF trains on: an object a line, with a text or a list of chat messages as prompt.

    Raises:
        SettingsError: the file cannot be read, or a line lacks what it needs; one sentence that names the line.
    """
    try:
        lines = lines_of(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SettingsError(f"--data {path} cannot be read: {reason}.") from None
    prompts = tuple(
        _prompt(line, f"{path}, line {number}", input_key, label_key)
        for number, line in enumerate(lines, 1)
        if line.strip()
    )
    if not prompts:
        raise SettingsError(f"--data {path} has no prompts.")
    return Benchmark(path.name.removesuffix(".jsonl"), prompts)


def _prompt(line: str, place: str, input_key: str, label_key: str) -> Prompt:
    try:
        row: Any = json.loads(line)
    except ValueError:
        row = None
    if not isinstance(row, dict):
        raise SettingsError(f"{place}: it is no JSON object.")
    for flag, key in (("--input_key", input_key), ("--label_key", label_key)):
        if row.get(key) is None:
            raise SettingsError(f"{place}: it has no {key!r}; name the column by {flag}.")
    question = row[input_key]
    if isinstance(question, str):
        question = [{"role": "user", "content": question}]
    if not isinstance(question, list) or not all(
        isinstance(m, dict) and {"role", "content"} <= set(m) for m in question
    ):
        raise SettingsError(f"{place}: {input_key!r} is neither a text nor a list of chat messages.")
    return Prompt(tuple({"role": m["role"], "content": m["content"]} for m in question), str(row[label_key]))
