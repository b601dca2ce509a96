"""The grader as a library: which verdict for which completion and reference."""

import subprocess
import sys

import pytest

from math_reward.grader import Mode, Options, Stage, Verdict, cache_info, grade

from ...refusals import assert_refusal

BOX = r"So the answer is $\boxed{%s}$."

ACCEPTED = [
    # The reference as plain text, and the same in LaTeX.
    ("42", BOX % "42"),
    ("3/4", BOX % r"\frac{3}{4}"),
    ("3/4", BOX % "0.75"),
    (r"\frac{1}{2}", BOX % r"\dfrac12"),
    ("x^2+1", BOX % "1 + x^2"),
    ("(1,2)", BOX % "(1, 2)"),
    ("$x = 5$", BOX % "5"),
    (r"\[ 7 \]", BOX % "7"),
    (r"\boxed{7}", BOX % "7.0"),
    ("She has 3 + 4 = <<3+4=7>>7 apples.\n#### 7", BOX % "7"),
    ("-5", BOX % "-5"),
    ("1,000", BOX % "1000"),
    ("1 000", BOX % "1000"),
    ("1e-05", BOX % "0.00001"),
    ("$5", BOX % "5"),
    ("10", BOX % r"\$10"),
    ("50%", BOX % r"50\%"),
    ("42.", BOX % "42"),
    ("x\n+ 1", BOX % "x+1"),
    (r"\text{Evelyn}", BOX % r"\text{Evelyn}"),
    ("{1,2}", BOX % "2, 1"),
    ("[0,1)", BOX % "[0, 1)"),
    (r"2\sqrt{3}", BOX % r"\sqrt{12}"),
    # Which part of the completion is the answer.
    ("42", r"First \boxed{41}, but no: \boxed{42}"),
    ("42", r"<think>perhaps \boxed{41}</think> It is \boxed{42}."),
    ("42", r"\boxed{\boxed{42}}"),
    ("42", r"\fbox{42}"),
    ("42", r"\boxed{42} \boxed{42}"),
    ("1/2", r"\boxed{\frac{1}{2}} and an unfinished \boxed{"),
    ("{1,2,3}", r"\boxed{1}, \boxed{2} and \boxed{3}"),
    ("42", "6 times 7, so the final answer is 42."),
    ("42", "6 * 7 is\n#### 42"),
    (r"\frac{1}{2}", r"The answer is $\frac{1}{2}$."),
]

HEDGED = [
    ("42", r"\boxed{42}, \boxed{43}"),
    ("42", r"\boxed{42} or \boxed{43}"),
    ("42", BOX % "42, 43"),
    ("42", BOX % r"42 \text{ or } 43"),
    ("42", BOX % r"\pm 42"),
    ("42", BOX % "41 = 42"),
    ("42", BOX % r"42 \approx 43"),
]

REJECTED = [
    ("42", BOX % "41"),
    ("42", r"It is \boxed{42}. No, it is \boxed{43}."),
    ("42", r"<think>It is \boxed{42}.</think> I say \boxed{43}."),
    ("42", "The answer is 43."),
    ("0", BOX % r"1000 \neq 0"),
    ("1 000", BOX % "0"),
    ("1e-5", BOX % "1"),
    ("2", BOX % "2√3"),
    (r"2\sqrt{3}", BOX % "2"),
    ("x^2+1", BOX % "1"),
    ("x = 5", BOX % "6"),
    ("[0,1)", BOX % "[0,1]"),
    ("(1,2,3)", BOX % "(3,2,1)"),
    ("42", BOX % "__import__('os').getpid()"),
]


@pytest.mark.parametrize(("reference", "completion"), ACCEPTED)
def test_an_equal_answer_is_correct(reference: str, completion: str):
    result = grade(completion, reference)

    assert (result.verdict, result.correct, result.reward) == (Verdict.CORRECT, True, 1.0)
    assert result.answer
    assert result.reference == reference


@pytest.mark.parametrize(("reference", "completion"), REJECTED)
def test_another_answer_is_wrong(reference: str, completion: str):
    result = grade(completion, reference)

    assert (result.verdict, result.correct, result.reward) == (Verdict.WRONG, False, 0.0)
    assert result.answer


