"""Reductions over groups."""

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from openrlhf_gtpo.algorithms.groups import per_group

RESPONSES = st.lists(st.tuples(st.integers(0, 5), st.integers(-50, 50)), min_size=1, max_size=20)


@pytest.mark.parametrize(
    ("reduce", "expected"), [("sum", sum), ("mean", statistics.fmean), ("amax", max), ("amin", min)]
)
@given(responses=RESPONSES)
def test_each_groups_value_is_of_its_own_responses_and_an_empty_group_has_zero(
    reduce: Any, expected: Callable[[Sequence[float]], float], responses: list[tuple[int, int]]
) -> None:
    group = torch.tensor([number for number, _ in responses])
    values = torch.tensor([value for _, value in responses], dtype=torch.float64)
    found = per_group(values, group, reduce).tolist()
    assert len(found) == max(number for number, _ in responses) + 1
    for number, one in enumerate(found):
        of_group = [value for which, value in responses if which == number]
        assert one == pytest.approx(expected(of_group) if of_group else 0)


def test_counts_stay_whole_numbers() -> None:
    found = per_group(torch.tensor([True, True, False]).long(), torch.tensor([2, 2, 0]))
    assert (found.tolist(), found.dtype) == ([0, 0, 2], torch.int64)
