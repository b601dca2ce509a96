"""Formats of well-known data sets: finds the question and the reference answer in a row."""

import re
from collections.abc import Mapping
from typing import Any

from math_reward.json_lines import NoAnswer, label_text

QUESTION_KEYS = ("problem", "question", "prompt", "input", "query", "Problem", "Question")
REFERENCE_KEYS = (
    "answer",
    "label",
    "ground_truth",
    "reference",
    "gold",
    "final_answer",
    "target",
    "Answer",
    "solution",
)

FORMATS = {
    "aime24": "AIME 2024, 30 problems",
    "aime25": "AIME 2025, 30 problems",
    "amc23": "AMC 2023, 40 problems",
    "math500": "MATH-500",
    "gsm8k": "GSM8K, whose answers end in #### 42",
    "dapo17k": "DAPO-Math-17k, which repeats each problem a hundred times",
    "other": "any rows with a question and an answer under usual names",
}
"""Names that ``openrlhf-gtpo data prepare`` accepts. The name selects the rows; columns are found by their names."""

_YEAR = {"aime24": 2024, "aime25": 2025}

# DAPO-Math-17k wraps each problem in instructions of its own.
_DAPO = re.compile(
    r"^Solve the following math problem step by step\..*?\n\n(?P<question>.*?)\n\nRemember to put your answer.*$",
    re.DOTALL,
)


class UnknownFormat(ValueError):
    """A row has no question or no reference answer. The message is a part of a sentence that says which."""


def question_and_reference(name: str, row: Mapping[str, Any]) -> tuple[str, str] | None:
    """The question and the reference answer of one row; None for a row that is not part of ``name``.

    Raises:
        UnknownFormat: the row has none.
    """
    if name in _YEAR and "year" in row and int(row["year"]) != _YEAR[name]:
        return None
    return _question(row), _reference(row)


def _question(row: Mapping[str, Any]) -> str:
    value = next((row[key] for key in QUESTION_KEYS if row.get(key)), None)
    if isinstance(value, list):  # a chat: its last message by the user
        turns = [turn.get("content") for turn in value if isinstance(turn, Mapping) and turn.get("role") == "user"]
        value = turns[-1] if turns else None
    if not isinstance(value, str) or not value.strip():
        raise UnknownFormat(f"it has no question (looked for {', '.join(QUESTION_KEYS[:5])})")
    wrapped = _DAPO.match(value.strip())
    return (wrapped["question"] if wrapped else value).strip()


def _reference(row: Mapping[str, Any]) -> str:
    model = row.get("reward_model")
    if isinstance(model, Mapping) and model.get("ground_truth") is not None:
        value = model["ground_truth"]
    else:
        value = next((row[key] for key in REFERENCE_KEYS if row.get(key) is not None), None)
    try:
        text = "" if value is None else label_text(value).rpartition("####")[2].strip()
    except NoAnswer as kind:
        raise UnknownFormat(f"its reference answer is {kind}, and has to be a text or a number") from None
    if not text:
        raise UnknownFormat(f"it has no reference answer (looked for {', '.join(REFERENCE_KEYS[:6])})")
    return text
