r"""Finding the final answer: ``\boxed`` with balanced braces, in linear time."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from math_reward.grader.extract import TAIL_CHARACTERS, Answer, final_answer, last_boxed

pieces = st.sampled_from([r"\boxed{", r"\fbox{", "{", "}", r"\{", r"\}", "1", "x ", "words "])


def closed_boxes(text: str) -> list[tuple[int, str]]:
    """Every closed box by brute force: for each opening one, count braces forward until it is closed."""
    found = []
    for opening in re.finditer(r"\\(?:boxed|fbox)\{", text):
        depth, position = 1, opening.end()
        while depth and position < len(text):
            if text[position] == "\\" and text[position + 1] in "{}":
                position += 1
            else:
                depth += {"{": 1, "}": -1}.get(text[position], 0)
            position += 1
        if depth == 0:
            found.append((position, text[opening.end() : position - 1]))
    return found


@given(st.lists(pieces, max_size=30).map("".join))
def test_the_box_that_closes_last_is_found(text: str):
    found = closed_boxes(text)
    expected = max(found)[1] if found else None
    if expected is not None:
        expected = re.sub(r"\\(?:boxed|fbox)(?=\{)", "", expected).strip()

    assert last_boxed(text) == expected


@given(st.text())
def test_any_text_at_all_has_an_answer_or_none(text: str):
    answer = final_answer(text)

    assert answer is None or answer.text


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"\boxed {42}", "42"),
        (r"\\boxed{42}", "42"),
        (r"a \\ \boxed{42}", "42"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{1}, \boxed{2}", "1, 2"),
        (r"$\boxed{1}$ and $\boxed{2}$", "1, 2"),
        (r"\boxed{1},\quad\boxed{2} \text{ and } \boxed{3}", "1, 2, 3"),
        (r"\boxed{1} \boxed{2}", "2"),
        (r"\boxed{1}, then \boxed{2}", "2"),
        (r"\boxed{7}, \boxed{7}", "7"),
        (r"\boxed{1} or \boxed{2}", "2"),
        (r"\boxedness{1}", None),
        (r"\boxed 7", None),
    ],
)
def test_boxes_are_read_as_latex_writes_them(text: str, content: str | None):
    assert last_boxed(text) == content


@pytest.mark.parametrize(
    "piece", [r"\boxed{", "{", "}", "\\boxed ", r"\boxed{1}", r"\boxed{1},", "\\boxed{1}" + " " * 50]
)
def test_a_megabyte_of_anything_is_read_in_one_pass(piece: str):
    final_answer(piece * (10**6 // len(piece)))  # Quadratic time would run into the time limit of the test.


def test_without_a_box_it_is_the_end_of_the_text():
    assert final_answer("x" * 5000 + " so 42") == Answer("x" * (TAIL_CHARACTERS - 6) + " so 42", boxed=False)
