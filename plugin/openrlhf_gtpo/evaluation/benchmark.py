"""A benchmark: prompts with reference answers, from a JSON-lines file."""

from dataclasses import dataclass
from pathlib import Path

from math_reward.json_lines import NoAnswer, NoRow, label_text, object_of
from openrlhf_gtpo.data.json_lines import Unreadable, lines_of
from openrlhf_gtpo.errors import SettingsError


@dataclass(frozen=True)
class Prompt:
    """A question, or a chat that ends with one, and its reference answer."""

    messages: tuple[dict[str, str], ...]
    reference: str


@dataclass(frozen=True)
class Benchmark:
    """A benchmark, named after its file without the ending."""

    name: str
    prompts: tuple[Prompt, ...]


def load(path: Path, input_key: str, label_key: str) -> Benchmark:
    """Read a file of JSON lines, in the form that OpenRLHF trains on: the prompt is a text or a list of chat messages.

    Args:
        path: the file.
        input_key: column of the prompt.
        label_key: column of the reference answer.

    Raises:
        SettingsError: the file cannot be read, or a line has no prompt or reference; the sentence names the line.
    """
    try:
        prompts = tuple(
            _prompt(line.content, f"{path}, line {line.number}", input_key, label_key) for line in lines_of(path)
        )
    except Unreadable as error:
        raise SettingsError(f"--data {path} cannot be read: {error}.") from None
    if not prompts:
        raise SettingsError(f"--data {path} has no prompts.")
    return Benchmark(path.name.removesuffix(".jsonl"), prompts)


def _prompt(line: bytes, place: str, input_key: str, label_key: str) -> Prompt:
    try:
        row = object_of(line)
    except NoRow as error:
        raise SettingsError(f"{place}: it {error.brief}.") from None
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
    try:
        reference = label_text(row[label_key])
    except NoAnswer as kind:
        raise SettingsError(f"{place}: {label_key!r} is {kind}, and has to be a text or a number.") from None
    return Prompt(tuple({"role": m["role"], "content": m["content"]} for m in question), reference)
