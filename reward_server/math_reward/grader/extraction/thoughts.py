"""The part of a completion that may state its answer: after its thoughts, and before the next message of the user.

A thought that does not end has no answer behind it, whoever opened it: the response, or the prompt, as the chat
templates of reasoning models do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from math_reward.grader.extraction.phrases import last_match


class Thought(NamedTuple):
    """How a chat template marks a thought."""

    models: str
    opening: str
    closing: str
    example: str
    """A thought that does not end."""


THOUGHTS = (
    Thought(
        "DeepSeek-R1, Qwen3, QwQ, GLM-4.5, Kimi-K2-Thinking, MiniMax-M2, Nemotron, Phi-4-reasoning, EXAONE 4, SmolLM3,"
        " OLMo 3, Granite 3.3, MiMo, Ring, Step 3; with a suffix Hunyuan",
        r"<think(?::[a-z]{1,16})?>",
        r"</think(?::[a-z]{1,16})?>",
        r"<think>It is \boxed{42}",
    ),
    Thought("Seed-OSS, MiniMax-M3", r"<(?:seed|mm):think>", r"</(?:seed|mm):think>", r"<seed:think>\boxed{42}"),
    Thought("LongCat-Flash-Thinking", "<longcat_think>", "</longcat_think>", r"<longcat_think>\boxed{42}"),
    Thought(
        "EXAONE Deep, Reka Flash 3, Marco-o1, prompts for R1's format",
        r"<(?:thinking|thoughts?|reasoning)>",
        r"</(?:thinking|thoughts?|reasoning)>",
        r"<thinking>It is \boxed{42}",
    ),
    Thought("Magistral", r"\[THINK\]", r"\[/THINK\]", r"[THINK]It is \boxed{42}"),
    Thought("Kimi-VL-Thinking", "◁think▷", "◁/think▷", r"◁think▷It is \boxed{42}"),
    Thought("Kimi K3", r"<\|open\|>think<\|sep\|>", r"<\|close\|>think<\|sep\|>", r"<|open|>think<|sep|>\boxed{42}"),
    Thought("Gemma 4", r"<\|channel>thought\b", r"<channel\|>", "<|channel>thought\nIt is \\boxed{42}"),
    Thought(
        "gpt-oss",
        r"<\|channel\|>(?:analysis|commentary)\b[^<>\n]{0,80}(?:<\|constrain\|>\w{1,16})?<\|message\|>",
        r"<\|channel\|>final\b[^<>\n]{0,80}(?:<\|constrain\|>\w{1,16})?<\|message\|>",
        r"<|channel|>analysis<|message|>It is \boxed{42}",
    ),
    Thought("Command A Reasoning", r"<\|START_THINKING\|>", r"<\|END_THINKING\|>", r"<|START_THINKING|>\boxed{42}"),
    Thought(
        "OpenThinker, Sky-T1", r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>", r"<|begin_of_thought|>\boxed{42}"
    ),
    Thought("Solar Open 2", r"<\|think:start\|>", r"<\|think:end\|>", r"<|think:start|>\boxed{42}"),
    Thought("Apertus", r"<\|inner_prefix\|>", r"<\|inner_suffix\|>", r"<|inner_prefix|>\boxed{42}"),
)


def any_of(rows: Sequence[Thought]) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """What opens a thought of any of these rows, what closes it, and what opens it at the end of a text."""
    opening, closing = "|".join(row.opening for row in rows), "|".join(row.closing for row in rows)
    patterns = (opening, closing, rf"(?:{opening})\s*\Z")
    opens, closes, opens_at_end = (re.compile(pattern, re.IGNORECASE) for pattern in patterns)
    return opens, closes, opens_at_end


MARKS = any_of(THOUGHTS)
OPENING_CHARACTERS = 160
"""How much of a prompt's end may open a thought."""

# A tool's answer is written as the user's by some templates, and is a part of the response.
_NEXT_TURN = re.compile(
    r"(?:<\|(?:im_start|start_header_id)\|>\s*(?:user|system|human)|<\|(?:user|User|Human)\|>|<｜User｜>"
    r"|<start_of_turn>\s*user|<\|start\|>user(?=<\|message\|>)|<\|turn>user)"
    r"(?!\s*(?:<\|(?:end_header_id|message)\|>\s*)?<tool_response>)"
)
_END_OF_TURN = re.compile(
    r"(?:<\|(?:im_end|eot_id|eot|end|return)\|>|<｜end▁of▁sentence｜>|</s>|<end_of_turn>|<turn\|>)\s*\Z"
)
_BEGINNING = re.compile(r"\s*(?:<\||<｜|<s>|<bos>|<start_of_turn>|\[INST\])")
# "Question: ...", "### Problem", "User: ...": what begins a question in a prompt that ends with "Answer:".
_QUESTION = re.compile(
    r"(?:^[ \t]{0,4}|(?<=[.?!] ))(?:#{1,4} ?)?(?:\*\*)?"
    r"(?P<label>Q|Question|Problem|Exercise|User|Human|Instruction|Input)(?: \d{1,3})?(?:\*\*)?[:.](?=\s)",
    re.MULTILINE,
)
_ANSWER = re.compile(
    r"(?:^|[\s>*#])(?:A|Answer|Assistant|Solution|Response|Output)(?:\*\*)?:[^\n]{0,60}(?:\s*<think>)?\s*\Z"
)


def answering(response: str, prompt: str | None) -> str:
    """The part of a response that may state its answer; empty where its thought does not end.

    Args:
        response: what the model wrote.
        prompt: what it was asked, if that is known: it may open the thought, and shows how a next question begins.
    """
    opens, closes, opens_at_end = MARKS
    text, closed = _before_next_turn(response, is_known=prompt is not None), None
    if "<" in text or "◁" in text or "[/" in text or "[T" in text:
        closed = last_match(closes, text)
        text = text if closed is None else text[closed.end() :]
        opened = opens.search(text)
        text = text if opened is None else text[: opened.start()]
    if prompt is None:
        return text
    if closed is None and opens_at_end.search(prompt[-OPENING_CHARACTERS:]):
        return ""
    return _before_next_question(text, prompt)


def _before_next_turn(text: str, *, is_known: bool) -> str:
    """The text before the first token that begins a message of the user, unless the text may be a whole conversation:
    where it is not known to be a response, and does not end its turn before that token.
    """
    turn = _NEXT_TURN.search(text) if "<" in text else None
    if turn is None or not text[: turn.start()].strip():
        return text
    is_begun = _BEGINNING.match(text) is not None and MARKS[0].match(text.lstrip()) is None
    is_response = is_known or (_END_OF_TURN.search(text[: turn.start()][-40:]) is not None and not is_begun)
    return text[: turn.start()] if is_response or "assistant" not in text[turn.end() :].lower() else text


def _before_next_question(text: str, prompt: str) -> str:
    """The text before a question that the response asks itself, with the label that questions have in its prompt."""
    if _ANSWER.search(prompt[-OPENING_CHARACTERS:]) is None:
        return text
    labels = {question["label"] for question in _QUESTION.finditer(prompt)}
    questions = (question for question in _QUESTION.finditer(text) if question["label"] in labels)
    following = (question.start() for question in questions if text[: question.start()].strip())
    return text[: next(following, len(text))]
