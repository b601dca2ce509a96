"""The grader as a library: what a grade says besides what ``own_rows.jsonl`` asks, and where the limits are."""

import pytest

from math_reward.grader import Mode, Options, Verdict, grade

from ...refusals import assert_refusal

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


def test_a_completion_that_is_no_text_is_an_error_that_names_its_type():
    result = grade(42, "42")  # type: ignore[arg-type]

    assert result.verdict is Verdict.ERROR
    assert_refusal(str(result.detail), "int")


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


def test_an_answer_within_the_limits_is_looked_at():
    assert grade(rf"\boxed{{{'9' * 400}}}", "9" * 400).verdict is Verdict.CORRECT


def test_a_mode_may_be_given_by_its_name_and_no_other_word():
    assert Options(mode="strict") == Options(mode=Mode.STRICT)  # type: ignore[arg-type]
    assert grade("It is 42", "42", options=Options(mode="strict")).verdict is Verdict.NO_ANSWER  # type: ignore[arg-type]

    with pytest.raises(ValueError, match="mode") as refused:
        Options(mode="stric")  # type: ignore[arg-type]
    assert_refusal(str(refused.value), "'lenient'")
