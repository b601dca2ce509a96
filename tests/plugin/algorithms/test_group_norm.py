"""GRPO's advantages: OpenRLHF's bits for groups of one size, a loop for groups of any sizes."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from openrlhf_gtpo.algorithms.estimators import ESTIMATORS, estimator_named
from openrlhf_gtpo.algorithms.estimators import normalised_in_groups as group_norm

from .naive_mixed_policy import naive_group_norm


def openrlhfs(rewards: torch.Tensor, responses: int) -> torch.Tensor:
    """The group_norm estimator's own lines, on rewards in the order of their prompts."""
    rewards = rewards.reshape(-1, responses)
    return ((rewards - rewards.mean(-1, keepdim=True)) / (rewards.std(-1, keepdim=True) + 1e-9)).reshape(-1)


@pytest.mark.parametrize("responses", [2, 7, 8, 33])
@pytest.mark.parametrize("groups", [1, 5, 40])
def test_groups_of_one_size_get_openrlhfs_bits(groups, responses):
    generator = torch.Generator().manual_seed(groups * responses)
    rewards = torch.randn(groups * responses, generator=generator)
    ids = torch.randperm(groups, generator=generator).repeat_interleave(responses) * 10**12 - 5
    assert torch.equal(group_norm(rewards, ids), openrlhfs(rewards, responses))
    # Prompts interleaved, as long as each one's responses keep their order.
    order = torch.arange(groups * responses).reshape(groups, responses).T.reshape(-1)
    assert torch.equal(group_norm(rewards[order], ids[order]), openrlhfs(rewards, responses)[order])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(-8, 8), st.sampled_from([-3, 5, 10**12])), max_size=20), st.randoms())
def test_groups_of_any_sizes_agree_with_a_loop_in_any_order(rows, random):
    rewards = [eighths / 8 for eighths, _ in rows]
    ids = [g for _, g in rows]
    found = group_norm(torch.tensor(rewards, dtype=torch.float64), torch.tensor(ids, dtype=torch.int64))
    assert found.dtype == torch.float32
    assert found.tolist() == pytest.approx(naive_group_norm(rewards, ids), abs=1e-6)
    order = list(range(len(rows)))
    random.shuffle(order)
    turned = group_norm(
        torch.tensor([rewards[i] for i in order], dtype=torch.float64),
        torch.tensor([-ids[i] for i in order], dtype=torch.int64),
    )
    assert turned.tolist() == pytest.approx([found[i].item() for i in order], abs=1e-6)


IDS = torch.zeros(3, dtype=torch.int64)


@pytest.mark.parametrize(
    ("rewards", "group", "named"),
    [
        (torch.zeros(3, 4), IDS, r"rewards .*torch.float32 of shape \(3, 4\)"),
        (torch.zeros(3), IDS[:2], r"group .*\(3,\).*\(2,\)"),
        (torch.full((3,), math.nan), IDS, "rewards .*NaN"),
    ],
)
def test_bad_input_is_refused_and_named(rewards, group, named):
    with pytest.raises(ValueError, match=named):
        group_norm(rewards, group)


def test_it_is_also_called_grpo():
    assert estimator_named("grpo") is estimator_named("group_norm") is ESTIMATORS["group_norm"]
