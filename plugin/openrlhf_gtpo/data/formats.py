"""What stands in a row of a raw data set: its prompt and its reference answer. All who read rows ask here: `table` for
the columns that flags name, `data prepare` for those that have the usual names."""

import ast
import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from math_reward.json_lines import WHOLE_FLOATS, NoAnswer, label_text

QUESTION_KEYS = ("problem", "question", "prompt", "instruction", "input", "query", "Problem", "Question")
CHAT_KEYS = ("messages", "conversations")
"""Columns of chats that have the answer too, as OpenAI and ShareGPT name them."""
ANSWER_FIELDS = ("ground_truth", "answer", "final_answer", "label", "reference", "gold", "target", "expected_answer")
"""Names of a reference answer, as fields of an object too."""
REFERENCE_KEYS = ("reward_model", *ANSWER_FIELDS, "Answer")
SOLUTION_KEYS = ("solution", "Solution", "output")
"""Columns of worked solutions, whose answer stands in a box or after ``####``."""
BESIDE = ("instruction", "input", "choices", "options")
"""Columns that belong to a prompt in another one."""
SHAREGPT = {"human": "user", "gpt": "assistant"}
"""Its names of roles, where others have other ones."""
ASKING = ("user", "tool", "function", "ipython", "observation")
"""Roles of a chat's last message that a model answers."""


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
    "other": Format("any rows with a question and an answer under usual names, verl's and ShareGPT's chats too"),
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
_NUMBER = re.compile(r"-?[\d,]*\.?\d+")
_POINTER = re.compile(r"\W*([A-Za-z]|\d)\W*")
_LETTER = re.compile(r"^\W*[A-Za-z][).:]\s*")
_LIST_OF_TEXTS = re.compile(r"""\s*\[\s*(["']).*\1\s*,?\s*\]\s*""", re.DOTALL)
_CHAT = re.compile(r"""\s*\[\s*\{\s*["'](?:role|content|from)["']\s*:""")

Chat = list[dict[str, Any]]


class UnknownFormat(ValueError):
    """A row has no prompt or no reference answer; the message goes on behind the row's place."""


def question_and_reference(
    name: str, row: Mapping[str, Any], input_key: str | None = None, label_key: str | None = None
) -> tuple[str | Chat, str] | None:
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
    prompt, answered = prompt_of(row, (input_key,) if input_key else (*QUESTION_KEYS, *CHAT_KEYS), "--input_key")
    if isinstance(prompt, list):
        last = prompt[-1] | {"content": _text(prompt[-1]["content"])}
        if last["role"] != "user" or last["content"] is None:
            raise UnknownFormat("its chat does not end with a question by the user, which is a text")
        prompt = [*prompt[:-1], last] if len(prompt) > 1 else last["content"]
    if isinstance(prompt, str):
        wrapped = _DAPO.match(prompt.strip())
        prompt = _VERL.sub("", wrapped["question"] if wrapped else prompt).strip()
    reference = _reference(row, label_key, answered)
    if why := left_out(row, input_key, prompt, reference):
        raise UnknownFormat(why)
    return prompt, reference


def prompt_of(row: Mapping[str, Any], keys: Sequence[str], flag: str) -> tuple[str | Chat, str | None]:
    """The prompt in the first of these columns that has one, a text or a chat up to the last question; and the text
    with which the chat answers that itself.

    Raises:
        UnknownFormat: there is none. The sentence has the flag that names the column.
    """
    key = next((key for key in keys if row.get(key)), None)
    if key is None:
        raise absent("prompt", row, keys, flag)
    value = row[key]
    if isinstance(value, str) and _CHAT.match(value):  # as a cell of a file without lists has it
        value = _list_in(value) or value
    prompt, answered = (value if isinstance(value, str) else _messages(value)), None
    if prompt is None:
        raise UnknownFormat(f"its {key!r} is neither a text nor a list of chat messages: write one of these")
    if isinstance(prompt, list) and len(prompt) > 1 and prompt[-1]["role"] == "assistant":
        said = _text(prompt[-1]["content"]) or ""
        if key in CHAT_KEYS or _of_a_solution(said):  # else it may begin the answer
            prompt, answered = prompt[:-1], said
    last = prompt[-1] if isinstance(prompt, list) else {"role": "user", "content": prompt}
    if not str(last["content"] or "").strip():
        raise UnknownFormat(f"its {key!r} is empty: give a prompt, or leave the row out")
    if last["role"] not in ASKING:
        raise UnknownFormat(
            f"its {key!r} ends with a message of {last['role']!r}, and an answer follows one of the user: leave that "
            "message out, or rename its role"
        )
    if key == "instruction" and prompt is value and isinstance(more := row.get("input"), str) and more.strip():
        prompt = f"{value}\n\n{more}"  # as in Alpaca's files
    return prompt, answered


def left_out(row: Mapping[str, Any], key: str | None, prompt: str | Chat, answer: str | None) -> str | None:
    """What a row has and its prompt lacks: Alpaca's instruction, or the choices of which its answer is the letter or
    the place, as in MMLU."""
    if key == "input" and row.get("instruction"):
        return "its 'instruction' is left out: name that column, and it is sent with the input"
    choices = row.get("choices") or row.get("options") or ()
    texts = choices.get("text") if isinstance(choices, Mapping) else choices
    if not isinstance(texts, list) or not texts or answer in texts or not _POINTER.fullmatch(answer or ""):
        return None
    if any(_LETTER.sub("", str(text)).strip() in str(prompt) for text in texts):
        return None
    return f"its answer {answer!r} stands for one of its choices, which its prompt leaves out: write them into it"


