"""Formats of well-known data sets: finds the question and the reference answer in a row."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from math_reward.json_lines import NoAnswer
from openrlhf_gtpo.data.table import ANSWER_FIELDS, answer_of, messages_of

QUESTION_KEYS = ("problem", "question", "prompt", "instruction", "input", "query", "Problem", "Question")
REFERENCE_KEYS = ("reward_model", *ANSWER_FIELDS, "Answer")
SOLUTION_KEYS = ("solution", "Solution", "output")
"""Columns of worked solutions, whose answer stands in a box or after ``####``."""


class Format(NamedTuple):
    """A data set, and where the hub has it."""

    what: str
    hub_id: str | None = None
    config: str | None = None
    split: str | None = None


FORMATS = {
    "aime24": Format("AIME 2024, 30 problems", "HuggingFaceH4/aime_2024"),
    "aime25": Format("AIME 2025, 30 problems", "math-ai/aime25"),
    "amc23": Format("AMC 2023, 40 problems", "math-ai/amc23"),
    "math500": Format("MATH-500", "HuggingFaceH4/MATH-500"),
    "math": Format(
        "MATH, whose answers stand in the boxes of solutions", "DigitalLearningGmbH/MATH-lighteval", None, "train"
    ),
    "gsm8k": Format("GSM8K, whose answers end in #### 42", "openai/gsm8k", "main", "train"),
    "dapo17k": Format("DAPO-Math-17k, which repeats each problem a hundred times", "BytedTsinghua-SIA/DAPO-Math-17k"),
    "numina": Format("NuminaMath-1.5, with proofs among its answers", "AI-MO/NuminaMath-1.5"),
    "deepscaler": Format("DeepScaleR-Preview", "agentica-org/DeepScaleR-Preview-Dataset"),
    "skywork": Format("Skywork-OR1, mathematics", "Skywork/Skywork-OR1-RL-Data", None, "math"),
    "bigmath": Format("Big-Math-RL-Verified", "SynthLabsAI/Big-Math-RL-Verified"),
    "openr1": Format("OpenR1-Math-220k", "open-r1/OpenR1-Math-220k", "default"),
    "other": Format("any rows with a question and an answer under usual names, such as verl's parquet files"),
}
"""Names that ``openrlhf-gtpo data prepare`` accepts. The name selects the rows; columns are found by their names."""

_YEAR = {"aime24": "2024", "aime25": "2025"}

# DAPO-Math-17k wraps each problem in instructions of its own, and verl's examples end with one.
_DAPO = re.compile(
    r"^Solve the following math problem step by step\..*?\n\n(?P<question>.*?)\n\nRemember to put your answer.*$",
    re.DOTALL,
)
_VERL = re.compile(
    r"""\s*Let's think step by step and output the final answer (?:after "####"|within \\boxed\{\})\.?\s*$"""
)

_NO_ANSWERS = {"proof", "notfound", "not found", "no answer", "see solution", "see the solution", "none", "n/a", "nan"}
_PROOF = re.compile(
    r"\b(?:q\.?\s?e\.?\s?d|proof|proved|prove that|as desired)\b|\\blacksquare|\\square\s*$", re.IGNORECASE
)
_NO_PROSE = re.compile(r"\$[^$]*\$|\\\(.*?\\\)|\\[a-zA-Z]+|[{}]", re.DOTALL)
SENTENCE = 5
"""Words of prose from which on an answer is a sentence."""


class UnknownFormat(ValueError):
    """A row has no question or no reference answer. The message is a part of a sentence that says which."""


def question_and_reference(
    name: str, row: Mapping[str, Any], input_key: str | None = None, label_key: str | None = None
) -> tuple[str | list[dict[str, Any]], str] | None:
    """The question of a row, a text or a chat, and its reference answer, from the columns that are chosen, if any;
    None for a row that is no part of ``name``.

    Raises:
        UnknownFormat: the row has none.
    """
    if name in _YEAR and row.get("year") is not None:
        year = re.search(r"(?<!\d)\d{4}(?!\d)", str(row["year"]))
        if year is None:
            raise UnknownFormat(f"its year is {row['year']!r}, which is none")
        if year[0] != _YEAR[name]:
            return None
    return _question(row, (input_key,) if input_key else QUESTION_KEYS), _reference(row, label_key)


def kind_of(reference: str) -> str | None:
    """``proof`` or ``sentence`` for a reference answer that no response can be compared with, else None."""
    if reference.strip(" .").lower() in _NO_ANSWERS or _PROOF.search(reference):
        return "proof"
    words = re.findall(r"[^\W\d_]{2,}", _NO_PROSE.sub(" ", reference))
    return "sentence" if len(words) >= SENTENCE else None


def _absent(what: str, row: Mapping[str, Any], keys: Sequence[str], flag: str) -> str:
    """Why a row has none, as a part of a sentence."""
    if held := [key for key in keys if key in row]:
        return f"it has no {what}: its {held[0]!r} holds none"
    columns = ", ".join(map(repr, row)) or "none"
    return f"it has no {what} (looked for {', '.join(keys[:5])}); its columns are {columns}: choose one by {flag}"


def _question(row: Mapping[str, Any], keys: Sequence[str]) -> str | list[dict[str, Any]]:
    value = next((row[key] for key in keys if row.get(key)), None)
    messages = messages_of(value)
    if messages:
        if messages[-1]["role"] != "user" or not isinstance(messages[-1]["content"], str):
            raise UnknownFormat("its chat does not end with a question by the user")
        if len(messages) > 1:
            return messages
        value = messages[0]["content"]
    if not isinstance(value, str) or not value.strip():
        raise UnknownFormat(_absent("question", row, keys, "--input_key"))
    if value is row.get("instruction") and isinstance(row.get("input"), str):  # as in Alpaca's files
        value = f"{value}\n\n{row['input']}"
    wrapped = _DAPO.match(value.strip())
    return _VERL.sub("", wrapped["question"] if wrapped else value).strip()


def _reference(row: Mapping[str, Any], chosen: str | None) -> str:
    keys = (chosen,) if chosen else (*REFERENCE_KEYS, *SOLUTION_KEYS)
    why = _absent("reference answer", row, keys, "--label_key")
    for value in [row[key] for key in keys if key not in SOLUTION_KEYS and row.get(key) not in (None, "", [])]:
        try:
            answer = answer_of(value)
            if text := ((chosen and _of_a_solution(answer)) or answer).rpartition("####")[2].strip():
                return text
        except NoAnswer as kind:
            why = f"its reference answer is {kind}, and has to be a text or a number"
    for solution in [row[key] for key in keys if key in SOLUTION_KEYS and isinstance(row.get(key), str)]:
        if text := _of_a_solution(solution):
            return text
    raise UnknownFormat(why)


def _of_a_solution(text: str) -> str:
    """The answer after ``####``, else in the last box."""
    if "####" in text:
        return text.rpartition("####")[2].strip()
    begin = max((match.end() for match in re.finditer(r"\\(?:boxed|fbox)\s*\{", text)), default=None)
    depth = 1
    for place in range(begin or 0, len(text) if begin else 0):
        depth += {"{": 1, "}": -1}.get(text[place], 0) * (text[place - 1] != "\\")
        if not depth:
            return text[begin:place].strip()
    without_braces = re.findall(r"\\boxed\s+([^\s$.,]+)", text)  # as in some of MATH
    return without_braces[-1] if without_braces else ""
