"""An answer has the form that the prompt asks for, where the reference has it."""

import pytest

from math_reward.grader import Verdict, grade

ASKED = [
    ("Expand $(x+1)^2$.", "x^2+2x+1", ["(x+1)^2", "(x+1)(x+1)", "x(x+2)+1"], ["1+2x+x^2", r"x^2+2\cdot x+1"]),
    (
        r"Expand $x\sqrt{x+1}+(x+1)^2$.",
        r"(x+1)^{1/2}x+x^2+2x+1",
        [r"(x+1)^{1/2}x+(x+1)^2"],
        [r"1+2x+x^2+x(x+1)^{1/2}"],
    ),
    ("展开 $(x+1)^2$。", "x^2+2x+1", ["(1+x)(1+x)"], ["1+2x+x^2"]),
    ("Factor $x^2-5x+6$.", "(x-2)(x-3)", ["x^2-5x+6", "x(x-5)+6"], ["(x-3)(x-2)", "(2-x)(3-x)"]),
    ("Factor completely: $x^4-1$.", "(x-1)(x+1)(x^2+1)", ["(x^2-1)(x^2+1)"], ["(x^2+1)(x+1)(x-1)"]),
    ("分解因式:$x^2-4$。", "(x-2)(x+2)", ["x^2-4", "(x^2-4)"], ["(x+2)(x-2)"]),
    ("Find the prime factorization of 60.", r"2^2\cdot3\cdot5", ["60", r"4\cdot15"], [r"5\cdot3\cdot2\cdot2"]),
    ("Express the angle in radians.", r"\frac{2\pi}{3}", [r"120^\circ"], [r"2\pi/3"]),
    ("Find the angle in degrees.", r"120^\circ", [r"\frac{2\pi}{3}"], ["120", r"120^\circ"]),
    ("Write it as a common fraction.", r"\frac34", [r"75\%", "0.75"], ["3/4"]),
    ("Express the probability as a decimal.", "0.75", [r"\frac34"], [".75"]),
    ("How many inches is that?", r"36 \text{ inches}", [r"3 \text{ feet}"], ["36", r"36 \text{ in}"]),
    ("Answer in square meters.", r"2 \text{ m}^2", [r"20000 \text{ cm}^2"], [r"2 \text{ square meters}"]),
    (r"Simplify $\frac{4x}{6}$.", r"\frac{2x}{3}", [r"\frac{8x}{12}"], [r"\frac23 x"]),
    ("Simplify $2x+3x$.", "5x", ["x+4x"], [r"x\cdot5"]),
    (r"化简 $\sqrt{72}$。", r"6\sqrt2", [r"2\sqrt{18}", r"3\sqrt8"], [r"6\sqrt{2}"]),
    (r"Evaluate $7\cdot8$.", "56", [r"2\cdot28", "50+6"], ["56", "56.0"]),
    ("What is $2^{10}$?", "1024", ["4^5"], ["1,024"]),
]
CASES = [(prompt, reference, form, verdict) for prompt, reference, refused, paid in ASKED
         for forms, verdict in ((refused, Verdict.RESTATED), (paid, Verdict.CORRECT)) for form in forms]  # fmt: skip


@pytest.mark.parametrize(("prompt", "reference", "answer", "verdict"), CASES)
def test_an_equal_answer_is_paid_in_the_form_that_the_prompt_asks_for(
    prompt: str, reference: str, answer: str, verdict: Verdict
):
    assert grade(rf"{prompt} \boxed{{{answer}}}", reference, prompt).verdict is verdict
    assert grade(rf"\boxed{{{answer}}}", reference).verdict is Verdict.CORRECT  # Nobody knows the question.


@pytest.mark.parametrize(
    ("prompt", "reference", "answer"),
    [
        ("How many subsets does a set of ten elements have?", "1024", "2^{10}"),
        (r"Compute $\sum_k \binom{10}{k}$.", "1024", "2^{10}"),
        ("What is the greatest common factor of 12 and 18?", "6", "6"),
        ("Expand and find the constant term.", "x(x+1)", "x^2+x"),  # The reference is not expanded either.
        ("Simplify " + "x" * 600 + ". Now find the sum.", "5x", "2x+3x"),  # That was asked long before.
        ("How long does the film take in minutes?", "120", "120"),
    ],
)
def test_a_phrase_that_asks_for_no_form_of_the_reference_asks_for_nothing(prompt: str, reference: str, answer: str):
    assert grade(rf"{prompt} \boxed{{{answer}}}", reference, prompt).verdict is Verdict.CORRECT
