"""Group Relative Overlong Punishment, against values worked out by hand and a loop that does one group at a time."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from openrlhf_gtpo.algorithms.punishment import EASY_SHARE, overlong_punishment


def punish(length: list[int], correct: list[int], group: list[int] | None = None) -> list[float]:
    groups = torch.tensor(group or [0] * len(length))
    return overlong_punishment(torch.tensor(length), torch.tensor(correct).bool(), groups).tolist()


@pytest.mark.parametrize(
    ("length", "correct", "expected"),
    [
        # Easy. Correct lengths 100, 100, 400: L = max(250, 200); (400 - 250) / 500. The wrong one is left alone.
        ([100, 100, 400, 900], [1, 1, 1, 0], [0, 0, -0.3, 0]),
        # Hard.
        ([100, 100, 100, 900], [1, 0, 0, 0], [0, 0, 0, 0]),
        # Mixed: L = max((100 + 500) / 2, 220) = 300 over all, and the larger class is punished.
        ([100, 100, 500, 300, 100], [1, 1, 1, 0, 0], [0, 0, -200 / 600, 0, 0]),
        ([100, 100, 500, 300, 100], [1, 0, 0, 0, 1], [0, 0, -200 / 600, 0, 0]),
        # Both classes are of one size: the wrong ones are.
        ([100, 500, 500, 100], [1, 1, 0, 0], [0, 0, -200 / 600, 0]),
        ([0, 0], [1, 1], [0, 0]),
    ],
)
def test_a_groups_punishments_are_those_worked_out_by_hand(
    length: list[int], correct: list[int], expected: list[float]
) -> None:
    assert punish(length, correct) == pytest.approx(expected)


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
