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
from math_reward.grader.verdict import Verdict

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


@pytest.mark.parametrize(
    ("completion", "reference"),
    [
        ("The sum of 40 and 2 is 42.", "42"),
        ("So the gcd of 84 and 126 = 42", "42"),
        ("the gcd of 84, 126 = 42", "42"),
        ("so 20% of 50 = 10", "10"),
        (r"20\% \text{ of } 50 = \boxed{10}", "10"),
        ("Therefore, the sum of the numbers between 10 and 20 is \\(\\boxed{75}\\).", "75"),
        ("so the probability that the sum rolled is 9 is \\(\\boxed{\\frac{1}{9}}\\).", r"\frac19"),
        (r"= 56 \left(\frac{1}{4}\right) = 56 : 4 = \boxed{14}", "14"),
        (r"We have $\&(-8)=-8-7=\boxed{-15}$.", "-15"),
        (r"f(3) = \boxed{42}", "42"),
        (r"a_5 = \boxed{42}", "42"),
        (r"so \log_2 8 = \boxed{3}", "3"),
        (r"1 + 2 + \cdots + 8 = \boxed{36}", "36"),
        ("Step 5 = 42", "42"),
        ("The value for n = 4 is 12", "12"),
        ("so 7^2 = 49 = 4 (mod 5)", "4"),
        ("so 7 x 7 = 49", "49"),
        ("so it is 5 * $3 = $15", "15"),
        ("so $1.50 = 150 cents", "150"),
        ("so 2/3 = 0.67", "0.67"),
        ("so 2/3 = 0.66", "0.66"),
        ("so 1/3 = 33%", "33%"),
        ("so 30/40*100 = 75%", "75%"),
        ("so 22/7 ≈ 3.14", "3.14"),
        ("so 398 ≈ 400", "400"),
        ("so 20/3 = 7 people, rounded up", "7"),
        ("so seven times six is forty-two", "42"),
        ("The square of seven is forty-nine.", "49"),
        ("so the larger one is forty-two", "42"),
    ],
)
def test_a_number_that_is_only_a_part_of_the_left_side_contradicts_nothing(completion: str, reference: str):
    assert grade(completion, reference).correct, grade(completion, reference)


@pytest.mark.parametrize(
    ("completion", "reference"),
    [
        ("so forty-one is forty-two", "42"),
        ("so one hundred and five is 106", "106"),
        (r"so 2 = \boxed{two and a half}", "two and a half"),
        (r"so 1/2 = \boxed{a third}", "a third"),
        ("so 2/3 = 1", "1"),
        ("so 41 ≈ 42", "42"),
        ("so 41 = 42, rounded", "42"),
        ("so 41 = 2*21", "42"),
        ("so 41 = 6 * 7 = 42", "42"),
        ("x = 3 and 41 = 42", "42"),
        ("so 41 = 42 is the result", "42"),
        (r"so 1/2 = \frac{1}{3}", "1/3"),
        (r"so $\sqrt{2} = \boxed{2}$", "2"),
        ("Result: 41 = $42$", "42"),
        ("The answer is 41 = $42$.", "42"),
        ("<answer>so 41 = 42</answer>", "42"),
        (r"<|begin_of_box|>41 = 42<|end_of_box|>", "42"),
    ],
)
def test_other_forms_of_a_contradiction_are_not_paid(completion: str, reference: str):
    assert not grade(completion, reference).correct, grade(completion, reference)


def test_it_is_told_which_equation_is_false():
    found = grade("I add them, so 40 + 1 = 42.", "42")
    assert (found.verdict, found.answer) == (Verdict.AMBIGUOUS, "40 + 1 = 42")


def test_a_reference_in_prose_that_contradicts_itself_is_no_reference():
    solution = "To find the answer we add the apples of Janet to those of her brother, who has one, so 40 + 1 = {}"
    assert grade("42", solution.format(42)).verdict is Verdict.BAD_REFERENCE
    assert grade("41", solution.format(41)).correct


@pytest.mark.parametrize("before", ["Suppose that 41 = 42. ", "1/2 = 1/3, "])
@pytest.mark.parametrize("final", ["The answer is 42.", r"So it is \boxed{42}.", "so x = 42"])
def test_only_the_final_statement_is_judged(before: str, final: str):
    """A proof by contradiction has one on the way."""
    assert grade(before + final, "42").correct


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
