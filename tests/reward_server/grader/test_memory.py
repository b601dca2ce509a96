"""The grader's memories are bounded by what they hold."""

import sys
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from math_reward.grader import grading
from math_reward.grader.memory import BYTES_A_CHARACTER, Memory
from math_reward.grader.reading import Reference


def estimate(text: str) -> int:
    return sys.getsizeof(text) + BYTES_A_CHARACTER * len(text)


@given(st.lists(st.text(max_size=40), max_size=60), st.integers(2, 8), st.integers(2_000, 60_000))
def test_it_gives_what_was_made_and_holds_no_more_than_it_may(texts: list[str], entries: int, size: int):
    memory: Memory[tuple[str, str]] = Memory(entries, size)
    for text in texts:
        assert memory.get(text, lambda text=text: (text, "made"), text) == (text, "made")
        held = {**memory._old, **memory._new}
        assert len(held) <= entries
        assert sum(estimate(one) for one in held) <= size


def test_the_latest_are_not_made_again_and_one_large_text_drives_none_of_them_out():
    memory: Memory[str] = Memory(100, 16 * estimate("x" * 100))
    made: list[str] = []

    def get(text: str) -> str:
        return memory.get(text, lambda: made.append(text) or text, text)  # type: ignore[func-returns-value]

    for text in ("a", "b", "a", "x" * 101, "a", "b", "x" * 101):
        get(text)

    assert made == ["a", "b", "x" * 101, "x" * 101]


@pytest.mark.parametrize(
    "text",
    [
        r"\frac{1}{2}", "x^2+2xy+y^2", r"\sqrt{2}+\sqrt{3}", "(1,2),(3,4)", "{" * 20 + "1" + "}" * 20,
        "+".join(f"x^{{{i}}}" for i in range(2, 200)), "1+" * 900 + "1", ",".join("12345" for _ in range(300)),
        r"\begin{pmatrix}" + r"\\".join("1&2&3" for _ in range(200)) + r"\end{pmatrix}",
        "a" * 2000, "(" * 40 + "x" + ")" * 40,
    ],
)  # fmt: skip
def test_the_estimate_of_a_reference_is_no_less_than_what_it_takes(text: str):
    Reference(text)  # What is imported and made once does not count.
    tracemalloc.start()
    read = Reference(text + " ")
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert read.given == text + " "
    assert taken <= 4096 + estimate(text)


def test_references_as_long_as_a_body_leave_nothing_behind():
    grading.forget()
    tracemalloc.start()
    for i in range(20):
        grading.grade(r"\boxed{1}", f"{i} " + "7" * 900_000)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert taken < 4 * 2**20
