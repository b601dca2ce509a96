"""Questions with choices: the prompt says which letter a text is, and which text a letter (see ``own_rows.jsonl``)."""

import pytest

from math_reward.grader.choices import choices_of

LINE = "What is $9\\cdot 7$? (A) 56 (B) 63 (C) 72 (D) 81"
LINES = "数字9.8和9.11哪个大？\nA) 一样大\nB) 无法比较\nC) 9.8\nD) 9.11\n"
NO_SPACE = "What is half of 1240? Options: A)750 B)700 C)620 D)600"
YES_NO = "Are there fewer bikes than cars?\nChoices: (A) Yes; (B) No"


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
