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
        # Another order, notation, name or neutral element hides nothing.
        (r"Compute $7 \cdot 8$.", "56", r"7 \times 8"),
        (r"Compute $7 \cdot 8$.", "56", "8*7"),
        (r"Compute $7 \cdot 8$.", "56", r"x = (7 \cdot 8)"),
        (r"Compute $7 \cdot 8$.", "56", r"1 \cdot 7 \cdot 8 + 0"),
        ("What is 7 times 8?", "56", r"7 \cdot 8"),
        (r"计算 $7\times 8$", "56", r"8 \times 7"),
        (r"Compute $\frac{1}{2}+\frac{1}{3}$.", "5/6", r"1/3 + 1/2"),
        (r"Evaluate $\sum_{k=1}^{5} k$.", "15", "1+2+3+4+5"),
        (r"Simplify $\sqrt{72}$.", r"6\sqrt2", r"1\sqrt{72}"),
        (r"Simplify $\sqrt{72}$.", r"6\sqrt2", r"72^{1/2}"),
        ("Factor $x^2-5x+6$.", "(x-2)(x-3)", "6-5x+x^2"),
        ("What is the remainder when $2^{100}$ is divided by $7$?", "2", r"2^{100} \bmod 7"),
        # A form that is asked for.
        ("Convert 3 feet to inches.", r"36 \text{ inches}", r"3 \text{ feet}"),
        ("What is 101_2 in decimal?", "5", "101_2"),
        ("Express 120 degrees in radians.", r"\frac{2\pi}{3}", r"120^\circ"),
        ("Write $0.75$ as a fraction.", r"\frac34", "0.75"),
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
        (r"Compute $7 \cdot 8$.", r"7 \cdot 8", r"8 \cdot 7"),
        (r"Compute $7 \cdot 8$.", "56", r"7 \cdot 8 = 56"),
        ("Factor $x^2-5x+6$.", "(x-2)(x-3)", "(x-3)(x-2)"),
        (r"Simplify $\sqrt{72}$.", r"6\sqrt2", r"\sqrt2 \cdot 6"),
        ("Convert 3 feet to inches.", r"36 \text{ inches}", "36"),
        ("Write $0.75$ as a fraction.", r"\frac34", r"\frac{3}{4}"),
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


_MATRIX = r"\begin{pmatrix}1&2\\3&4\end{pmatrix}"


@pytest.mark.parametrize(
    ("reference", "operation"),
    [
        ("55", r"\sum_{k=1}^{10} k"),
        ("1/2", r"\int_0^1 x\,dx"),
        ("24", r"\prod_{k=1}^4 k"),
        ("-2", rf"\det{_MATRIX}"),
        ("-2", r"\begin{vmatrix}1&2\\3&4\end{vmatrix}"),
        ("-2", rf"\left|{_MATRIX}\right|"),
        ("5", rf"\operatorname{{tr}}{_MATRIX}"),
        (r"\begin{pmatrix}7&10\\15&22\end{pmatrix}", f"{_MATRIX}^2"),
        (r"\begin{pmatrix}3&0\\0&8\end{pmatrix}", r"\operatorname{diag}(1,2)\operatorname{diag}(3,4)"),
        (r"\begin{pmatrix}4&0\\0&6\end{pmatrix}", r"\operatorname{diag}(1,2)+\operatorname{diag}(3,4)"),
    ],
)
@pytest.mark.parametrize(
    "form", ["{}", "{} = S", "S = {}", r"{} \approx S", "{} = S_{{10}}", "S = {} = T", "{} - S = 0"]
)
def test_a_name_on_either_side_does_not_do_the_work(reference: str, operation: str, form: str):
    assert not grade(rf"\boxed{{{form.format(operation)}}}", reference).correct
    assert not grade(rf"\boxed{{{form.format(operation)}}}", f"S = {reference}").correct


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
