"""A final statement that equates two different numbers is never paid, boxed or not; one that equates equal ones is."""

import json
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from math_reward.grader import grade

LEADS = [
    "", "so ", "So ", "Thus, ", "Hence ", "Therefore ", "then ", "We get ", "and so ", "It follows that ",
    "This gives ", "Janet has 5 apples.\nSo ", "We know n > 3. ", "As x = 3, we have ", "x = ", "so x = ",
    "Thus the total is ", "First line\n", "• one\n• ", "⇒ ", "∴ ", "所以", "Since 2 + 2 = 4, we find that ", "(so ",
]  # fmt: skip
ENDS = ["", ".", "!", " ", "\n", " apples.", ".\n", " dollars", "。"]
QUIET_ENDS = [end for end in ENDS if end != "!"]
"""3! is six."""
VERBS = [" = ", "=", " equals ", " is equal to ", " is the same as ", " is "]
"""``x = 41 is 42`` is about x where it is 41, so a verb does not go on a chain."""
WHOLE = st.integers(-999, 99_999)


def plain(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else f"{value.numerator}/{value.denominator}"


def latex(value: Fraction) -> str:
    sign = "-" if value < 0 else ""
    return rf"{sign}\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"


def decimal(value: Fraction) -> str:
    """Of hundredths."""
    return f"{float(value):.2f}"


def percent(value: Fraction) -> str:
    return f"{float(value * 100):g}%"


WRITINGS: dict[str, tuple[st.SearchStrategy[Fraction], Callable[[Fraction], str]]] = {
    "whole": (WHOLE.map(Fraction), plain),
    "thousands": (st.integers(1000, 10**7).map(Fraction), lambda value: f"{int(value):,}"),
    "fraction": (st.fractions(-50, 50, max_denominator=40), plain),
    "latex": (st.fractions(-50, 50, max_denominator=40), latex),
    "decimal": (st.integers(-9999, 9999).map(lambda n: Fraction(n, 100)), decimal),
    "percent": (st.integers(1, 300).map(lambda n: Fraction(n, 100)), percent),
}
OPERATIONS: list[Callable[[int, int], tuple[str, int]]] = [
    lambda a, b: (f"{a} + {b}", a + b),
    lambda a, b: (f"{a}*{b}", a * b),
    lambda a, b: (rf"{a} \cdot {b}", a * b),
    lambda a, b: (rf"{a} \times {b}", a * b),
    lambda a, b: (f"{a} x {b}", a * b),
    lambda a, b: (f"{a} - {b}", a - b),
    lambda a, b: (f"({a} + {b}) * 2", 2 * (a + b)),
    lambda a, b: (f"{a}^2 + {b}", a * a + b),
]
CALCULATIONS = st.builds(
    lambda operation, a, b: operation(a, b), st.sampled_from(OPERATIONS), st.integers(1, 99), st.integers(1, 99)
).map(lambda pair: (pair[0], Fraction(pair[1])))


@st.composite
def written(draw: st.DrawFn) -> tuple[str, Fraction]:
    """A number as it may stand in an answer."""
    values, write = WRITINGS[draw(st.sampled_from(sorted(WRITINGS)))]
    value = draw(values)
    return write(value), value


SIDES = st.one_of(written(), CALCULATIONS)


def may_be_rounded(left: Fraction, right: str, value: Fraction) -> bool:
    """Whether a decimal on the right may be the left side, rounded or cut off in its last place."""
    return ("." in right or "%" in right) and abs(left - value) < Fraction(1, 100)


@st.composite
def contradictions(draw: st.DrawFn) -> tuple[str, str]:
    """An equation between different numbers, and its right side."""
    (left, first), (right, second) = draw(SIDES), draw(written())
    assume(first != second)
    assume(not may_be_rounded(first, right, second))
    if ("%" in left) != ("%" in right):  # the sign may be left off: "30/40 × 100 = 75 %"
        assume(first != second * 100 and first * 100 != second)
        assume(not may_be_rounded(first / 100, right, second))
    return left, right


@st.composite
def completions(draw: st.DrawFn) -> tuple[str, str]:
    """A completion whose final statement contradicts itself, and the number on its right."""
    left, right = draw(contradictions())
    lead, end = draw(st.sampled_from(LEADS)), draw(st.sampled_from(ENDS))
    verb = draw(st.sampled_from(VERBS))
    if lead.endswith(("= ", "is ")):
        verb = " = "
    form = draw(st.sampled_from(["{l}{v}{r}", "${l}$ {v} ${r}$", "${l} = {r}$", r"\({l} = {r}\)", "**{l} = {r}**"]))
    equation = form.format(l=left, v=verb if verb.strip() else " = ", r=right)
    return lead + equation + end, right


@st.composite
def boxed(draw: st.DrawFn) -> tuple[str, str]:
    left, right = draw(contradictions())
    lead = draw(st.sampled_from(LEADS))
    form = draw(
        st.sampled_from(
            [
                r"$\boxed{{{l} = {r}}}$",
                r"{l} = \boxed{{{r}}}",
                r"${l} = \boxed{{{r}}}$.",
                r"\[ {l} = \boxed{{{r}}} \]",
                r"\boxed{{x = {l} = {r}}}",
                r"${l}$ is $\boxed{{{r}}}$",
            ]
        )
    )
    assume(not (" is " in form and lead.endswith(("= ", "is "))))
    return lead + form.format(l=left, r=right.replace("%", r"\%")), right


@given(case=completions())
@example(case=("so 41 = 42", "42"))
def test_a_contradiction_in_prose_is_never_paid(case: tuple[str, str]):
    completion, right = case
    assert not grade(completion, right).correct, grade(completion, right)


@given(case=boxed())
@example(case=(r"41 = \boxed{42}", "42"))
def test_a_contradiction_with_a_box_is_never_paid(case: tuple[str, str]):
    completion, right = case
    assert not grade(completion, right).correct, grade(completion, right)


@given(side=CALCULATIONS, lead=st.sampled_from(LEADS), end=st.sampled_from(QUIET_ENDS), inside=st.booleans())
def test_a_true_equation_is_paid_in_the_same_places(side: tuple[str, Fraction], lead: str, end: str, inside: bool):
    left, value = side
    completion = rf"{lead}${left} = \boxed{{{value}}}${end}" if inside else f"{lead}{left} = {value}{end}"
    assume(inside or " x " not in left)  # Without words it is a formula, in which x is a variable.
    assert grade(completion, plain(value)).correct, grade(completion, plain(value))


@pytest.fixture(scope="module")
def service(serve: Callable[..., Any]) -> Any:
    return serve("--workers", "1").when_ready().client


@pytest.mark.parametrize("completion", ["so 41 = 42", r"$41 = \boxed{42}$", r"\boxed{41 = 42}", "1/2 is 42"])
def test_command_service_and_library_say_the_same(completion: str, service: Any):
    command = [sys.executable, "-m", "math_reward", "grade", completion, "42", "--json"]
    printed = json.loads(subprocess.run(command, capture_output=True, text=True).stdout)
    items = [{"completion": completion, "reference": "42"}]
    (answered,) = service.post("/v1/grade", json={"items": items}).json()["results"]
    rewarded = service.post("/get_reward", json={"query": [completion], "prompts": [""], "labels": ["42"]}).json()
    own = grade(completion, "42").as_dict()
    assert printed == {name: answered[name] for name in printed} == own
    assert (own["verdict"], own["reward"], rewarded["rewards"]) == ("ambiguous", 0.0, 0.0)
