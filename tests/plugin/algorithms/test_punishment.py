"""Group Relative Overlong Punishment, against values worked out by hand and a loop that does one group at a time."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from openrlhf_gtpo.algorithms.punishment import EASY_SHARE, overlong_punishment


def punish(length: list[int], correct: list[int], group: list[int] | None = None) -> list[float]:
    groups = torch.tensor(group or [0] * len(length))
    return overlong_punishment(torch.tensor(length), torch.tensor(correct).bool(), groups).tolist()


def test_in_an_easy_group_long_correct_responses_are_punished() -> None:
    # Correct lengths 100, 100, 400: L = max(250, 200) = 250; (400 - 250) / 500 = 0.3. The wrong one is left alone.
    assert punish([100, 100, 400, 900], [1, 1, 1, 0]) == pytest.approx([0, 0, -0.3, 0])


def test_in_a_hard_group_nobody_is_punished() -> None:
    assert punish([100, 100, 100, 900], [1, 0, 0, 0]) == [0, 0, 0, 0]


def test_in_a_mixed_group_the_larger_class_is_punished_by_the_length_of_all() -> None:
    # L = max((100 + 500) / 2, 220) = 300 over all; the correct are three of five.
    assert punish([100, 100, 500, 300, 100], [1, 1, 1, 0, 0]) == pytest.approx([0, 0, -200 / 600, 0, 0])
    # The wrong are three of five.
    assert punish([100, 100, 500, 300, 100], [1, 0, 0, 0, 1]) == pytest.approx([0, 0, -200 / 600, 0, 0])


def test_where_both_classes_are_of_one_size_the_wrong_ones_are_punished() -> None:
    assert punish([100, 500, 500, 100], [1, 1, 0, 0]) == pytest.approx([0, 0, -200 / 600, 0])


def naive(length: list[int], correct: list[bool], group: list[int]) -> list[float]:
    result = [0.0] * len(length)
    for g in set(group):
        members = [i for i in range(len(length)) if group[i] == g]
        right = [i for i in members if correct[i]]
        wrong = [i for i in members if not correct[i]]
        share = len(right) / len(members)
        if share >= EASY_SHARE:
            counted, punished = right, right
        elif share <= 1 - EASY_SHARE:
            continue
        else:
            counted, punished = members, right if len(right) > len(wrong) else wrong
        lengths = [length[i] for i in counted]
        limit = max((min(lengths) + max(lengths)) / 2, sum(lengths) / len(lengths))
        for i in punished:
            if length[i] >= 2 * limit:
                result[i] = -0.5
            elif length[i] >= limit and limit:
                result[i] = -(length[i] - limit) / (2 * limit)
    return result


@given(st.lists(st.tuples(st.integers(1, 4000), st.booleans(), st.integers(-3, 3)), min_size=1, max_size=60))
def test_it_agrees_with_a_loop_over_groups_in_any_order(rows: list[tuple[int, bool, int]]) -> None:
    length, correct, group = map(list, zip(*rows, strict=True))
    assert punish(length, correct, group) == pytest.approx(naive(length, correct, group))


def test_empty_responses_break_nothing() -> None:
    assert punish([0, 0], [1, 1]) == [0, 0]
