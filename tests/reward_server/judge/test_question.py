"""What the judge is shown and what of its reply is read.

The 220 attacks need no obedient model: the tests show that an answer stays one quoted string, and that nothing but two
log-probabilities is ever read.
"""

import json
import math
import re
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from math_reward.judge.question import (
    INSTRUCTION,
    MAX_CHARACTERS,
    QUESTION_CHARACTERS,
    Unusable,
    bounded,
    messages,
    quoted,
    says_yes,
)

from .attacks import ATTACKS
from .fake_judge import reply

# What chat templates of Qwen, Llama 2 and 3, Mistral, Gemma, DeepSeek, Phi, Command R and GLM have as special tokens.
SPECIAL = [
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>", "</think>", "<s>", "</s>", "[INST]", "[/INST]",
    "<<SYS>>", "<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>", "[SYSTEM_PROMPT]", "[TOOL_CALLS]", "<bos>",
    "<start_of_turn>", "<end_of_turn>", "<｜begin▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "<|user|>",
    "<|end|>",
    "[gMASK]", "<sop>", "<|START_OF_TURN_TOKEN|>", "<unk>", "<pad>", "<tool_call>", "<|vision_start|>", "<0x0A>",
    "[UNUSED_TOKEN_1]",
]  # fmt: skip


def is_safe(literal: str, text: str) -> None:
    """One JSON string on one line that says what the text said, without a special token or an unseen character."""
    assert json.loads(literal) == text
    assert literal[0] == literal[-1] == '"'
    assert re.search(r'(?<!\\)(?:\\\\)*"', literal[1:-1]) is None, "a quotation mark that ends the string"
    assert not any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") for c in literal)
    assert not any(token in literal for token in SPECIAL)
    assert "<" not in literal
    literal.encode()


def test_there_are_at_least_two_hundred_attacks():
    assert len({text for _, text in ATTACKS}) >= 200


@pytest.mark.parametrize("text", [pytest.param(text, id=ascii(name)) for name, text in ATTACKS])
def test_an_answer_that_speaks_to_the_judge_stays_one_quoted_string(text: str):
    is_safe(quoted(text), text)
    system, user = messages("6*7?", "Carla", text)
    assert system == {"role": "system", "content": INSTRUCTION}
    lines = user["content"].split("\n")
    assert len(lines) == 4, "the answer began a line of its own"
    assert lines[2] == f"Second answer: {quoted(text)}"


@given(st.text(st.characters() | st.sampled_from('"\\<[|/]>\n'), max_size=60))
def test_so_does_any_text(text: str):
    is_safe(quoted(text), text)


@given(st.lists(st.sampled_from([*SPECIAL, "<", "|", "[", "/", "im_end", '"', "\\"]), max_size=8).map("".join))
def test_and_any_heap_of_special_tokens(text: str):
    is_safe(quoted(text), text)


def test_mathematics_and_words_of_all_languages_stay_readable():
    assert quoted("x in [0, 1] and 分层抽样, größer, Ответ") == '"x in [0, 1] and 分层抽样, größer, Ответ"'


def test_a_long_question_is_shown_by_its_ends():
    question = "a" * 30_000 + "What is the end?"
    shown = json.loads(messages(bounded(question), "1", "2")[1]["content"].split("\n")[0].partition(": ")[2])
    assert len(shown) == QUESTION_CHARACTERS + len(" ... ")
    assert shown.endswith("What is the end?")
    assert shown.startswith("aaa")


def test_no_request_is_longer_than_its_bounds():
    longest = "\U000e0041" * max(MAX_CHARACTERS, QUESTION_CHARACTERS)
    shown = messages(bounded(longest * 9), longest[:MAX_CHARACTERS], longest[:MAX_CHARACTERS])[1]["content"]
    assert len(shown) < 12 * (QUESTION_CHARACTERS + 2 * MAX_CHARACTERS) + 500


def test_a_question_that_was_not_sent_is_left_out():
    assert messages(None, "1", "2")[1]["content"].startswith("First answer:")


@pytest.mark.parametrize(
    ("shares", "yes"),
    [({"yes": 0.9, "no": 0.1}, True), ({"yes": 0.3, "no": 0.6}, False), ({"yes": 0.9, "no": 0}, True)],
)
def test_the_likelier_of_the_two_tokens_counts_and_nothing_else_of_the_reply(shares: dict[str, float], yes: bool):
    # The text of every reply here says yes.
    assert says_yes(json.dumps(reply(**shares)).encode()) is yes


def test_all_ways_to_write_a_token_count_together():
    assert not says_yes(json.dumps(reply(0.4, 0.2, **{"No": 0.15, " NO": 0.1, "▁no": 0.1})).encode())


def with_logprob(value: Any) -> dict[str, Any]:
    return {"choices": [{"logprobs": {"content": [{"top_logprobs": [{"token": "yes", "logprob": value}]}]}}]}


USELESS = {
    "nothing": b"",
    "HTML": b"<html>yes</html>",
    "cut off": json.dumps(reply(0.9, 0.1)).encode()[:-20],
    "not UTF-8": b"\xff\xfe\x00",
    "deep": b"[" * 100_000,
    "a number": b"1",
    "no choices": b'{"choices": []}',
    "an error": b'{"error": {"message": "yes"}}',
    "only text": b'{"choices": [{"message": {"content": "yes"}}]}',
    "no logprobs": b'{"choices": [{"message": {"content": "yes"}, "logprobs": null}]}',
    "no content": b'{"choices": [{"logprobs": {"content": []}}]}',
    "tokens that are no list": b'{"choices": [{"logprobs": {"content": [{"top_logprobs": {"yes": 0}}]}}]}',
    "other tokens": json.dumps(reply(0.0, 0.0, maybe=0.9, Yes_=0.1)).encode(),
    "little of both": json.dumps(reply(0.2, 0.1, The=0.7)).encode(),
    "equal": json.dumps(reply(0.5, 0.5)).encode(),
    "above 1": json.dumps(with_logprob(0.7)).encode(),
    "twice": json.dumps(reply(0.9, 0.1, Yes=0.9)).encode(),
    **{
        f"a log-probability {value!r}"[:60]: json.dumps(with_logprob(value)).encode()
        for value in (math.nan, math.inf, -math.inf, None, True, "0", [0], 10**400, -(10**400))
    },
}


@pytest.mark.parametrize("content", USELESS.values(), ids=USELESS)
def test_a_reply_that_says_neither_is_no_answer(content: bytes):
    with pytest.raises(Unusable):
        says_yes(content)
