"""Restating the question is not answering it, and neither is leaving the work undone."""

import pytest

from math_reward.grader import Options, Verdict, grade


@pytest.mark.parametrize(
    ("prompt", "reference", "answer"),
    [
        ("Compute 7*8.", "56", "7*8"),
        (r"Evaluate $\sqrt{50} + \sqrt{8}$.", r"7\sqrt{2}", r"\sqrt{50} + \sqrt{8}"),
        ("What is 2^10 - 1?", "1023", "2^10 - 1"),
        ("Expand (x+1)^2.", "x^2 + 2x + 1", "(x+1)^2"),
    ],
)
def test_an_operation_that_stands_in_the_prompt_as_it_is_is_restated(prompt: str, reference: str, answer: str):
    assert grade(rf"{prompt} \boxed{{{answer}}}", reference, prompt).verdict is Verdict.RESTATED
    assert grade(rf"\boxed{{{answer}}}", reference).verdict is Verdict.CORRECT  # Nobody knows the question.


@pytest.mark.parametrize(
    ("prompt", "reference", "answer"),
    [
        ("Which is larger, 3/4 or 2/3?", "3/4", "3/4"),
        ("Is 12*12 equal to 144? Compute 100 + 44.", "144", "144"),
        ("Factor x^2 - 1, which is not x^2 - 10.", "(x-1)(x+1)", "(x+1)(x-1)"),
        ("Write 0.75 as a fraction; 3/4 is one.", "0.75", "3/4"),
    ],
)
def test_a_number_the_reference_as_written_and_a_new_form_are_no_restatement(prompt: str, reference: str, answer: str):
    assert grade(rf"{prompt} \boxed{{{answer}}}", reference, prompt).verdict is Verdict.CORRECT


@pytest.mark.parametrize(
    ("reference", "answer"),
    [
        ("1/2", r"\int_0^1 x\,dx"),
        ("55", r"\sum_{k=1}^{10} k"),
        ("24", r"\prod_{k=1}^{4} k"),
        ("1", r"\lim_{x \to 0} \frac{\sin x}{x}"),
        ("-2", r"\det\begin{pmatrix}1&2\\3&4\end{pmatrix}"),
        (r"\begin{pmatrix}2\\4\end{pmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}+\begin{pmatrix}1\\2\end{pmatrix}"),
    ],
)
def test_an_operation_that_the_reference_does_not_have_is_unevaluated(reference: str, answer: str):
    assert grade(rf"\boxed{{{answer}}}", reference).verdict is Verdict.UNEVALUATED
    assert grade(rf"\boxed{{{answer}}}", reference, options=Options(allow_unevaluated=True)).correct
    assert grade(rf"\boxed{{{answer}}}", answer).correct  # The reference has it too.
    assert grade(rf"\boxed{{{answer} = {reference}}}", reference).correct  # Calculated after all.


@pytest.mark.parametrize("closed", [r"\binom{5}{2}", r"10!/(8! \cdot 9)", "2^3 + 2", r"5\sqrt{4}", r"\log_2 1024"])
def test_factorials_binomials_powers_roots_and_logarithms_are_closed_forms(closed: str):
    assert grade(rf"\boxed{{{closed}}}", "10").verdict is Verdict.CORRECT


@pytest.mark.parametrize(
    ("reference", "answer", "paid"),
    [
        ("10", "10", True), ("10", "20/2", False), ("10", r"\binom{5}{2}", False), ("10", "10.0", True),
        ("1/2", r"\frac{1}{2}", True), ("1/2", r"\frac{2}{4}", False), ("1/2", "0.5", True),
    ],
)  # fmt: skip
def test_a_number_in_lowest_terms_may_be_asked_for(reference: str, answer: str, paid: bool):
    assert grade(rf"\boxed{{{answer}}}", reference, options=Options(evaluated=True)).correct is paid


def test_an_example_that_is_quoted_from_the_prompt_is_no_answer():
    example = r"For instance, the sum of one and one is \boxed{2}."
    prompt = f"{example} Now tell me what the sum of forty and two is."

    assert grade(f"{prompt} As it says: {example}", "2", prompt).verdict is Verdict.NO_ANSWER
    assert grade(rf"{prompt} Well: {prompt} \boxed{{42}}", "42", prompt).verdict is Verdict.CORRECT
    assert grade(f"{prompt} Well: {prompt}", "2", prompt).verdict is Verdict.NO_ANSWER


def test_a_set_phrase_of_the_examples_with_the_same_answer_is_an_answer_after_words_of_ones_own():
    phrase = r"Putting it all together, the final answer to the question is \boxed{4}."
    prompt = f"Q: What is 1+3? A: One and three are four. {phrase}\nQ: What is 2+2?\nA:"
    own = "Two apples and two more apples are as many as the legs of a dog. "

    assert grade(f"{prompt} {own}{phrase}", "4", prompt).verdict is Verdict.CORRECT
    assert grade(f"{prompt} {phrase}", "4", prompt).verdict is Verdict.NO_ANSWER
    assert grade(f"{prompt} {own}One and three are four. {phrase}", "4", prompt).verdict is Verdict.CORRECT


def test_a_long_quotation_is_no_answer_whatever_stands_before_it():
    example = (
        "The dog has four legs, as every child knows, and the cat has as many of them. " * 3 + r"So it is \boxed{4}"
    )
    prompt = f"An example. {example}. Now: how many legs has a bird?"

    assert grade(f"{prompt} Let me look at the example again, word for word. {example}", "4", prompt).verdict is (
        Verdict.NO_ANSWER
    )
