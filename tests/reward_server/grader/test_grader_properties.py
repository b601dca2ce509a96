r"""What must hold for all answers: reformatting changes nothing, a changed digit everything, and nothing raises.

``test_differential.py`` has numbers, expressions, sets and families, each with an evaluator of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from math_reward.grader import Mode, Options, Verdict, grade, grading

# The number of examples is bounded and not the time: the same tests run on every machine.
settings.register_profile("grader", max_examples=150, deadline=None, derandomize=True)
bounded = settings(settings.get_profile("grader"))


def accepted(reference: str, answer: str) -> bool:
    return grade(rf"Thus \boxed{{{answer}}}.", reference).correct


# ── answers as people write them, and the same with other looks ──

integers = st.integers(-(10**9), 10**9).map(str)
decimals = st.tuples(st.integers(-9999, 9999), st.integers(0, 999)).map(lambda n: f"{n[0]}.{n[1]:03d}")
fractions = st.tuples(st.integers(-99, 99), st.integers(2, 99)).map(lambda n: rf"\frac{{{n[0]}}}{{{n[1]}}}")
numbers = integers | decimals | fractions
polynomials = st.lists(st.integers(1, 99), min_size=2, max_size=4).map(
    lambda cs: " + ".join(f"{c}x^{{{power}}}" for power, c in enumerate(cs, start=1))
)
tuples = st.lists(numbers, min_size=2, max_size=4).map(lambda items: "(" + ", ".join(items) + ")")
sets = st.lists(numbers, min_size=1, max_size=4, unique=True).map(lambda items: r"\{" + ", ".join(items) + r"\}")
matrices = st.lists(st.tuples(numbers, numbers), min_size=1, max_size=3).map(
    lambda rows: r"\begin{pmatrix} " + r" \\ ".join(" & ".join(row) for row in rows) + r" \end{pmatrix}"
)
intervals = st.tuples(st.sampled_from("(["), st.integers(-99, 0), st.integers(1, 99), st.sampled_from(")]")).map(
    lambda part: f"{part[0]}{part[1]}, {part[2]}{part[3]}"
)
roots = st.tuples(st.integers(1, 99), st.integers(2, 99)).map(lambda n: rf"{n[0]} + \sqrt{{{n[1]}}}")
answers = st.one_of(numbers, polynomials, tuples, sets, matrices, intervals, roots)


def _with_left_and_right(text: str) -> str:
    if text[0] not in "([":
        return text
    return rf"\left{text[0]}{text[1:-1]}\right{text[-1]}"


REWRITTEN: dict[str, Callable[[str], str]] = {
    "as it is": lambda text: text,
    "dfrac": lambda text: text.replace(r"\frac", r"\dfrac"),
    "tfrac": lambda text: text.replace(r"\frac", r"\tfrac"),
    "left and right": _with_left_and_right,
    "Unicode minus": lambda text: text.replace("-", "−"),
    "thin spaces": lambda text: text.replace(", ", r",\,").replace(" + ", r"\,+\;"),
    "wide spaces": lambda text: text.replace(", ", " ,  ").replace(" + ", "   +\n"),
    "doubled backslashes": lambda text: text if "pmatrix" in text else text.replace("\\", "\\\\"),
}
WRAPPED = ["{}", "  {}\n ", "{}.", "${}$", "$$ {} $$", r"\({}\)", r"\[{}\]", r"\displaystyle {}", "${}$.", r"\,{}\;"]


@bounded
@given(answers, st.sampled_from(sorted(REWRITTEN)), st.sampled_from(WRAPPED))
def test_an_answer_equals_itself_however_it_is_formatted(answer: str, rewritten: str, wrapped: str):
    looks = wrapped.replace("{}", REWRITTEN[rewritten](answer))

    assert accepted(answer, looks)
    assert accepted(looks, answer)


@bounded
@given(
    numbers, st.sampled_from([r"\text{ cm}", r"\text{ apples}", " meters", r"^\circ", r"\%", r"\text{ square feet}"])
)
def test_a_unit_that_only_one_side_has_is_dropped(number: str, unit: str):
    assert accepted(number + unit, number)
    assert accepted(number, number + unit) or (
        unit == r"\%" and abs(value_of(number)) < 1
    )  # No half is half a per cent.


@bounded
@given(st.lists(numbers, min_size=2, max_size=5, unique_by=lambda text: value_of(text)), st.randoms())
def test_the_order_of_a_list_and_of_a_set_does_not_matter_and_that_of_a_tuple_does(items: list[str], source):
    shuffled = items[:]
    source.shuffle(shuffled)

    assert accepted(", ".join(items), ", ".join(shuffled))
    assert accepted(r"\{" + ", ".join(items) + r"\}", r"\{" + ", ".join(shuffled) + r"\}")
    assert accepted("(" + ", ".join(items) + ")", "(" + ", ".join(shuffled) + ")") == (items == shuffled)


def value_of(text: str) -> Fraction:
    match = re.fullmatch(r"\\frac\{(-?\d+)\}\{(\d+)\}", text)
    return Fraction(int(match[1]), int(match[2])) if match else Fraction(text)


@bounded
@given(st.one_of(integers, fractions, tuples, matrices, polynomials, intervals), st.data())
def test_a_changed_digit_is_never_accepted(answer: str, data: st.DataObject):
    places = [match.start() for match in re.finditer(r"\d", answer)]
    place = data.draw(st.sampled_from(places))
    digit = data.draw(st.sampled_from([d for d in "123456789" if d != answer[place]]))
    changed = answer[:place] + digit + answer[place + 1 :]
    # Another digit may be another spelling of the same: 0/7 and 0/8.
    assume(_numbers_in(changed) != _numbers_in(answer))

    assert not accepted(answer, changed)


def _numbers_in(text: str) -> list[Fraction]:
    return [value_of(part) for part in re.findall(r"\\frac\{-?\d+\}\{\d+\}|-?\d+(?:\.\d+)?", text)]


# ── nothing raises ──

PIECES = [
    "0", "1", "2", "42", "0.5", "1,000", "x", "y", "n", "e", "i", r"\pi", r"\infty", r"\frac", r"\frac{1}{2}",
    r"\sqrt", r"\sqrt[3]{", "{", "}", "(", ")", "[", "]", r"\{", r"\}", "|", "^", "_", "!", "%", r"\%", "$", r"\$",
    "+", "-", "*", "/", "=", "<", r"\le", r"\ne", r"\pm", r"\cup", r"\cap", r"\setminus", r"\in", ",", ";", ":", ".",
    "'", "&", r"\\", r"\cdot", r"\sin", r"\log_2", r"\binom{5}", r"\sum_{n=1}", r"\int", r"\text{", r"\text{cm}",
    r"\begin{pmatrix}", r"\end{pmatrix}", r"\boxed{", r"\mid", r"\circ", "°", "²", "½", "−", "√", "∞", "∪", "４",
    "and", "or", "f(x)=", "f'(", r"\max(", r"\gcd(1,", " ", r"\text{ or }", "9^{9^{9}}", "99999!",
]  # fmt: skip
formulas = st.lists(st.sampled_from(PIECES), max_size=24).map("".join)
options = st.builds(Options, st.sampled_from(Mode), st.sampled_from([0.0, 1e-3]), st.booleans())


@settings(bounded, max_examples=4000)
@given(formulas | st.text(max_size=60), formulas, options)
def test_nothing_that_is_written_makes_the_grader_fail(reference: str, answer: str, options: Options):
    results = [grade(completion, reference, options=options) for completion in (rf"\boxed{{{answer}}}", answer)]

    assert [result.detail for result in results if result.verdict is Verdict.ERROR] == []


@bounded
@given(formulas, formulas)
def test_the_same_question_has_the_same_answer(reference: str, answer: str):
    first = grade(rf"\boxed{{{answer}}}", reference)
    grading.forget()

    assert grade(rf"\boxed{{{answer}}}", reference) == first


@bounded
@given(formulas)
def test_a_usable_reference_is_its_own_answer(formula: str):
    result = grade(rf"\boxed{{{formula}}}", formula)
    usable = result.verdict is not Verdict.BAD_REFERENCE and result.answer == formula.strip()
    assume(usable and "boxed" not in formula and "####" not in formula)

    assert result.correct
