"""Questions with choices: the prompt says which letter a text is, and which text a letter."""

import pytest

from math_reward.grader import Verdict, grade
from math_reward.grader.choices import choices_of

LINE = "What is $9\\cdot 7$? (A) 56 (B) 63 (C) 72 (D) 81"
LINES = "数字9.8和9.11哪个大？\nA) 一样大\nB) 无法比较\nC) 9.8\nD) 9.11\n"
NO_SPACE = "What is half of 1240? Options: A)750 B)700 C)620 D)600"
YES_NO = "Are there fewer bikes than cars?\nChoices: (A) Yes; (B) No"
PARTS = "(a) Find $x$. (b) Find $y$. (c) Find $x + y$."


@pytest.mark.parametrize(
    ("prompt", "choices"),
    [
        (LINE, {"A": "56", "B": "63", "C": "72", "D": "81"}),
        (LINES, {"A": "一样大", "B": "无法比较", "C": "9.8", "D": "9.11"}),
        (NO_SPACE, {"A": "750", "B": "700", "C": "620", "D": "600"}),
        (YES_NO, {"A": "Yes", "B": "No"}),
        ("Q: 1+1? A. 1 B. 2 C. 3\nA: B\n\nQ: 2+2? A. 4 B. 5 C. 6", {"A": "4", "B": "5", "C": "6"}),
        ("Vitamin A. is not B.", {}),
        ("What is f(A) + f(B)?", {}),
    ],
)
def test_the_choices_of_the_last_question_are_read(prompt: str, choices: dict[str, str]):
    assert choices_of(prompt) == choices


@pytest.mark.parametrize(
    ("prompt", "reference", "completion", "verdict"),
    [
        (LINE, "63", "The answer is (B).", Verdict.CORRECT),
        (LINE, "B", "So it is 63.", Verdict.CORRECT),
        (LINE, "B", r"\boxed{63}", Verdict.CORRECT),
        (LINE, "B", r"\boxed{\text{(B) 63}}", Verdict.CORRECT),
        (LINE, "B", r"\boxed{72}", Verdict.WRONG),
        (LINE, "63", r"\boxed{C}", Verdict.WRONG),
        (LINE, "B", r"\boxed{\text{B) }72}", Verdict.AMBIGUOUS),
        (LINE, "B", "The answer is (B) 72.", Verdict.AMBIGUOUS),
        (LINE, "B", "**B. 72**", Verdict.AMBIGUOUS),
        (LINE, "64", r"\boxed{64}", Verdict.CORRECT),
        (LINES, "9.8", "答案：C", Verdict.CORRECT),
        (LINES, "C) 9.8", "答案：C", Verdict.CORRECT),
        (LINES, "9.8", "答案：D", Verdict.WRONG),
        (NO_SPACE, "C", "The correct answer is:\nC)620", Verdict.CORRECT),
        (NO_SPACE, "C", "C)600", Verdict.AMBIGUOUS),
        (YES_NO, "Yes", "So, the answer is A (Yes).", Verdict.CORRECT),
        (YES_NO, "Yes", "So the answer is (B), No.", Verdict.WRONG),
        (YES_NO, "A", '{"choice": "A", "text": "No"}', Verdict.AMBIGUOUS),
        (PARTS, "5", r"\boxed{5}", Verdict.CORRECT),
    ],
)
def test_a_letter_and_its_text_are_the_same_answer(prompt: str, reference: str, completion: str, verdict: Verdict):
    assert grade(f"{prompt}\n\n{completion}", reference, prompt=prompt).verdict is verdict


def test_one_of_several_references_may_be_the_choice():
    assert grade(f"{LINE}\nSo it is (B).", ["C", "63"], prompt=LINE).correct
