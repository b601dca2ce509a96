"""A benchmark: prompts with reference answers, from a JSON-lines file."""

from dataclasses import dataclass
from pathlib import Path

from openrlhf_gtpo.data.json_lines import Unreadable
from openrlhf_gtpo.data.survey import read_rows, survey
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
        facts = survey(path, input_key, label_key)
    except Unreadable as error:
        raise SettingsError(f"--data {path} cannot be read: {error}.") from None
    for faults, flag in ((facts.bad_rows, "--input_key"), (facts.bad_labels, "--label_key")):
        for fault, lines in faults.items():
            column = f"; name the column by {flag}" if fault.startswith("has no") else ""
            raise SettingsError(f"{path}, line {lines[0]}: it {fault}{column}.")
    if not facts.rows:
        raise SettingsError(f"--data {path} has no prompts.")
    rows = read_rows(path, facts, facts.rows, input_key, label_key)
    return Benchmark(path.name.removesuffix(".jsonl"), tuple(Prompt(_messages(row.prompt), row.label) for row in rows))


def _messages(prompt: str | list[dict[str, str]]) -> tuple[dict[str, str], ...]:
    chat = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    return tuple({"role": message["role"], "content": message["content"]} for message in chat)
