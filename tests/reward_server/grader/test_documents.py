r"""A completion as a document: what is a part of it, what only dresses the answer, and what takes it back."""

import itertools
import sys
from pathlib import Path

import pytest

from math_reward.grader import Verdict, grade
from math_reward.grader.extraction.around import DENIALS, Denial

from ...scripts import script

DOCUMENTS = 4_000

RIGHT = [
    (r"\boxed{42}. Note that 43 would be wrong.", "42"),
    (r"\boxed{42}. A common mistake is to forget the sign.", "42"),
    (r"\boxed{42}, not 43.", "42"),
    (r"So it is \boxed{C}, since A and B are false.", "C"),
    (r"The statement is not true, so \boxed{\text{No}}.", "No"),
    (r"It's not difficult to see that it is \boxed{42}.", "42"),
    (r"If the answer is an integer, it must be \boxed{42}.", "42"),
    (r"The wrong approach gives 7. The right one gives \boxed{42}", "42"),
    (r"Some say 7 but it is \boxed{42}", "42"),
    (r"$3 \times 14 = \boxed{42}$", "42"),
    (r"$\boxed{42} = 3 \times 14$", "42"),
    ("Total: 40 + 2\n" + r"\boxed{42}", "42"),
    (r"Answer - \boxed{42}", "42"),
    ("- " + r"\boxed{42}", "42"),
    (r"$-\boxed{42}$", "-42"),
    (r"$x \equiv \boxed{9} \pmod{11}$", "9"),
    (r"$\boxed{25}^\circ$ C", "25"),
    (r"\boxed{5} \text{ cm}^2", "5"),
    (r"\boxed{42}. So the final answer is 42 apples.", "42"),
    (r"\boxed{\frac12}. So the answer is 0.5", "1/2"),
    (r"\boxed{42}. So the correct option is (B).", "42"),
    (r"\boxed{\sqrt2}. The answer is approximately 1.414.", r"\sqrt2"),
    ("\\boxed{12}\n\nActually, to explain: the first term is 3.", "12"),
    ("so boxed{42}.", "42"),
    ("\x08oxed{42}", "42"),
    (r"\framebox[2cm][c]{42}", "42"),
    (r"\boxed{\text{The answer is B}}", "B"),
    (r"\boxed{42\text{ since }6\cdot7=42}", "42"),
    ("\\boxed{2\n\n3}", "2, 3"),
    (r"\boxed{x} = \boxed{42}", "42"),
    ('```json\n{\n    "answer": "42",\n}\n```', "42"),
    ('{"reasoning": "a, b", "answer": "7\\\\sqrt{17}/24"}', r"\frac{7\sqrt{17}}{24}"),
    ('{"final_answer": [1, 2]}', "1, 2"),
    ("The answer is `42`.", "42"),
    ("The answer is “42”.", "42"),
    ("> 42", "42"),
    ("<b>42</b>", "42"),
    ("*A*", "A"),
    ("Choice: (C)", "C"),
    ("Answer – B", "B"),
    ("[D] is correct", "D"),
    ("所以选项D是正确答案。", "D"),
    (r"\boxed{D) I, III and IV}", "D"),
    (r"\boxed{No, it has no solution near $0$.}", "No"),
    (r"The answer is 3 $\frac{1}{2}$", r"3\frac{1}{2}"),
    ("Thus h = 3 + 2√2.", r"3 + 2\sqrt{2}"),
    ("Hence, (B) is the correct option.", "B"),
    ("Option A is incorrect, so the answer is B.", "B"),
    ("正确答案是B，不是C。", "B"),
    (r"The final answer is 12. $\blacksquare$", "12"),
    ("So the answer is 12 (since 5 + 7 = 12).", "12"),
    ("The answer is 12 cm, i.e. 0.12 m.", "12"),
    ("So, 12 it is.", "12"),
    ("7 + 6 = 13 is the total number of cards.", "13"),
    ("so 12 / 4 = 3 times to pay for both of them", "3"),
]
WRONG = [
    (r"\boxed{42}? No.", "42"),
    (r"\boxed{42}. The answer is 43.", "42"),
    (r"\boxed{42} I made a mistake; it should be 43.", "42"),
    (r"\boxed{B}. So the answer is C.", "B"),
    (r"\boxed{42} is what a careless solver gets.", "42"),
    (r"If we forget a case we get \boxed{42}.", "42"),
    (r"Suppose the answer were \boxed{42}. Contradiction.", "42"),
    (r"Some people claim that \boxed{42} is right.", "42"),
    (r"The answer is not equal to \boxed{42}.", "42"),
    (r"The answer is half of \boxed{42}.", "42"),
    (r"-\boxed{42}", "42"),
    (r"\frac{1}{\boxed{42}}", "42"),
    (r"1-\boxed{42}", "42"),
    (r"\boxed{42}^2", "42"),
    (r"\boxed{4}2", "4"),
    (r"x<\boxed{42}", "42"),
    (r"\boxed{42} (or \boxed{43})", "43"),
    (r"\boxed{43} == \boxed{42} is True", "42"),
    (r"\boxed{42\text{は間違い}}", "42"),
    (r"\boxed{42\text{ тысячи}}", "42"),
    ("\\boxed{43}\n% \\boxed{42}", "42"),
    (r"\boxed{43} <!-- \boxed{42} -->", "42"),
    ("```python\nassert answer == 42\n```", "42"),
    ("assert answer == 42", "42"),
    ("In 42 steps we find the answer.", "42"),
    ("There is no answer 42.", "42"),
    ("If x = 42 it fails.", "42"),
    ("We tried 42 cases.", "42"),
    ("See equation (42).", "42"),
    ("42 is the wrong answer.", "42"),
    ("Option A is incorrect, so the answer is B.", "A"),
    ("The answer is the number of divisors of 42.", "42"),
    ("Recall that 5 + 7 equals", "12"),
    (r"\boxed{Yes, it is not}", "Yes"),
    (r"\boxed{\text{yes, i.e. no}}", "Yes"),
    (r"\boxed{\not= 42}", "42"),
]


@pytest.mark.parametrize(("completion", "reference"), RIGHT)
def test_a_right_answer_is_found_in_its_dress(completion: str, reference: str):
    assert grade(completion, reference).correct, grade(completion, reference)


@pytest.mark.parametrize(("completion", "reference"), WRONG)
def test_what_the_text_takes_back_or_changes_is_not_paid(completion: str, reference: str):
    assert not grade(completion, reference).correct


@pytest.mark.parametrize("denial", DENIALS, ids=lambda denial: denial.language)
def test_every_language_can_take_an_answer_back(denial: Denial):
    assert grade(denial.example, "42").verdict is Verdict.AMBIGUOUS


def test_generated_documents_are_paid_exactly_where_their_answer_is_right():
    script(Path(__file__).resolve().parents[2] / "benchmarks" / "differential.py")
    generated = sys.modules["generated.documents"]
    documents = list(itertools.islice(generated.documents(seed=3), DOCUMENTS))
    wrong = [one for one in documents if grade(one.completion, one.reference).correct != one.same]

    assert {one.kind for one in documents} == set(generated.NAMES)
    assert wrong == []
