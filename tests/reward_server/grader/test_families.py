r"""A family has a parameter only where the reference says so, and what an answer declares frees no other letter."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from math_reward.grader import Verdict, grade

settings.register_profile("families", max_examples=80, deadline=None, derandomize=True)
bounded = settings(settings.get_profile("families"))
RANGES = {r"\mathbb{Z}": range(-60, 61), r"\mathbb{N}": range(61), r"\mathbb{N}^*": range(1, 61)}
small = st.integers(-9, 9)
step = st.integers(1, 6)


def accepted(reference: str, answer: str, prompt: str | None = None) -> bool:
    completion = rf"{prompt or ''} \boxed{{{answer}}}"
    return grade(completion, reference, prompt).correct


@bounded
@given(step, small, step, small, st.sampled_from([*RANGES]), st.sampled_from(["k", "n", "t"]))
def test_progressions_that_are_accepted_are_the_same_numbers(a: int, b: int, c: int, d: int, domain: str, letter: str):
    inside = range(-40, 41)
    left = {a * k + b for k in RANGES[domain]} & {*inside}
    right = {c * k + d for k in RANGES[domain]} & {*inside}

    paid = accepted(rf"{a}k + {b}, k \in {domain}", rf"{c}{letter} + {d}, {letter} \in {domain}")

    assert paid == (left == right)


@bounded
@given(step, small, step, small, st.sampled_from(["", r", n \in \mathbb{N}^*", r" (n \in \mathbb{N}^*)"]))
def test_a_sequence_is_the_same_term_by_term(a: int, b: int, c: int, d: int, declared: str):
    paid = accepted(f"a_n = {a}n + {b}{declared}", rf"a_n = {c}n + {d}, n \in \mathbb{{N}}^*")

    assert paid == ((a, b) == (c, d))


@bounded
@given(st.fractions(-2, 2, max_denominator=6), st.fractions(-2, 2, max_denominator=6), step, step)
def test_multiples_of_pi_are_the_same_angles(start: Fraction, other: Fraction, a: int, b: int):
    def written(begin: Fraction, every: int, letter: str) -> str:
        return rf"x = \frac{{{begin.numerator}}}{{{begin.denominator}}}\pi + {every}{letter}\pi"

    same = a == b and (start - other) % a == 0

    assert accepted(written(start, a, "k"), written(other, b, "n")) == same


@pytest.mark.parametrize(
    ("reference", "answer"),
    [
        (r"(n-2)\pi", r"n\pi"),
        (r"f(n) = n\pi", r"f(n) = (n+1)\pi"),
        (r"x = k\pi", r"y = k\pi"),
        (r"k\pi", r"2\pi + n\pi, n \in \mathbb{N}"),
        (r"7k+3", r"3 \pmod 7"),
        (r"as + bt, s \in \mathbb{R}", r"cs + bt, s \in \mathbb{R}"),
        (r"x + K", r"x + K - 3"),
        (r"\frac{q^2}{2C}", r"\frac{q^2}{2A}"),
    ],
)
def test_a_letter_that_is_given_has_its_own_value(reference: str, answer: str):
    assert not accepted(reference, answer)


@pytest.mark.parametrize(
    ("reference", "answer"),
    [
        (r"\frac{\pi}{6} + 2k\pi", r"\frac{13\pi}{6} + 2n\pi, n \in \mathbb{Z}"),
        (r"\pm\frac{\pi}{3} + 2k\pi", r"-\frac{\pi}{3} + 2m\pi, \frac{\pi}{3} + 2m\pi"),
        (r"(k\pi, k\pi + \frac{\pi}{2})", r"(n\pi, n\pi + \frac{\pi}{2})"),
        (r"x = (2k+1)\pi", r"x = (2n-1)\pi"),
        (r"x \equiv 3 \pmod 7", "7k + 3"),
        (r"7k + 3, k \in \mathbb{Z}", r"x \equiv 3 \pmod 7"),
        (r"f(x) = cx, c \in \mathbb{R}", r"f(x) = kx, k \in \mathbb{R}"),
        (r"f(x) = cx, c \in \mathbb{R}", "f(x) = ax"),
        (r"x^2 + c, c \in \mathbb{R}", "x^2 + 1 + C"),
        (r"C_1 e^x + C_2 e^{-x}", r"A e^x + B e^{-x}"),
        ("x^2 + c", "x^2 + C"),
    ],
)
def test_a_parameter_of_the_reference_has_any_name(reference: str, answer: str):
    assert accepted(reference, answer)


@pytest.mark.parametrize(
    ("prompt", "reference", "answer", "paid"),
    [
        ("Find all functions f with f(x+y) = f(x) + f(y).", "f(x) = cx", "f(x) = kx", True),
        ("Where does the line of slope c meet? Find all functions.", "f(x) = cx", "f(x) = kx", False),
        ("A line has slope a.", "f(x) = cx", "f(x) = kx", False),
        (r"Find $\int 2x\,dx$.", "x^2 + c", "x^2 + 3 + c", True),
        ("Shift the parabola up.", "x^2 + c", "x^2 + 3 + c", False),
        ("Find all integers that leave the remainder 1.", "4k + 1", "4n + 1", True),
        ("Find all integers that leave the remainder 1.", "4k + 1", "4n + 5", False),
    ],
)
def test_a_prompt_that_asks_for_all_solutions_frees_the_letters_that_it_does_not_know(
    prompt: str, reference: str, answer: str, paid: bool
):
    assert accepted(reference, answer, prompt) == paid


@pytest.mark.parametrize("modulus", ["1", "0", "-1"])
def test_a_modulus_that_says_nothing_is_no_answer(modulus: str):
    for reference in ("n + 1", r"k + 7, k \in \mathbb{Z}", r"x \equiv 2 \pmod 3"):
        assert grade(rf"\boxed{{0 \pmod{{{modulus}}}}}", reference).verdict is not Verdict.CORRECT