@pytest.mark.parametrize(("reference", "completion"), HEDGED)
def test_an_answer_that_hedges_or_contradicts_itself_is_ambiguous_and_not_paid(reference: str, completion: str):
    result = grade(completion, reference)

    assert (result.verdict, result.correct, result.reward) == (Verdict.AMBIGUOUS, False, 0.0)
    assert_refusal(str(result.detail))


REFUSED = [
    ("1/0", Verdict.WRONG),
    ("1 +", Verdict.WRONG),
    ("9^{9^{9}}", Verdict.TOO_COMPLEX),
    ("9" * 2001, Verdict.TOO_COMPLEX),
    ("9" * 401, Verdict.TOO_COMPLEX),
    ("(" * 61 + "1" + ")" * 61, Verdict.TOO_COMPLEX),
    ("1+" * 1000 + "1", Verdict.TOO_COMPLEX),
]


@pytest.mark.parametrize(("answer", "verdict"), REFUSED)
def test_an_answer_that_is_not_compared_has_a_verdict_and_a_reason(answer: str, verdict: Verdict):
    result = grade(rf"\boxed{{{answer}}}", "42")

    assert (result.verdict, result.reward) == (verdict, 0.0)
    assert_refusal(str(result.detail))


def test_of_several_references_the_one_that_matches_is_named():
    assert grade(r"\boxed{43}", ["42", "43"]).reference == "43"
    assert grade(r"\boxed{44}", ["42", "43"]).reference == "42"
    assert grade(r"\boxed{43}", ["???", "43"]).verdict is Verdict.CORRECT
    assert grade(r"\boxed{43}", ["???", ""]).verdict is Verdict.BAD_REFERENCE


@pytest.mark.parametrize(("reference", "answer"), [(42, "42"), (42.0, "42"), (0.5, r"\frac12"), (-3, "-3")])
def test_a_reference_may_be_a_number(reference: float, answer: str):
    assert grade(rf"\boxed{{{answer}}}", reference).verdict is Verdict.CORRECT


@pytest.mark.parametrize("reference", [None, [], {}, True, "None", "nan", "null"])
def test_what_is_no_answer_at_all_is_a_bad_reference(reference: object):
    assert grade(r"\boxed{1}", reference).verdict is Verdict.BAD_REFERENCE  # type: ignore[arg-type]


def test_a_completion_that_is_no_text_is_an_error_that_names_its_type():
    result = grade(42, "42")  # type: ignore[arg-type]

    assert result.verdict is Verdict.ERROR
    assert_refusal(str(result.detail), "int")


def test_in_strict_mode_only_a_box_is_an_answer():
    strict = Options(mode=Mode.STRICT)

    assert grade("The answer is 42.", "42", options=strict).verdict is Verdict.NO_ANSWER
    assert grade(r"The answer is \boxed{42}.", "42", options=strict).verdict is Verdict.CORRECT


@pytest.mark.parametrize(
    ("reference", "answer", "stage"),
    [
        ("42", "42", Stage.STRING),
        (r"\dfrac{1}{2}", r"\frac{1}{2}", Stage.STRING),
        ("42", "042", Stage.EXACT),
        ("1/2", "0.5", Stage.EXACT),
        ("{1, 2}", "{2, 1}", Stage.STRUCTURE),
        ("x > 2", r"(2, \infty)", Stage.STRUCTURE),
        ("(x+1)^2", "x^2+2x+1", Stage.NUMERIC),
        (r"\sqrt{8}", r"2\sqrt2", Stage.NUMERIC),
        (r"(1, \sqrt8, \pi)", r"(1, 2\sqrt2, \pi)", Stage.NUMERIC),
        (r"\frac{(n-10)!}{(n-11)!}", "n-10", Stage.SYMPY),
    ],
)
def test_a_grade_names_the_latest_stage_that_was_needed(reference: str, answer: str, stage: Stage):
    result = grade(rf"\boxed{{{answer}}}", reference)

    assert (result.verdict, result.stage) == (Verdict.CORRECT, stage)


