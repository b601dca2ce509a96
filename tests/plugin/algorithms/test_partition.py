"""Micro-batches of nearly the same number of tokens: as balanced as OpenRLHF's own, and in a fraction of its time."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openrlhf.utils.seqlen_balancing import get_seqlen_balanced_partitions

from openrlhf_gtpo.algorithms.partition import balanced_partition


def tokens(lengths: list[int], parts: list[list[int]]) -> list[int]:
    return [sum(lengths[i] for i in part) for part in parts]


def test_long_sequences_get_short_ones_beside_them() -> None:
    assert sorted(balanced_partition([8, 1, 7, 2, 6, 3], 3)) == [[0, 1], [2, 3], [4, 5]]


@given(st.lists(st.integers(1, 60), min_size=1, max_size=40), st.data())
def test_every_sequence_has_one_place_and_no_part_is_empty(lengths: list[int], data: st.DataObject) -> None:
    parts = data.draw(st.integers(1, len(lengths)))
    found = balanced_partition(lengths, parts)
    assert len(found) == parts
    assert all(part and part == sorted(part) for part in found)
    assert sorted(i for part in found for i in part) == list(range(len(lengths)))
    # Graham's bound for the longest part, in which the mean and the longest sequence stand for the best there is.
    least = max(sum(lengths) / parts, max(lengths))
    assert max(tokens(lengths, found)) <= 4 / 3 * least + max(lengths) / 3


@given(st.integers(1, 8), st.integers(1, 6), st.randoms(use_true_random=False))
def test_parts_of_equal_size_where_they_are_asked_for(parts: int, each: int, draw: random.Random) -> None:
    lengths = [draw.randint(1, 99) for _ in range(parts * each)]
    assert {len(part) for part in balanced_partition(lengths, parts, equal_size=True)} == {each}


def test_the_longest_part_is_as_short_as_openrlhfs_on_average_and_never_much_longer() -> None:
    draw, ratios = random.Random(0), []
    for _ in range(300):
        parts = draw.randint(2, 40)
        shape = draw.choice([lambda: draw.randint(1000, 4096), lambda: 50 + int(draw.lognormvariate(6.5, 1))])
        lengths = [shape() for _ in range(parts * draw.randint(1, 8))]
        ours = max(tokens(lengths, balanced_partition(lengths, parts)))
        ratios.append(ours / max(tokens(lengths, get_seqlen_balanced_partitions(lengths, parts, False))))
    assert sum(ratios) / len(ratios) <= 1
    assert max(ratios) < 1.05


@pytest.mark.parametrize(("count", "equal"), [(2, False), (7, True)])
def test_too_few_sequences_are_refused(count: int, equal: bool) -> None:
    with pytest.raises(ValueError, match=f"{count} sequences .* 3 "):
        balanced_partition([1] * count, 3, equal_size=equal)
