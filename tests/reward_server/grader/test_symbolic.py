r"""The last stage of a comparison: SymPy, where no point decides."""

import pytest

from math_reward.grader.mathematics import numeric
from math_reward.grader.mathematics.symbolic import MAX_NODES, equal
from math_reward.grader.notation.parse import parse

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
