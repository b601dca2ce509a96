r"""How two trees are compared: the options, the rules that are not symmetric, and SymPy at the end."""

import pytest

from math_reward.grader import Options
from math_reward.grader.mathematics import numeric
from math_reward.grader.mathematics.symbolic import MAX_NODES, equal
from math_reward.grader.notation.parse import parse
from math_reward.grader.rules import RULES
from math_reward.grader.rules.comparison import Comparison


def same(reference: str, answer: str, options: Options = Options()) -> bool:  # noqa: B008 (immutable)
    return Comparison(options, RULES).same(parse(reference), parse(answer))


@pytest.mark.parametrize(
    ("reference", "answer", "within", "beyond"),
    [
        ("100", "100.01", 1e-3, 1e-5),
        ("1000", "1001", 1e-2, 1e-4),
        (r"\sqrt2", "1.41421", 1e-4, 1e-6),
        ("(1, 2)", "(1.0001, 2)", 1e-3, 1e-5),
        ("2, 3", "3, 2.0001", 1e-3, 1e-5),
        (r"\{2, 3\}", r"\{3, 2.0001\}", 1e-3, 1e-5),
        (r"50\%", "0.5001", 1e-3, 1e-5),
    ],
)
def test_rel_tol_is_a_share_of_the_reference(reference: str, answer: str, within: float, beyond: float):
    assert same(reference, answer, Options(rel_tol=within))
    assert not same(reference, answer, Options(rel_tol=beyond))
    assert not same(reference, answer)


def test_rel_tol_does_not_loosen_zero_intervals_or_functions():
    loose = Options(rel_tol=0.1)

    assert not same("0", "0.001", loose)
    assert not same("[0, 1)", "[0, 1.0001)", loose)
    assert not same("x + 1", "x + 1.0001", loose)


@pytest.mark.parametrize(
    ("reference", "rounded", "wrongly"),
    [
        ("3.14159", "3.1416", "3.1415"),
        (r"\pi", "3.14", "3.15"),
        ("2/3", "0.667", "0.666"),
        (r"10\pi \text{ cm}", r"31.4 \text{ cm}", r"31.5 \text{ cm}"),
        ("1/3, 2/3", "0.667, 0.333", "0.667, 0.334"),
    ],
)
def test_a_rounded_answer_is_the_reference_only_where_that_is_allowed(reference: str, rounded: str, wrongly: str):
    allowed = Options(allow_rounded=True)

    assert same(reference, rounded, allowed)
    assert not same(reference, wrongly, allowed)
    assert not same(reference, rounded)


def test_a_rounded_answer_needs_three_digits():
    assert not same("2/3", "0.7", Options(allow_rounded=True))
    assert not same("2/3", "1", Options(allow_rounded=True))


@pytest.mark.parametrize(
    ("reference", "answer", "forwards", "backwards"),
    [
        # A decimal of three digits is taken as rounded where the reference has it, not where the answer has it.
        ("0.458", r"\frac{27}{59}", True, False),
        ("0.46", r"\frac{27}{59}", False, False),
        # Where the logarithm of the square is real, 2 log x need not be.
        (r"2\log x", r"\log x^2", True, False),
        # The base that the reference has is like a unit; a base that only the answer has says something.
        ("101_2", "101", True, False),
        ("101_2", "5", False, True),
        # The reference gives the coordinates' order; so does a list for a tuple.
        ("(3, 1)", "3, 1", True, True),
        ("(3, 1)", "1, 3", False, False),
    ],
)
def test_the_reference_sets_the_form(reference: str, answer: str, forwards: bool, backwards: bool):
    assert same(reference, answer) is forwards
    assert same(answer, reference) is backwards


# ── the last stage ──

UNDECIDED = [
    # Factorials and binomials that have no value for the small whole numbers that are tried.
    (r"\frac{(n-10)!}{(n-11)!}", "n - 10", True),
    (r"\frac{(n-10)!}{(n-11)!}", "n - 11", False),
    (r"\binom{n}{12}", r"\binom{n}{n-12}", True),
]


@pytest.mark.parametrize(("left", "right", "same"), UNDECIDED)
def test_sympy_decides_what_no_point_can(left: str, right: str, same: bool):
    assert numeric.same_function(parse(left), parse(right)) is None
    assert equal(parse(left), parse(right)) is same


def test_sympy_is_not_asked_about_large_expressions_nor_about_what_it_does_not_know():
    large = " + ".join(f"x^{power}" for power in range(2, 2 + MAX_NODES // 2))

    assert not equal(parse(large), parse(large))
    assert not equal(parse("f(x)"), parse("f(x)"))
    assert equal(parse("(x+1)^2"), parse("x^2 + 2x + 1"))


@pytest.mark.parametrize(
    "text",
    [
        r"\sin x + \cos x",
        r"\sqrt{x} + \sqrt[3]{x}",
        r"\log_2 x + \ln x + e^{i\pi}",
        r"|x| + \lfloor x \rfloor + \lceil x \rceil",
        r"\binom{n}{2} + n! + n!!",
        r"\gcd(n, 6) + lcm(n, 4) + \max(x, 1) + \min(x, 1)",
        r"50\% + 30^\circ + 101_2 + 7 \bmod 3",
        r"-\frac{x}{2} \cdot x^2",
    ],
)
def test_everything_that_has_a_value_can_be_built_for_sympy(text: str):
    assert equal(parse(text), parse(text))
