"""The tasks of the comparisons: what is right by a second reading, and demonstrations that slip as often as they are
said to."""

import random
import re

import gates
import wordings
from gates import Row
from math_reward.grader import Verdict, grade

task = gates.TASK
words = wordings.TASK


def test_a_gate_multiplies_or_adds_by_a_property_of_the_digit() -> None:
    # c multiplies by 9 what is divisible by 3, else adds 3; f adds 6 to odd digits, else multiplies by 9.
    assert task.worked(Row("cf", 6)) == "c6*9=4\nf4*9=6\n\\boxed{6}"
    assert task.worked(Row("cf", 2)) == "c2+3=5\nf5+6=1\n\\boxed{1}"
    assert task.question(Row("cf", 2)) == "Gates cf on 2?"


def test_the_answer_is_that_of_the_worked_response_for_every_row() -> None:
    for row in task.expressions(500, 3, held_out=False):
        assert task.worked(row).endswith(f"\\boxed{{{task.answer(row)}}}")
        digit = row.digit
        for line, letter in zip(task.worked(row).splitlines(), row.letters, strict=False):
            assert line.startswith(f"{letter}{digit}")
            left, digit = line[1:].split("=")[0], int(line[-1])
            assert eval(left) % 10 == digit  # an independent reading: digits, one sign


def test_each_operation_has_eight_wordings_and_all_of_them_lead_to_the_same_result() -> None:
    # c multiplies by 9 what is divisible by 3, else adds 3.
    row = Row("c", 6)
    responses = {words.worked(row, rng=random.Random(seed)) for seed in range(300)}
    assert responses == {f"c6{word}9=4\n\\boxed{{4}}" for word in wordings.MULTIPLY}
    assert len(set(wordings.MULTIPLY + wordings.ADD)) == 16
    assert {words.worked(row, 1.0, random.Random(seed)) for seed in range(300)} == {
        f"c6{word}3=9\n\\boxed{{9}}" for word in wordings.ADD
    }


def test_right_responses_of_one_question_differ_and_are_all_graded_right() -> None:
    for row in words.expressions(20, 5, held_out=True):
        responses = {words.worked(row, rng=random.Random(seed)) for seed in range(20)}
        assert len(responses) == 20, "of at least 8 ** 8 wordings"
        assert all(grade(response, words.answer(row)).verdict is Verdict.CORRECT for response in responses)


def test_every_line_of_a_worked_response_is_right_arithmetic() -> None:
    for row in words.expressions(200, 6, held_out=False):
        digit = row.digit
        for line, letter in zip(words.worked(row, rng=random.Random(1)).splitlines(), row.letters, strict=False):
            match = re.fullmatch(r"(.)(\d)(.+)(\d)=(\d)", line)
            assert match is not None
            left, word, right, result = int(match[2]), match[3], int(match[4]), int(match[5])
            assert (match[1], left) == (letter, digit)
            digit = (left * right if word in wordings.MULTIPLY else left + right) % 10
            assert result == digit