def test_equal_questions_are_answered_from_the_cache():
    before = cache_info()
    for _ in range(3):
        grade(r"\boxed{271828 + 1}", "271829")
    after = cache_info()

    assert after["verdict"][0] - before["verdict"][0] == 2
    assert after["verdict"][1] - before["verdict"][1] == 1


@pytest.mark.parametrize(
    ("completion", "before", "answer"),
    [
        ("so \\boxed{42}, and not 42.", "so \\boxed{", "42"),
        ("\\boxed{7} then \\boxed{ \\frac{1}{2} } is it", "\\boxed{7} then \\boxed{ ", "\\frac{1}{2}"),
        (
            "<think>It is 41.</think> The answer is 7 because 3+4=7",
            "<think>It is 41.</think> The answer is 7 because 3+4=",
            "7",
        ),
        ("<|begin_of_box|>5<|end_of_box|> 5", "<|begin_of_box|>", "5"),
        ("It is 12 apples<|im_end|>\n<|im_start|>user\nIs it 12 apples?", "It is ", "12"),
        ("x" * 200_000 + "\nThe answer is $x=3$.", "x" * 200_000 + "\nThe answer is $", "x=3"),
    ],
    ids=[
        "a box",
        "the last box",
        "after a thought",
        "a box of tokens",
        "before the next turn",
        "at the end of a long text",
    ],
)
def test_a_grade_says_where_its_answer_stands(completion: str, before: str, answer: str):
    graded = grade(completion, "1")
    assert (graded.answer, graded.span) == (answer, (len(before), len(before) + len(answer)))


@pytest.mark.parametrize("completion", ["I do not know.", "\\boxed{1}, \\boxed{2}"], ids=["none", "two boxes"])
def test_an_answer_that_stands_nowhere_as_it_is_has_no_place(completion: str):
    assert grade(completion, "1").span is None


def test_the_answer_is_what_the_last_box_holds():
    assert grade(r"\boxed{1}, so \boxed{ \frac{1}{2} }", "3").answer == r"\frac{1}{2}"


@pytest.mark.parametrize(
    "completion",
    [
        "",
        "   \n",
        "I do not know.",
        r"\boxed{}",
        r"It is \boxed{42",
        r"<think>\boxed{42}</think>",
        r"<think>It is \boxed{42}.</think> Hm.",
    ],
)
def test_a_completion_without_a_final_answer_is_no_answer(completion: str):
    result = grade(completion, "42")

    assert (result.verdict, result.answer, result.reward) == (Verdict.NO_ANSWER, None, 0.0)


@pytest.mark.parametrize(
    "reference", ["", "  ", "$ $", r"\boxed{}", "???", r"\frac{1}{", "1+", "9" * 401, "x+" * 1000 + "x"]
)
@pytest.mark.parametrize("completion", [r"\boxed{42}", r"\boxed{}", "no box"])
def test_a_reference_that_is_no_mathematics_is_a_bad_reference_whatever_the_completion(
    reference: str, completion: str
):
    result = grade(completion, reference)

    assert (result.verdict, result.reward) == (Verdict.BAD_REFERENCE, 0.0)
    assert_refusal(str(result.detail), "reference")


def test_a_bad_reference_is_not_paid_even_where_the_completion_repeats_it():
    assert grade(r"\boxed{???}", "???").verdict is Verdict.BAD_REFERENCE


def test_an_answer_within_the_limits_is_looked_at():
    assert grade(rf"\boxed{{{'9' * 400}}}", "9" * 400).verdict is Verdict.CORRECT


def test_the_prompt_is_cut_off_before_grading():
    prompt = r"Example: 1+1 = \boxed{2}. Now 6*7 = "

    assert grade(prompt + r"\boxed{42}", "42", prompt).verdict is Verdict.CORRECT
    assert grade(prompt + "I do not know", "2", prompt).verdict is Verdict.NO_ANSWER
    assert grade(r"\boxed{42}", "42", prompt).verdict is Verdict.PROMPT_NOT_FOUND


def test_the_grader_needs_neither_torch_nor_the_web_framework():
    code = (
        "import sys, math_reward.pool.worker_pool;"
        "print(*{'torch', 'fastapi', 'uvicorn'} & set(sys.modules), sep='', end='.')"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "."
