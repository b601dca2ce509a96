"""Pass@k against counting by hand, and its interval against what it must cover."""

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openrlhf_gtpo.algorithms.pass_at_k import bootstrap, pass_at_k


@given(st.integers(1, 7), st.data())
def test_it_is_the_share_of_all_choices_of_k_responses_that_have_a_correct_one(n: int, data: st.DataObject) -> None:
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    choices = list(itertools.combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, choices)) / len(choices))


def test_the_interval_is_that_of_the_normal_distribution_where_there_are_many_prompts() -> None:
    source = random.Random(1)
    values = [source.random() for _ in range(400)]
    estimate = bootstrap(values)
    mean = sum(values) / 400
    half = 1.96 * math.sqrt(sum((v - mean) ** 2 for v in values) / 400 / 400)
    assert estimate.mean == pytest.approx(mean)
    assert estimate.low == pytest.approx(mean - half, abs=0.2 * half)
    assert estimate.high == pytest.approx(mean + half, abs=0.2 * half)
