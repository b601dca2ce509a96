"""What a random number follows from."""

import random

import numpy
import torch
from hypothesis import given
from hypothesis import strategies as st

from openrlhf_gtpo.seeds import derived, seed_process

purposes = st.lists(st.text(max_size=5) | st.integers(0, 10**6), max_size=4)


def test_a_seed_is_what_it_was_in_every_version() -> None:
    """sha256 of '[42, "policy", 7, 3]', its first eight bytes as a number, halved: by hashlib alone, once."""
    assert derived(42, "policy", 7, 3) == 3733105658862330135


@given(st.integers(0, 2**31), purposes, st.integers(0, 2**31), purposes)
def test_other_purposes_have_other_seeds_that_vllm_and_torch_take(
    one: int, its: list[str | int], other: int, others: list[str | int]
) -> None:
    first, second = derived(one, *its), derived(other, *others)
    assert 0 <= first < 2**63
    assert (first == second) == ((one, its) == (other, others))


def test_a_process_is_seeded_in_all_three_libraries() -> None:
    def drawn(seed: int) -> list[float]:
        seed_process(None, seed)
        return [random.random(), float(numpy.random.rand()), float(torch.rand(1))]

    assert drawn(5) == drawn(5)
    assert all(a != b for a, b in zip(drawn(5), drawn(2**63 - 1), strict=True))