def answer_of(value: Any) -> str:
    """The reference answer in a value, as text.

    An object has it in one of its `ANSWER_FIELDS`, as verl's ``reward_model`` does in ``ground_truth``, unless there
    are lists or objects beside it, as where a task has more to check; a list of one is its element, and so is the text
    ``["3"]``.

    Raises:
        NoAnswer: there is none; the message is half a sentence that says what it is.
    """
    while True:
        if isinstance(value, str) and _LIST_OF_TEXTS.fullmatch(value) and (found := _list_in(value)) is not None:
            value = found
        if isinstance(value, Mapping):
            named = [value[name] for name in ANSWER_FIELDS if value.get(name) is not None]
            if not named:
                raise NoAnswer(f"an object without an answer (its fields are {', '.join(map(str, value)) or 'none'})")
            if value.get("ground_truth") is None and any(
                isinstance(part, list | dict) for part in value.values() if part is not named[0]
            ):
                raise NoAnswer(f"an object with more than an answer (its fields are {', '.join(map(str, value))})")
            value = named[0]
        elif isinstance(value, list | tuple):
            if len(value) != 1:
                raise NoAnswer(f"a list of {len(value)}")
            value = value[0]
        else:
            break
    if isinstance(value, Decimal):
        value = f"{value:f}"
    if isinstance(value, float) and abs(value) >= WHOLE_FLOATS:
        raise NoAnswer(f"the number {value}, which has lost digits")
    if not (text := label_text(value)).strip():
        raise NoAnswer("empty")
    return text


def absent(what: str, row: Mapping[str, Any], keys: Sequence[str], flag: str) -> UnknownFormat:
    """Why a row has none."""
    if held := [key for key in keys if key in row]:
        return UnknownFormat(f"its {held[0]!r} is {'null' if row[held[0]] is None else 'empty'}: give a {what}")
    columns = ", ".join(map(repr, row)) or "none"
    looked = ", ".join(map(repr, keys[:5]))
    return UnknownFormat(f"it has no {what} (looked for {looked}); its columns are {columns}: choose one by {flag}")


def _reference(row: Mapping[str, Any], chosen: str | None, answered: str | None) -> str:
    keys = (chosen,) if chosen else (*REFERENCE_KEYS, *SOLUTION_KEYS)
    why = absent("reference answer", row, keys, "--label_key")
    for key in [key for key in keys if row.get(key) not in (None, "", [])]:
        try:
            answer = answer_of(row[key])
        except NoAnswer as kind:
            why = UnknownFormat(f"its reference answer is {kind}, and has to be a text or a number")
            continue
        solved = _of_a_solution(answer)
        if chosen:
            return solved or answer.strip()
        if text := solved if key in SOLUTION_KEYS or "####" in answer else answer.strip():
            return text
        why = UnknownFormat(f"it has no reference answer: its {key!r} has neither a box nor ####")
    if answered is not None and not chosen:
        if text := _of_a_solution(answered):
            return text
        why = UnknownFormat("it has no reference answer: its chat's last message has neither a box nor ####")
    raise why


def _of_a_solution(text: str) -> str:
    """The answer after ``####``, else in the last box; a number alone is one. Empty if there is none."""
    if "####" in text:
        return text.rpartition("####")[2].strip()
    begin = max((match.end() for match in re.finditer(r"\\(?:boxed|fbox)\s*\{", text)), default=None)
    depth = 1
    for place in range(begin or 0, len(text) if begin else 0):
        depth += {"{": 1, "}": -1}.get(text[place], 0) * (text[place - 1] != "\\")
        if not depth:
            return text[begin:place].strip()
    without_braces = re.findall(r"\\boxed\s+([^\s$.,]+)", text)  # as in some of MATH
    return without_braces[-1] if without_braces else text.strip() if _NUMBER.fullmatch(text.strip()) else ""


def _messages(value: Any) -> Chat | None:
    """A list of chat messages by the names of OpenAI, without the fields that a file with columns fills with null;
    None if it is none."""
    if not isinstance(value, list) or not value or not all(isinstance(message, Mapping) for message in value):
        return None
    messages = [{name: part for name, part in message.items() if part is not None} for message in value]
    messages = [{"content": "", **one} if one.get("tool_calls") else one for one in messages]
    if all({"from", "value"} <= set(message) for message in messages):
        return [{"role": SHAREGPT.get(str(one["from"]), one["from"]), "content": one["value"]} for one in messages]
    return messages if all({"role", "content"} <= set(message) for message in messages) else None


def _text(content: Any) -> str | None:
    """Of a message, also of one in parts, where all are text."""
    if isinstance(content, list) and all(isinstance(one, Mapping) and one.get("type") == "text" for one in content):
        content = "".join(str(one.get("text") or "") for one in content)
    return content if isinstance(content, str) else None


def _list_in(text: str) -> list[Any] | None:
    for read in (json.loads, ast.literal_eval):
        try:
            return found if isinstance(found := read(text), list) else None
        except (ValueError, SyntaxError):
            continue
    return None
