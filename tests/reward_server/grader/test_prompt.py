"""Cutting the prompt off a query: what the prompt says must never be graded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from math_reward.grader.extraction.prompt import cut_prompt

FEW_SHOT = (
    "Q: What is 1+1?\nA: \\boxed{2}\n\nQ: What is 2+2?\nA: \\boxed{4}\n\n"
    "Q: How many days are six whole weeks, if a week has seven days and no day is lost?\nA:"
)
CHAT = "<|im_start|>user\nWhat is 6*7?<|im_end|>\n<|im_start|>assistant\n"


@given(st.text(), st.text())
def test_an_exact_prefix_is_cut(prompt: str, response: str):
    assert cut_prompt(prompt + response, prompt) == response


@given(
    st.lists(st.sampled_from(["What", "is", "6*7", "?", r"\boxed{2}", "A:"]), min_size=1),
    st.lists(
        st.sampled_from(["", " ", "\n\n", "<s>", "<|im_end|>\n", "<｜begin▁of▁sentence｜>"]), min_size=30, max_size=30
    ),
)
def test_special_tokens_and_white_space_make_no_difference(words: list[str], between: list[str]):
    query = "".join(gap + word for gap, word in zip(between, words, strict=False))

    rest = cut_prompt(query + " response", "".join(words[: len(between)]))

    assert rest == " response"


@pytest.mark.parametrize(
    ("query", "prompt", "response"),
    [
        # Decoding adds a token in front.
        ("<s>" + FEW_SHOT + " 42", FEW_SHOT, " 42"),
        ("<｜begin▁of▁sentence｜>" + FEW_SHOT + " 42", FEW_SHOT, " 42"),
        # The prompt has special tokens, the query lost them, or the other way round.
        ("user\nWhat is 6*7?\nassistant\n42", CHAT, "\n42"),
        (CHAT + "42", "user What is 6*7? assistant", "\n42"),
        # White space is normalised.
        (FEW_SHOT.replace("\n", " ") + " 42", FEW_SHOT, " 42"),
        # The beginning was cut off to fit the context.
        (FEW_SHOT[20:] + " 42", FEW_SHOT, " 42"),
        # A template was put around the prompt.
        ("You are helpful. What is 6*7? 42", "What is 6*7?", " 42"),
    ],
)
def test_a_prompt_that_was_rendered_differently_is_found(query: str, prompt: str, response: str):
    assert cut_prompt(query, prompt) == response


def test_what_follows_the_last_occurrence_of_the_prompts_end_is_the_response():
    without_its_beginning = FEW_SHOT[10:]

    assert cut_prompt(without_its_beginning + " 41. Again: " + FEW_SHOT + " 42", FEW_SHOT) == " 42"


@pytest.mark.parametrize("query", ["", "42", FEW_SHOT[:-3], FEW_SHOT[:40] + " 42"])
def test_a_prompt_that_is_not_there_is_not_found(query: str):
    assert cut_prompt(query, FEW_SHOT) is None
